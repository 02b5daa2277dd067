package ike

import (
	"bytes"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// rekeyIKE has a host replace the IKE SA.
func (h *host) rekeyIKE() {
	h.t.Helper()
	h.step(Rekey{IKE: true})
}

// one: after quiet there is exactly one IKE SA at both ends, the same one, and it owns all children, which live.
func (n *network) one(children int) {
	n.t.Helper()
	for _, h := range []*host{n.a, n.b} {
		if h.sa == nil || h.finish != nil || !h.sa.Established() {
			n.dump()
			n.t.Fatalf("%s has no IKE SA", h.name)
		}
		if len(h.others) > 0 {
			n.dump()
			n.t.Fatalf("%s has %d further IKE SAs: %+v", h.name, len(h.others), h.others[0].Status())
		}
		if got := h.children(); got != children || len(h.sa.children) != children {
			n.dump()
			n.t.Fatalf("%s has %d children of which %d are up, want %d", h.name, len(h.sa.children), got, children)
		}
		if sas := h.plane.ledger.SAs(h.owner(h.sa)); len(sas) != 2*children || len(h.plane.sas) != 2*children {
			n.t.Errorf("%s: the IKE SA owns %d SAs, the data plane has %d, want %d", h.name, len(sas), len(h.plane.sas), 2*children)
		}
		if h.sa.next.pending != 0 || h.sa.next.replaced != nil || len(h.sa.next.heirs) > 0 || h.sa.next.batches != 0 {
			n.t.Errorf("%s: the succession goes on: %+v", h.name, h.sa.next)
		}
	}
	a, b := n.a.sa.Status(), n.b.sa.Status()
	if a.SPIi != b.SPIi || a.SPIr != b.SPIr || a.Initiated == b.Initiated || a.Suite != b.Suite || n.a.sa.PeerSPI() != n.b.sa.config.SPI {
		n.t.Errorf("the two sides differ:\n%+v\n%+v", a, b)
	}
	if !bytes.Equal(n.a.sa.keys.D.Bytes(), n.b.sa.keys.D.Bytes()) {
		n.t.Error("the two sides have different keys")
	}
	for _, c := range n.a.sa.children {
		if n.b.sa.findChild(func(x *child) bool { return x.spiIn == c.spiOut && x.spiOut == c.spiIn }) == nil {
			n.t.Errorf("child %s of a has no partner", c.spiText())
		}
	}
	n.paired()
}

// quiet lets time pass until all is said, but not so long that liveness or lifetimes would interfere.
func (n *network) quiet() {
	n.t.Helper()
	n.run(4*time.Minute, nil)
}

// TestIKERekey: either side, also the original responder.
func TestIKERekey(t *testing.T) {
	for _, who := range []string{"initiator", "responder"} {
		t.Run(who, func(t *testing.T) {
			n := newPair(t, setup{})
			n.up()
			first := n.a.sa
			h := n.a
			if who == "responder" {
				h = n.b
			}
			before := n.a.sa.Status()
			h.rekeyIKE()
			n.run(time.Second, nil)
			n.one(1)
			after := n.a.sa.Status()
			if n.a.sa == first || after.SPIi == before.SPIi || after.SPIr == before.SPIr || after.Initiated != (who == "initiator") {
				t.Errorf("before %+v\nafter %+v", before, after)
			}
			if before.Children[0].SPIIn != after.Children[0].SPIIn || after.Connection != before.Connection || after.RemoteID != before.RemoteID {
				t.Errorf("before %+v\nafter %+v", before, after)
			}
			if !first.finished {
				t.Error("the old IKE SA is still there")
			}
			n.a.wants(CodeIKERekeyed, "IKE SA rekeyed", "AES-GCM-256")
			n.b.wants(CodeIKERekeyed, "IKE SA rekeyed")
			if n.a.said(CodeChildDown) != nil || n.b.said(CodeChildDown) != nil {
				t.Error("a child went down")
			}
			h.step(Lower{})
			n.run(time.Minute, func() bool { return n.a.finish != nil && n.b.finish != nil })
			n.empty()
		})
	}
}

// TestIKERekeyDataPlane: nothing changes there.
func TestIKERekeyDataPlane(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	before := len(n.a.plane.ops) + len(n.b.plane.ops)
	n.a.rekeyIKE()
	n.run(time.Second, nil)
	n.one(1)
	if len(n.a.plane.ops)+len(n.b.plane.ops) != before {
		t.Errorf("%v\n%v", n.a.plane.ops, n.b.plane.ops)
	}
}

// TestIKERekeyFifty: fifty in a row, each begun by another side than the one before.
func TestIKERekeyFifty(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	seen := map[wire.SPI]bool{}
	for i := range 50 {
		h := []*host{n.a, n.b}[i%2]
		h.rekeyIKE()
		n.run(time.Second, nil)
		n.one(1)
		s := n.a.sa.Status()
		if seen[s.SPIi] || seen[s.SPIr] || s.Initiated != (i%2 == 0) {
			t.Fatalf("rekey %d: %+v", i, s)
		}
		seen[s.SPIi], seen[s.SPIr] = true, true
	}
	n.a.step(Lower{})
	n.run(time.Minute, func() bool { return n.a.finish != nil && n.b.finish != nil })
	n.empty()
}
