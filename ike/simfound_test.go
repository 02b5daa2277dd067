package ike

import (
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// These the simulation found first (test/sim).

// A datagram whose header is right and whose payloads are not leaves nothing behind.
func TestMalformedFirstMessage(t *testing.T) {
	n := newPair(t, setup{})
	n.b.sa = NewResponder(n.b.config)
	h := wire.Header{SPIi: 1, MajorVersion: 2, Exchange: wire.IKESAInit, Flags: wire.FlagInitiator, NextPayload: wire.PayloadSA, Length: wire.HeaderLen + 3}
	n.b.step(Packet{Path: Path{Local: apB, Remote: apA}, Data: append(h.AppendHeader(nil), 0, 0, 0)})
	if n.b.finish == nil || n.b.finish.Code != CodeIgnored {
		t.Errorf("finish %+v: a stranger's datagram keeps a machine", n.b.finish)
	}
}

// Both ends raise one child at once: one pair of it stays, and no packet is without an SA meanwhile.
func TestBothRaiseOneChild(t *testing.T) {
	n := newPair(t, two(`pfs = "no"`))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.run(time.Second, nil)
	n.a.step(RaiseChild{Child: "dmz"})
	n.b.step(RaiseChild{Child: "dmz"})
	n.run(time.Second, nil)
	if a, b := n.a.children(), n.b.children(); a != 3 || b != 3 {
		t.Fatalf("%d and %d children, 3 when both requests crossed", a, b)
	}
	n.run(outboundLimit+time.Second, nil)
	if a, b := n.a.children(), n.b.children(); a != 2 || b != 2 {
		t.Errorf("%d and %d children are left", a, b)
	}
	n.paired()
	if r := n.a.said(CodeChildDown); r != nil {
		t.Errorf("a child is said to be down: %s", r.Text)
	}
}

// Both ends rekey the IKE SA; our request is never answered, the peer's makes the successor. The old one has no request left: its message ID is used.
func TestNoRequestAfterOneThatWasNotAnswered(t *testing.T) {
	n := newPair(t, setup{})
	n.a.config.DrawSPI = func() wire.SPI { return 0xa2 }
	n.b.config.DrawSPI = func() wire.SPI { return 0xb2 }
	n.a.sa = NewInitiator(n.a.config, n.a.config.Snapshot.Connections[0])
	n.up()
	ids := make(map[uint32][]byte)
	n.hook = func(d datagram) []datagram {
		h, err := wire.ParseHeader(d.data)
		if err != nil || h.SPIi != n.a.config.SPI {
			return []datagram{d}
		}
		if d.from.Addr() == addrA && !h.Response() {
			if was, ok := ids[h.MessageID]; ok && string(was) != string(d.data) {
				t.Errorf("request %d of a has two contents", h.MessageID)
			}
			ids[h.MessageID] = d.data
			return nil
		}
		return []datagram{d}
	}
	old := n.a.sa
	n.a.step(Rekey{IKE: true})
	n.b.step(Rekey{IKE: true})
	n.run(10*time.Minute, nil)
	if n.a.sa == old || !old.Finished() || len(ids) != 1 {
		t.Errorf("a has sent %d requests under the old keys; finished %v", len(ids), old.Finished())
	}
}

// The peer rekeys a child before its answer, which made it, has come: it is not told that there is none.
func TestRekeyOfAChildNotHeardOf(t *testing.T) {
	n := newPair(t, two(`pfs = "no"`))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.run(time.Second, nil)
	n.hook = func(d datagram) []datagram {
		if h, err := wire.ParseHeader(d.data); err == nil && h.Exchange == wire.CreateChildSA && h.Response() && h.Initiator() != n.a.sa.initiator {
			return nil
		}
		return []datagram{d}
	}
	n.a.step(RaiseChild{Child: "dmz"})
	n.run(time.Second, nil)
	n.b.step(Rekey{Child: "dmz"})
	n.run(time.Second, nil)
	n.hook = nil
	n.run(30*time.Second, nil)
	if a, b := n.a.children(), n.b.children(); a != 2 || b != 2 {
		t.Errorf("%d and %d children", a, b)
	}
	n.paired()
}

// A data plane that does not follow the peer's new address has SAs under the old one: they go, and the child with them.
func TestMoveRefused(t *testing.T) {
	n, _ := natA(t, setup{})
	n.up()
	moved := netip.MustParseAddr("203.0.113.77")
	n.b.plane.fail = func(op xfrm.Op) error {
		if _, ok := op.(xfrm.MoveSA); ok {
			return errors.New("no memory")
		}
		return nil
	}
	was := n.hook
	n.hook = func(d datagram) []datagram {
		if d.to.Addr() == moved {
			d.to = netip.AddrPortFrom(outer, d.to.Port())
		}
		list := was(d)
		for i := range list {
			if list[i].from.Addr() == outer {
				list[i].from = netip.AddrPortFrom(moved, list[i].from.Port())
			}
		}
		return list
	}
	id := slices.Collect(func(yield func(xfrm.SAID) bool) {
		for id, s := range n.b.plane.sas {
			if s.Direction == xfrm.In {
				yield(id)
			}
		}
	})[0]
	n.b.step(Mapping{ID: id, From: netip.AddrPortFrom(moved, 24500)})
	n.run(10*time.Second, nil)
	n.b.wants(CodeDataplane, "refused to follow the peer")
	if len(n.b.plane.sas) != 0 || n.b.children() != 0 || n.a.children() != 0 {
		t.Errorf("%d SAs are left; children %d and %d", len(n.b.plane.sas), n.b.children(), n.a.children())
	}
}

// An answer to a replay goes to where that came from; the peer's mapping is kept alive all the same.
func TestReplayDoesNotDelayKeepalive(t *testing.T) {
	n, _ := natA(t, setup{})
	n.up()
	var last datagram
	was := n.hook
	n.hook = func(d datagram) []datagram {
		if h, err := wire.ParseHeader(d.data); err == nil && !h.Response() && d.from.Addr() == addrB {
			last = d
		}
		return was(d)
	}
	n.b.step(RaiseChild{Child: "lan"})
	n.b.sa.enqueue(&livenessExchange{})
	n.b.step(Wake{})
	n.run(time.Second, nil)
	before, _ := n.a.sa.Deadline()
	n.run(5*time.Second, nil)
	n.a.step(Packet{Path: Path{Local: netip.AddrPortFrom(inner, 4500), Remote: netip.MustParseAddrPort("198.18.0.1:4500")}, Data: last.data})
	if at, _ := n.a.sa.Deadline(); at != before {
		t.Errorf("the keepalive was due at %v and is due at %v", before, at)
	}
}

// A rekeyed child is to be deleted while another request has the window, and the time comes when it should have begun to send: that time is over for good.
func TestNoSpinOverADeletedSuccessor(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	old := n.b.sa.children[0]
	n.a.ask(wire.CreateChildSA, n.a.offer(0x7777, wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoESP, old.spiOut))...)
	next := n.b.sa.children[1]
	n.b.sa.requests.current = &livenessExchange{} // that waits for ever
	n.b.sa.deleteChild(next, "test")
	n.b.step(Wake{})
	n.now = next.outboundDue.Add(time.Second)
	n.b.step(Wake{})
	if at, ok := n.b.sa.Deadline(); ok && !n.now.Before(at) {
		t.Errorf("the deadline is %v ago", n.now.Sub(at))
	}
}

// A child reaches its hard limit while the peer's rekey of it is being answered, and the new inbound SA is not confirmed yet: the successor takes over all the same.
func TestHardLimitWhileThePeerRekeys(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	old := n.b.sa.children[0]
	n.a.step(Rekey{})
	if !n.run(time.Minute, func() bool { return len(n.b.sa.children) == 2 && n.b.sa.children[1].in == installing }) {
		t.Fatal("no rekey")
	}
	n.b.step(Expire{ID: old.outID(), Hard: true})
	n.run(time.Minute, nil)
	if n.a.children() != 1 || n.b.children() != 1 || len(n.b.plane.sas) != 2 || len(n.b.plane.pols) != 2 {
		t.Errorf("a has %d children, b %d, and %d SAs and %d policies", n.a.children(), n.b.children(), len(n.b.plane.sas), len(n.b.plane.pols))
	}
	n.paired()
}
