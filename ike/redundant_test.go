package ike

import (
	"fmt"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// TestRedundantChildStays: both rekey the child at once, and the side whose new one loses does not close it. The other side does, when that has had its time.
func TestRedundantChildStays(t *testing.T) {
	for seed := range uint64(4) {
		n := newPair(t, setup{seed: seed})
		n.up()
		late := n.now.Add(redundantLimit + 5*time.Second)
		n.hook = func(d datagram) []datagram { // no Delete of the loser's arrives
			from := n.rewire(d.from.Addr())
			if h, _ := wire.ParseHeader(d.data); h.Exchange == wire.Informational && !h.Response() && n.now < late {
				if x, ok := from.sa.requests.current.(*deleteExchange); ok && len(x.children) == 1 && x.children[0].redundant && x.children[0].initiated {
					return nil
				}
			}
			return []datagram{d}
		}
		n.a.step(Rekey{Child: "lan"})
		n.b.step(Rekey{Child: "lan"})
		n.run(redundantLimit-time.Second, nil)
		if len(n.a.sa.children) != 2 || len(n.b.sa.children) != 2 {
			t.Fatalf("a has %d children, b %d, want the redundant one too", len(n.a.sa.children), len(n.b.sa.children))
		}
		n.run(5*time.Second, nil)
		if min(len(n.a.sa.children), len(n.b.sa.children)) != 1 {
			t.Errorf("a has %d children, b %d, want one at the side that has given up waiting", len(n.a.sa.children), len(n.b.sa.children))
		}
		n.run(time.Minute, nil)
		n.one(1)
	}
}

// TestDuplicateStays: both raise the same child at once, and the original responder, which should give up the one that it asked for, does not know
// our rule. The initiator ends it when that has had its time.
func TestDuplicateStays(t *testing.T) {
	extra := "\n[connection.%s.child.extra]\nlocal = [\"10.%d.0.0/16\"]\nremote = [\"10.%d.0.0/16\"]\n"
	n := newPair(t, setup{a: gwA + fmt.Sprintf(extra, "site-b", 3, 4), b: gwB + fmt.Sprintf(extra, "site-a", 4, 3)})
	n.a.step(Initiate{Children: []string{"lan"}})
	n.run(time.Minute, func() bool { return n.a.children() == 1 && n.b.children() == 1 })
	n.a.step(RaiseChild{Child: "extra"})
	n.b.step(RaiseChild{Child: "extra"})
	ignorant := func() {
		for _, c := range n.b.sa.children {
			c.surplus = 0
		}
	}
	for range int(redundantLimit/time.Second) - 2 {
		n.run(time.Second, nil)
		ignorant()
	}
	if len(n.a.sa.children) != 3 || len(n.b.sa.children) != 3 {
		t.Fatalf("a has %d children, b %d, want the duplicate too", len(n.a.sa.children), len(n.b.sa.children))
	}
	n.run(5*time.Second, nil)
	if len(n.a.sa.children) != 2 || len(n.b.sa.children) != 2 {
		t.Errorf("a has %d children, b %d, want no duplicate", len(n.a.sa.children), len(n.b.sa.children))
	}
	for _, c := range n.a.sa.children {
		if c.config.Name == "extra" && !c.initiated {
			t.Error("the one that the responder asked for stays")
		}
	}
}
