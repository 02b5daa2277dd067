package daemon

import (
	"context"
	"testing"
	"time"

	"cygnet/ike/control"
	"cygnet/ike/shard"
	"cygnet/xfrm"
	"cygnet/xfrm/xfrmfake"
)

// keep notes a daemon while it is launched.
func keep(to **Daemon) func(*Daemon) { return func(d *Daemon) { *to = d } }

// owned says what the ledger books under the one established IKE SA of a daemon, and in all.
func owned(t *testing.T, d *Daemon) (mine, all int) {
	t.Helper()
	v, err := d.view(d.snapshot.Load().Connections[0].Name)
	if err != nil || len(v.machines) != 1 {
		t.Fatalf("%d machines, %v", len(v.machines), err)
	}
	d.inPlane(func(p *plane) {
		_, mine = p.ledger.Holds(shard.Owner(ownSPI(v.machines[0])))
		_, all = p.ledger.Size()
		if len(p.spis) != 1 {
			t.Errorf("%d machines are known to the data plane: %v", len(p.spis), p.spis)
		}
	})
	return mine, all
}

// oneIKE: there is one IKE SA, with another SPI than before; those that it replaced have gone.
func oneIKE(before string) func(control.Connection) bool {
	return func(c control.Connection) bool {
		return len(c.IKE) == 1 && c.IKE[0].Phase == "established" && c.IKE[0].SPIi != before && len(c.IKE[0].Children) == 1
	}
}

// TestIKERekeys: from either side in turn: the children stay as they are, the ledger and the directory follow, and nothing is left after down.
func TestIKERekeys(t *testing.T) {
	sa, sb := pair(t)
	var da, db *Daemon
	b, a := launch(t, sb, xfrmfake.New(), keep(&db)), launch(t, sa, xfrmfake.New(), keep(&da))
	if _, f := a.up("b"); f != nil {
		t.Fatal(f)
	}
	b.await("B up", isUp)
	first := a.status().IKE[0]
	before := first
	for i := range 4 {
		n, peer := a, "b"
		if i%2 == 0 {
			n, peer = b, "a"
		}
		if text, f := n.rekey(peer, "", true); f != nil {
			t.Fatalf("%v\n%s", f, text)
		}
		a.await("one IKE SA at A", oneIKE(before.SPIi))
		b.await("one IKE SA at B", oneIKE(before.SPIi))
		x, y := a.status().IKE[0], b.status().IKE[0]
		if x.SPIi != y.SPIi || x.SPIr != y.SPIr || x.Initiator != (n == a) || y.Initiator == x.Initiator {
			t.Errorf("IKE SAs differ: %+v %+v", x, y)
		}
		if x.Children[0].SPIIn != first.Children[0].SPIIn || x.Children[0].SPIOut != y.Children[0].SPIIn {
			t.Errorf("child changed: %+v %+v", first.Children[0], x.Children[0])
		}
		for _, d := range []*Daemon{da, db} {
			if mine, all := owned(t, d); mine != 2 || all != 2 {
				t.Errorf("the IKE SA owns %d of %d SAs, want both", mine, all)
			}
		}
		before = x
	}
	sameKeys(t, a.plane, b.plane)
	if !isUp(a.status()) || !isUp(b.status()) {
		t.Error("not up")
	}
	if _, f := a.down("b"); f != nil {
		t.Fatal(f)
	}
	a.wantInstalled(nothing)
	b.wantInstalled(nothing)
	b.await("B down", isDown)
	a.plane.Faults()
}

// TestIKERekeyDriverEvents: what the data plane tells about a child after a rekey reaches the new owner: a child whose hard limit is reached goes.
func TestIKERekeyDriverEvents(t *testing.T) {
	sa, sb := pair(t)
	b, a := launch(t, sb, xfrmfake.New()), launch(t, sa, xfrmfake.New())
	if _, f := a.up("b"); f != nil {
		t.Fatal(f)
	}
	b.await("B up", isUp)
	if _, f := a.rekey("b", "", true); f != nil {
		t.Fatal(f)
	}
	s, _ := a.plane.Dump(context.Background())
	var in xfrm.SAID
	for _, x := range s.SAs {
		if x.Direction == xfrm.In {
			in = x.ID
		}
	}
	a.plane.Raise(xfrm.Expire{ID: in, Hard: true})
	waitFor(t, "the child goes", func() bool { _, ok := a.plane.Keys(in); return !ok })
}

// TestReauthentication: a new IKE SA with new children takes the place of the old one, and at no time is there none. The responder asks for it by
// AUTH_LIFETIME when it is the one that limits.
func TestReauthentication(t *testing.T) {
	sa, sb := pair(t)
	sa.start = "manual\"\nreauth_time = \"3s\"\nover_time = \"1m\"\nrekey_time = \"0s"
	b, a := launch(t, sb, xfrmfake.New()), launch(t, sa, xfrmfake.New())
	if _, f := a.up("b"); f != nil {
		t.Fatal(f)
	}
	b.await("B up", isUp)
	before := a.status().IKE[0]
	end := time.Now().Add(8 * time.Second)
	for !oneIKE(before.SPIi)(a.status()) || a.status().IKE[0].Children[0].SPIIn == before.Children[0].SPIIn {
		if fate, _ := a.plane.Outbound(toB); fate != xfrmfake.Protected {
			t.Fatalf("a packet is %v", fate)
		}
		if time.Now().After(end) {
			t.Fatalf("no other IKE SA in time: %+v", a.status().IKE)
		}
	}
	b.await("the new one at B", func(c control.Connection) bool { return isUp(c) })
	if fate, _ := a.plane.Outbound(toB); fate != xfrmfake.Protected {
		t.Errorf("a packet is %v", fate)
	}
	if _, f := a.down("b"); f != nil {
		t.Fatal(f)
	}
	a.wantInstalled(nothing)
	b.wantInstalled(nothing)
}
