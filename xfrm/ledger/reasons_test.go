package ledger

import (
	"errors"
	"testing"

	"cygnet/xfrm"
)

// TestPrioritiesCountInOrder: one bit of a prefix outweighs the protocol, and the protocol all ports.
func TestPrioritiesCountInOrder(t *testing.T) {
	sel := func(src, dst string, proto uint8, ports xfrm.Ports) xfrm.Selector {
		return xfrm.Selector{Src: prefix(src), Dst: prefix(dst), Proto: proto, DstPorts: ports}
	}
	any, one := xfrm.Ports{}, xfrm.Ports{First: 443, Last: 443}
	for _, c := range []struct{ first, then xfrm.Selector }{
		{sel("10.0.0.0/24", "10.1.0.0/24", 0, any), sel("10.0.0.0/23", "10.1.0.0/24", 6, any)},
		{sel("10.0.0.0/24", "10.1.0.0/24", 0, any), sel("10.0.0.0/24", "10.1.0.0/23", 6, any)},
		{sel("10.0.0.0/24", "10.1.0.0/24", 6, any), sel("10.0.0.0/24", "10.1.0.0/24", 0, one)},
		{sel("10.0.0.0/24", "10.1.0.0/24", 6, one), sel("10.0.0.0/24", "10.1.0.0/24", 6, xfrm.Ports{First: 443, Last: 444})},
		{sel("10.0.0.0/24", "10.1.0.0/24", 0, any), sel("10.0.0.0/23", "10.1.0.0/24", 0, one)},
	} {
		if Priority(c.first) >= Priority(c.then) {
			t.Errorf("%v has %#x, %v has %#x", c.first, Priority(c.first), c.then, Priority(c.then))
		}
	}
	widest, narrowest := Priority(sel("::/0", "::/0", 0, any)), Priority(sel("2001:db8::1/128", "2001:db8::2/128", 6, xfrm.Ports{First: 7, Last: 7}))
	if widest > PriorityLast || narrowest < PriorityFirst {
		t.Errorf("from %#x to %#x", narrowest, widest)
	}
}

// TestReasons: what a batch is refused for.
func TestReasons(t *testing.T) {
	for _, c := range []struct {
		batch xfrm.Batch
		want  string
	}{
		{xfrm.Batch{Claims: []xfrm.Claim{{Slot: outSlot("10.1.0.0/16", "10.2.0.0/16"), Action: xfrm.Protect}}},
			`batch of "x" adds SAs or protecting claims without a lineage: there is no reqid for them`},
		{xfrm.Batch{Lineage: "l", Update: []xfrm.Op{xfrm.PutPolicy{}}}, `batch of "x" has xfrm.PutPolicy among its updates: only UpdateSA and MoveSA belong there`},
	} {
		l := New()
		if _, err := l.Plan("x", c.batch); err == nil || err.Error() != c.want {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
	l := New()
	if _, err := l.Plan("x", xfrm.Batch{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Plan("x", xfrm.Batch{}); err == nil || err.Error() != "the previous plan was neither committed nor rolled back" {
		t.Errorf("got %v", err)
	}
}

// TestTrap_3948_5_OneInnerAddress: while a Child SA of one peer has a slot no other peer gets it, whatever their IKE SAs; the same peer does, and so does
// another when the first is gone.
func TestTrap_3948_5_OneInnerAddress(t *testing.T) {
	l := New()
	claims := func(peer string, spi uint32) xfrm.Batch {
		c := protect(lan, xfrm.RankChild, spi)
		c.Peer = peer
		return xfrm.Batch{Lineage: "b/lan/" + peer, Add: []xfrm.SA{addOut(spi)}, Claims: []xfrm.Claim{c}}
	}
	book(t, l, "conn:b", xfrm.Batch{Lineage: "b/lan", Claims: []xfrm.Claim{protect(lan, xfrm.RankTrap, 0)}})
	book(t, l, "ike:1", claims("first", 1))
	_, err := l.Plan("ike:2", claims("second", 2))
	var taken *xfrm.TakenError
	if !errors.As(err, &taken) || taken.Peer != "first" {
		t.Fatalf("a second peer: %v", err)
	}
	book(t, l, "ike:3", claims("first", 3))
	l.Finish("ike:1")
	if _, err := l.Plan("ike:2", claims("second", 2)); !errors.As(err, &taken) {
		t.Fatalf("the first peer has another IKE SA: %v", err)
	}
	l.Finish("ike:3")
	book(t, l, "ike:2", claims("second", 2))
}
