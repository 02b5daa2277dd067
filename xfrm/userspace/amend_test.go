package userspace

import (
	"context"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"cygnet/xfrm"
)

// sameSet compares lists in which nothing is twice.
func sameSet[T comparable](a, b []T) bool {
	return len(a) == len(b) && maps.Equal(setOf(a), setOf(b)) && len(setOf(a)) == len(a)
}

// Whatever comes and goes, one after the other, the host has what a plan of all policies wants, and a policy that concerns no other is not a reason to
// plan.
func TestAmendAgreesWithAPlan(t *testing.T) {
	ctx := context.Background()
	amended, planned := 0, 0
	for seed := range uint64(60) {
		w := world{rand.New(rand.NewPCG(seed, 2))}
		b := newBench(t)
		s := b.Driver.host
		b.host.addresses = []netip.Addr{netip.MustParseAddr("10.1.1.1"), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd00:0:0:1:100::2")}
		for range 60 {
			p := w.hostPolicy(seed%4 > 0)
			var before, after *xfrm.Policy
			if there := b.contents.policies[p.Slot]; there != nil {
				before = &there.Policy
			}
			if before == nil || w.IntN(3) == 0 {
				after = &p
			}
			if after != nil {
				b.contents.putPolicy(&policy{Policy: p})
			} else {
				b.contents.removePolicy(p.Slot)
			}
			done, err := s.amend(ctx, before, after)
			if err == nil && !done {
				err = s.apply(ctx, b.policyList())
			}
			if err != nil {
				t.Fatal(err)
			}
			if done {
				amended++
			} else {
				planned++
			}
			want, err := s.plan(ctx, b.policyList())
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case !sameSet(s.rulesNow, want.rules) || !sameSet(b.host.rules.have, want.rules):
				t.Fatalf("seed %d, amended %v by %+v -> %+v: rules\n%v\nwant\n%v", seed, done, before, after, s.rulesNow, want.rules)
			case !sameSet(s.guardsNow, want.guards) || !sameSet(b.host.guards.have, want.guards):
				t.Fatalf("seed %d, amended %v by %+v -> %+v: guards\n%v\nwant\n%v", seed, done, before, after, s.guardsNow, want.guards)
			case len(s.routes) != len(want.routes) || len(b.host.routes) != len(want.routes):
				t.Fatalf("seed %d: routes to %d, want %d", seed, len(s.routes), len(want.routes))
			}
			for dst, routes := range want.routes {
				if !slices.Equal(s.routes[dst], routes) || !slices.Equal(b.host.routes[owner(s.link.Name, dst)], routes) {
					t.Fatalf("seed %d: routes to %v: %v, want %v", seed, dst, s.routes[dst], routes)
				}
			}
		}
	}
	t.Logf("%d amended, %d planned", amended, planned)
	if amended < 500 || planned < 500 {
		t.Errorf("%d amended, %d planned: both are to be tried", amended, planned)
	}
}

// hostPolicy is one of few, so that they come and go, and of many kinds; simple ones are of networks that do not lie in each other.
func (w world) hostPolicy(simple bool) xfrm.Policy {
	if !simple {
		p := w.policy()
		p.Slot.Mark = 0
		p.Template.Src = netip.AddrFrom4([4]byte{10, byte(w.IntN(3)), 0, 1})
		p.Template.Dst = []netip.Addr{{}, w.addr(false), remote.Addr()}[w.IntN(3)]
		return p
	}
	sel := xfrm.Selector{Src: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 1, byte(w.IntN(2)), 0}), 24), Dst: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(w.IntN(4)), 0}), 24)}
	if w.IntN(3) == 0 {
		sel.Src = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 7: byte(w.IntN(2))}), 64)
		sel.Dst = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfc, 7: byte(w.IntN(4))}), 64)
	}
	p := outPolicy(sel, 1, uint32(w.IntN(3)))
	switch w.IntN(12) {
	case 0:
		p.Action, p.Priority = xfrm.Pass, p.Priority+uint32(w.IntN(2))
	case 1:
		p.Action = xfrm.Block
	case 2, 3, 4:
		p.Slot.Direction = xfrm.In
		p.Slot.Selector.Src, p.Slot.Selector.Dst = sel.Dst, sel.Src
	case 5:
		p.Template.Dst = sel.Dst.Addr() // the peer itself
		p.Template.Src = netip.AddrFrom4([4]byte{10, 1, byte(w.IntN(4)), 1})
	}
	return p
}

// What the host refuses is not believed to be there: the next change looks at everything.
func TestAmendAfterAnError(t *testing.T) {
	b := newBench(t)
	b.apply(t, childOps(0)...)
	b.apply(t, childOps(1)...)
	if b.Driver.host.effects == nil {
		t.Fatal("nothing is known of the host")
	}
	b.host.fail = context.Canceled
	if b.Apply(context.Background(), childOps(2)) == nil {
		t.Fatal("no error")
	}
	b.host.fail = nil
	b.apply(t, childOps(3)...)
	want, err := b.Driver.host.plan(context.Background(), b.policyList())
	if err != nil || !sameSet(b.host.guards.have, want.guards) || len(b.host.routes) != 3 {
		t.Errorf("%v, guards %v, routes %v", err, b.host.guards.have, b.host.routes)
	}
}

// The last of a family takes with it what all of that family need.
func TestAmendToNothing(t *testing.T) {
	b := newBench(t)
	var slots []xfrm.Op
	for n := range byte(3) {
		p := outPolicy(selector("fd01::/64", "fd02::/64"), 1, 1)
		p.Slot.Selector.Dst = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 1: 2, 7: n}), 64)
		b.apply(t, xfrm.PutPolicy{Policy: p})
		slots = append(slots, xfrm.RemovePolicy{Slot: p.Slot})
	}
	b.apply(t, slots...)
	if len(b.host.guards.have) != 0 || len(b.host.rules.have) != 0 || len(b.host.routes) != 0 {
		t.Errorf("left: %v %v %v", b.host.guards.have, b.host.rules.have, b.host.routes)
	}
}
