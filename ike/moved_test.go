package ike

import (
	"net/netip"
	"testing"
	"time"
)

// TestFollow: an IKE SA moves with its sibling, once, and only from the path on which it stands and where it would follow a packet.
func TestFollow(t *testing.T) {
	n, _ := natA(t, setup{still: true})
	n.up()
	from := n.b.sa.path
	to := Path{Local: from.Local, Remote: netip.MustParseAddrPort("203.0.113.77:4999")}
	n.b.step(Follow{From: to, To: from})
	if n.b.sa.path != from {
		t.Fatalf("it followed from a path that was never its own to %v", n.b.sa.path)
	}
	n.b.step(Follow{From: from, To: to})
	n.run(5*time.Millisecond, nil)
	if n.b.sa.path != to || len(n.b.moved) != 1 || n.b.moved[0] != (Moved{from, to}) {
		t.Errorf("path %v, told %v", n.b.sa.path, n.b.moved)
	}
	for id, s := range n.b.plane.sas {
		if id.Dst != to.Remote.Addr() && s.Src != to.Remote.Addr() {
			t.Errorf("%v stays", id)
		}
	}
	n.a.step(Follow{From: n.a.sa.path, To: to})
	if n.a.sa.path.Remote == to.Remote {
		t.Error("the side behind the NAT followed")
	}
	plain := newPair(t, setup{})
	plain.up()
	before := plain.b.sa.path
	if plain.b.step(Follow{From: before, To: to}); plain.b.sa.path != before {
		t.Error("without a NAT it followed")
	}
}
