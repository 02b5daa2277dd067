package ike

import (
	"testing"
	"time"

	"cygnet/ike/wire"
)

// TestDeleteComesFirst: the peer deletes a replaced child while our own Delete of it waits to be sent. The answer has a Delete, and ours is not sent: RFC 7296 section 1.4.1 leaves
// the Delete out of an answer only where both are on the wire.
func TestDeleteComesFirst(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	old := n.a.sa.children[0]
	theirs := n.b.sa.children[0]
	n.a.step(Rekey{Child: "lan"})
	if !n.run(time.Second, func() bool { return old.deleting }) {
		t.Fatal("not rekeyed")
	}
	var requests, answers int
	n.hook = func(d datagram) []datagram {
		h, _ := wire.ParseHeader(d.data)
		switch from := n.rewire(d.from.Addr()); {
		case from != n.a || h.Exchange != wire.Informational:
		case !h.Response():
			requests++
		case len(d.data) == wire.HeaderLen+4+8+12+1+16: // SK with an IV of 8, a Delete of one SPI, no padding, an ICV of 16
			answers++
		}
		return []datagram{d}
	}
	n.b.do(func(sa *SA) { sa.deleteChild(theirs, "first") })
	n.run(10*time.Second, nil)
	if requests != 0 || answers != 1 {
		t.Errorf("a has sent %d Deletes of its own, and %d answers with a Delete", requests, answers)
	}
	n.one(1)
}

// do has a machine do something as in a turn.
func (h *host) do(what func(*SA)) {
	h.t.Helper()
	var out Actions
	h.sa.out, h.sa.now = &out, h.net.now
	what(h.sa)
	h.sa.pump()
	h.sa.out = nil
	for _, a := range out.List {
		h.act(h.sa, a)
	}
}
