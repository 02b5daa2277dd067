package ike

import (
	"errors"
	"testing"
	"time"

	"cygnet/policy"
	"cygnet/xfrm"
)

// elder has an older instance of the child stand on another IKE SA of b before a comes. It returns the slot in which both send.
func (n *network) elder() xfrm.Slot {
	n.t.Helper()
	conn := n.b.config.Snapshot.Connections[0]
	slot := xfrm.Slot{Direction: xfrm.Out, Selector: policy.Selectors(conn.Children[0].Local, conn.Children[0].Remote)[0]}
	b := xfrm.Batch{Lineage: Lineage(conn.Name, "lan", conn.Remote.ID), Claims: []xfrm.Claim{{Slot: slot, Rank: xfrm.RankChild,
		Template: xfrm.Template{Src: addrB, Dst: addrA, Mode: xfrm.Tunnel, SPI: 0xe1de4}}}}
	if _, err := n.b.plane.batch(n.t, "elder", b); err != nil {
		n.t.Fatal(err)
	}
	n.up()
	if p := n.b.plane.pols[slot]; p.Template.SPI != 0xe1de4 {
		n.t.Errorf("the new child sends at once: %+v", p)
	}
	return slot
}

// TestStepForward: a child that the peer asked for stands behind an older instance until the peer is seen to have it, or until a time has passed.
func TestStepForward(t *testing.T) {
	rank := func(h *host) (out, in xfrm.Rank) {
		for _, c := range h.sa.children[0].claims() {
			if c.Slot.Direction == xfrm.Out {
				out = c.Rank
			} else {
				in = c.Rank
			}
		}
		return out, in
	}
	for _, by := range []string{"first use", "time"} {
		n := newPair(t, setup{})
		slot := n.elder()
		b := n.b.sa
		c := b.children[0]
		if out, in := rank(n.b); out != xfrm.RankNext || in != xfrm.RankChild {
			t.Errorf("the responder's policies have ranks %v and %v", out, in)
		}
		if out, in := rank(n.a); out != xfrm.RankChild || in != xfrm.RankChild {
			t.Errorf("the initiator's policies have ranks %v and %v", out, in)
		}
		if at, ok := c.behindDue(); !ok || at.Sub(n.now) > behindLimit {
			t.Errorf("due %v, %v", at.Sub(n.now), ok)
		}
		ops := len(n.b.plane.ops)
		switch by {
		case "first use":
			n.b.step(FirstUse{c.inID()})
		case "time":
			n.run(behindLimit, nil)
		}
		if out, _ := rank(n.b); out != xfrm.RankChild || c.behind != 0 {
			t.Errorf("%s: rank %v", by, out)
		}
		if _, ok := c.behindDue(); ok {
			t.Errorf("%s: still due", by)
		}
		n.run(time.Second, nil)
		done := len(n.b.plane.ops)
		if done == ops {
			t.Errorf("%s: the data plane was not told", by)
		}
		if n.b.step(FirstUse{c.inID()}); len(n.b.plane.ops) != done {
			t.Errorf("%s: told twice", by)
		}
		if p, ok := n.b.plane.pols[slot]; !ok || p.Template.SPI != c.spiOut {
			t.Errorf("%s: policy %+v", by, p)
		}
	}
}

// TestStepForwardRefused: a data plane that refuses leaves the child where it is, and the operator reads of it.
func TestStepForwardRefused(t *testing.T) {
	n := newPair(t, setup{})
	n.elder()
	n.b.plane.fail = func(op xfrm.Op) error { return errors.New("no memory") }
	n.b.step(FirstUse{n.b.sa.children[0].inID()})
	n.run(time.Second, nil)
	n.b.plane.fail = nil
	if !n.b.sa.Established() || n.b.children() != 1 {
		t.Error("the child is gone")
	}
	n.b.wants(CodeIgnored, "child lan: its policies stay behind those of an older instance: ")
}
