package userspace

import (
	"cmp"
	"net/netip"
	"slices"
	"sync/atomic"

	"cygnet/xfrm"
)

// policy is a filled slot.
type policy struct {
	xfrm.Policy
	asked atomic.Int64 // when Acquire was last raised, seconds since the epoch; 0: not since an SA was there
}

// bound is an outbound policy with the SA that serves it.
type bound struct {
	*policy
	sa *sa // nil: none
}

// tables is what the packet path sees: SAs and policies at one instant. It is never changed.
type tables struct {
	in      map[xfrm.SAID]*sa
	lengths []int // of the destination prefixes that occur
	out     map[netip.Prefix][]bound
}

// newTables: of several outbound SAs with the reqid of a policy the one that the template names is taken, else the latest. Equal priorities
// are ordered by selector, so that the choice never depends on chance.
func newTables(sas map[xfrm.SAID]*sa, policies map[xfrm.Slot]*policy) *tables {
	t := &tables{in: make(map[xfrm.SAID]*sa), out: make(map[netip.Prefix][]bound)}
	latest := make(map[uint32]*sa)
	for id, s := range sas {
		if s.direction == xfrm.In {
			t.in[id] = s
			continue
		}
		if l := latest[s.reqID]; l == nil || l.birth < s.birth {
			latest[s.reqID] = s
		}
	}
	for slot, p := range policies {
		if slot.Direction != xfrm.Out {
			continue
		}
		b := bound{policy: p}
		if p.Action == xfrm.Protect {
			named := sas[xfrm.SAID{Dst: p.Template.Dst, SPI: p.Template.SPI, Proto: xfrm.ProtoESP}]
			if named == nil || named.direction != xfrm.Out || named.reqID != p.Template.ReqID {
				named = latest[p.Template.ReqID]
			}
			b.sa = named
		}
		dst := slot.Selector.Dst
		t.out[dst] = append(t.out[dst], b)
		if !slices.Contains(t.lengths, dst.Bits()) {
			t.lengths = append(t.lengths, dst.Bits())
		}
	}
	for _, list := range t.out {
		slices.SortFunc(list, func(a, b bound) int {
			return cmp.Or(cmp.Compare(a.Priority, b.Priority), compareSelectors(&a.Slot.Selector, &b.Slot.Selector))
		})
	}
	slices.Sort(t.lengths)
	slices.Reverse(t.lengths)
	return t
}

// find returns the outbound policy for a packet: of those that match the one with the smallest priority number; among equals the one
// with the longest destination prefix.
func (t *tables) find(f *flow) (best bound, ok bool) {
	for _, n := range t.lengths {
		prefix, err := f.dst.Prefix(n)
		if err != nil {
			continue // longer than an IPv4 address
		}
		for _, b := range t.out[prefix] {
			if ok && b.Priority >= best.Priority {
				break
			}
			if matches(&b.Slot.Selector, f) {
				best, ok = b, true
				break
			}
		}
	}
	return best, ok
}

func compareSelectors(a, b *xfrm.Selector) int {
	return cmp.Or(
		comparePrefixes(a.Dst, b.Dst), comparePrefixes(a.Src, b.Src), cmp.Compare(b.Proto, a.Proto),
		cmp.Compare(a.DstPorts.First, b.DstPorts.First), cmp.Compare(a.DstPorts.Last, b.DstPorts.Last),
		cmp.Compare(a.SrcPorts.First, b.SrcPorts.First), cmp.Compare(a.SrcPorts.Last, b.SrcPorts.Last),
	)
}

// comparePrefixes puts longer ones first.
func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(cmp.Compare(b.Bits(), a.Bits()), a.Addr().Compare(b.Addr()))
}
