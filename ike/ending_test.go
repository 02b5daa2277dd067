package ike

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// TestLowerUnanswered: the operator takes it down while IKE_AUTH waits for its answer, which never comes: the end says what the operator said.
func TestLowerUnanswered(t *testing.T) {
	for name, silent := range map[string]time.Duration{"at once": 0, "when the tries are over": 38 * time.Second} {
		n := newPair(t, setup{})
		n.a.step(Initiate{})
		n.run(time.Second, func() bool { return n.a.sa.phase.name() == phaseAuthenticating })
		n.hook = func(datagram) []datagram { return nil }
		n.run(silent, nil)
		n.a.step(Lower{Why: "changed my mind"})
		asked := n.now
		n.run(time.Minute, func() bool { return n.a.finish != nil })
		f := n.a.finish
		if f == nil || f.Code != CodeClosed || f.Text != "changed my mind" || f.Retry || n.now.Sub(asked) > closingLimit {
			t.Errorf("%s: %+v after %v", name, f, n.now.Sub(asked))
		}
	}
}

// TestRemoveWhileMoving: a child goes while the data plane still moves its SAs to a new address: both names are removed, since either may be the true one.
func TestRemoveWhileMoving(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	sa := n.b.sa
	c := sa.children[0]
	old := []xfrm.SAID{c.inID(), c.outID()}
	var out Actions
	sa.now, sa.out = n.now, &out
	from := sa.path
	sa.path.Local, sa.path.Remote = netip.MustParseAddrPort("203.0.113.2:500"), netip.MustParseAddrPort("203.0.113.1:500")
	sa.moveChild(c, from)
	moved := []xfrm.SAID{c.inID(), c.outID()}
	sa.remove(c, true, true)
	if c.path != sa.path || c.placed != from {
		t.Errorf("path %v, placed %v", c.path, c.placed)
	}
	batches := []xfrm.Batch{}
	for _, x := range out.List {
		batches = append(batches, x.(SADB).Batch)
	}
	if len(batches) != 2 {
		t.Fatalf("%d batches", len(batches))
	}
	want := []xfrm.SAID{moved[0], old[0], moved[1], old[1]}
	if got := batches[1].Remove; !slices.Equal(got, want) {
		t.Errorf("removed %v, want %v", got, want)
	}
	// Once the data plane has answered there is one name.
	sa.path, c.path, c.placed, c.in = from, from, from, installed
	out.Reset()
	sa.remove(c, true, false)
	if got := out.List[0].(SADB).Batch.Remove; !slices.Equal(got, old[:1]) {
		t.Errorf("removed %v, want %v", got, old[:1])
	}
}

// TestPeerWentOn: a rekeyed child sends from the peer's next request on, which shows that it has the new pair; not after a Delete alone of something else.
func TestPeerWentOn(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.tamper(func(o *opened) bool { return false })
	n.a.ask(wire.CreateChildSA, append([]wire.Payload{wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoESP, n.a.sa.children[0].spiIn)}, n.a.offer(0x7001)...)...)
	if len(n.b.sa.children) != 2 {
		t.Fatalf("%d children", len(n.b.sa.children))
	}
	c := n.b.sa.children[1]
	if c.out != absent || c.outboundDue == 0 {
		t.Fatalf("outbound %v, due %v", c.out, c.outboundDue)
	}
	n.a.ask(wire.Informational, &wire.Delete{Protocol: wire.ProtoESP, SPIs: []uint32{0x9999}})
	if c.out != absent {
		t.Error("a Delete has it send")
	}
	n.a.ask(wire.Informational)
	if c.out != installed || c.outboundDue != 0 {
		t.Errorf("the peer went on: outbound %v, due %v", c.out, c.outboundDue)
	}
}

// TestAuthLifetimeIsTold.
func TestAuthLifetimeIsTold(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.b.ask(wire.Informational, wire.NewNotify(wire.NotifyAuthLifetime, []byte{0, 0, 0, 90}))
	n.a.wants(CodeIgnored, "the peer wants us to authenticate anew within 90 s (AUTH_LIFETIME)")
}
