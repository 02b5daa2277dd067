package userspace

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"

	"cygnet/xfrm"
)

// policy is a filled slot.
type policy struct {
	xfrm.Policy
	asked atomic.Int64 // when Acquire was last raised, seconds since the epoch; 0: not since an SA was there
	bound *sa          // that tables have for it; of the one who changes them
}

// bound is an outbound policy with the SA that serves it.
type bound struct {
	*policy
	sa *sa // nil: none
}

// tables is what the packet path sees: SAs and policies at one instant. It is never changed.
type tables struct {
	arrivals buckets[arrival]
	out      [2][]tuple // of IPv4 and IPv6, in the order in which they are looked at
	seed     seed
}

// arrival is an inbound SA as a packet names it.
type arrival struct {
	id xfrm.SAID
	sa *sa
}

// tuple holds the outbound policies whose prefixes have the same lengths: one look into it finds those that match (tuple space search).
type tuple struct {
	dst, src length
	least    uint32         // the smallest priority number in it
	census   map[uint32]int // of priority numbers; of the one who changes tables
	buckets[entry]
}

// length of a prefix.
type length struct {
	bits int
	mask words
}

// entry is an outbound policy as it is looked up, in one cache line with the chain's pointer.
type entry struct {
	dst, src words // of the prefixes
	policy   *policy
	sa       *sa
	priority uint32
	narrow   bool // the protocol or the ports matter too
}

// words of an address: IPv4 has the lower half of the second.
type words [2]uint64

func wordsOf(a netip.Addr) words {
	if a.Is4() {
		b := a.As4()
		return words{0, uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := a.As16()
	return words{binary.BigEndian.Uint64(b[:]), binary.BigEndian.Uint64(b[8:])}
}

func (w words) and(m words) words { return words{w[0] & m[0], w[1] & m[1]} }

func lengthOf(p netip.Prefix) length {
	n := p.Bits()
	if p.Addr().Is4() {
		return length{n, words{0, uint64(^uint32(0) << (32 - n))}}
	}
	return length{n, words{^uint64(0) << max(0, 64-n), ^uint64(0) << min(64, 128-n)}}
}

// seed keeps those who choose addresses and SPIs from choosing collisions.
type seed [4]uint64

func newSeed() seed { return seed{rand.Uint64() | 1, rand.Uint64(), rand.Uint64() | 1, rand.Uint64()} }

func (s *seed) pair(dst, src words) uint64 {
	h := mix(dst[0]^s[0], dst[1]^s[1])
	return mix(src[0]^h^s[2], src[1]^s[3])
}

func (s *seed) spi(n uint32) uint64 { return mix(uint64(n)^s[0], s[1]) }

func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

func emptyTables() tables {
	s := newSeed()
	return tables{seed: s, arrivals: newBuckets(func(a *arrival) uint64 { return s.spi(a.id.SPI) })}
}

// inbound returns the SA of a packet; nil: none.
func (t *tables) inbound(id xfrm.SAID) *sa {
	for c := t.arrivals.at(t.seed.spi(id.SPI)); c != nil; c = c.next {
		if c.value.id == id {
			return c.value.sa
		}
	}
	return nil
}

// find returns the outbound policy for a packet: of those that match the one with the smallest priority number; among equals the one
// with the longest destination prefix, then with the longest source prefix, then the first by compareSelectors.
func (t *tables) find(f *flow) (bound, bool) {
	list := t.out[0]
	if !f.dst.Is4() {
		list = t.out[1]
	}
	var best *entry
	var from *tuple // of best
	dst, src := wordsOf(f.dst), wordsOf(f.src)
	for i := range list {
		u := &list[i]
		if best != nil && (best.priority < u.least || best.priority == u.least && !u.longer(from)) {
			if best.priority < u.least {
				break // and all that follow
			}
			continue
		}
		d, s := dst.and(u.dst.mask), src.and(u.src.mask)
		for c := u.at(t.seed.pair(d, s)); c != nil; c = c.next {
			e := &c.value
			if e.dst != d || e.src != s || e.narrow && !matches(&e.policy.Slot.Selector, f) {
				continue
			}
			if best == nil || e.priority < best.priority || e.priority == best.priority && u.longer(from) {
				best, from = e, u
			}
			break // the others of the chain come after it
		}
	}
	if best == nil {
		return bound{}, false
	}
	return bound{best.policy, best.sa}, true
}

// longer reports whether the prefixes of u come before those of v where priorities are equal.
func (u *tuple) longer(v *tuple) bool {
	return u.dst.bits > v.dst.bits || u.dst.bits == v.dst.bits && u.src.bits > v.src.bits
}

// compareEntries is the order of a chain.
func compareEntries(a, b *entry) int {
	s, o := &a.policy.Slot, &b.policy.Slot
	return cmp.Or(
		cmp.Compare(a.priority, b.priority), compareSelectors(&s.Selector, &o.Selector), cmp.Compare(s.Mark, o.Mark), cmp.Compare(s.IfID, o.IfID),
	)
}

// putEntry adds an outbound policy, which must not be there, served by p.bound.
func (t *tables) putEntry(p *policy) {
	sel := &p.Slot.Selector
	list, at := t.tupleOf(sel)
	if at < 0 {
		s := t.seed
		at = len(*list)
		*list = append(slices.Clip(*list), tuple{
			dst: lengthOf(sel.Dst), src: lengthOf(sel.Src), census: map[uint32]int{},
			buckets: newBuckets(func(e *entry) uint64 { return s.pair(e.dst, e.src) }),
		})
	} else {
		*list = slices.Clone(*list)
	}
	u := &(*list)[at]
	u.census[p.Priority]++
	u.buckets = u.with(entry{
		dst: wordsOf(sel.Dst.Addr()), src: wordsOf(sel.Src.Addr()), policy: p, sa: p.bound, priority: p.Priority,
		narrow: sel.Proto != 0 || !anyPort(sel.SrcPorts) || !anyPort(sel.DstPorts),
	}, compareEntries)
	arrange(*list)
}

// dropEntry removes an outbound policy, which must be there.
func (t *tables) dropEntry(p *policy) {
	sel := &p.Slot.Selector
	list, at := t.tupleOf(sel)
	*list = slices.Clone(*list)
	u := &(*list)[at]
	if u.census[p.Priority]--; u.census[p.Priority] == 0 {
		delete(u.census, p.Priority)
	}
	u.buckets = u.without(t.seed.pair(wordsOf(sel.Dst.Addr()), wordsOf(sel.Src.Addr())), func(e *entry) bool { return e.policy == p })
	if u.count == 0 {
		*list = slices.Delete(*list, at, at+1)
	}
	arrange(*list)
}

// tupleOf finds where the policies with the lengths of a selector are; at is negative when there are none.
func (t *tables) tupleOf(sel *xfrm.Selector) (list *[]tuple, at int) {
	list = &t.out[0]
	if sel.Dst.Addr().Is6() {
		list = &t.out[1]
	}
	return list, slices.IndexFunc(*list, func(u tuple) bool { return u.dst.bits == sel.Dst.Bits() && u.src.bits == sel.Src.Bits() })
}

// arrange brings tuples into the order in which they are looked at.
func arrange(list []tuple) {
	for i := range list {
		first := true
		for priority := range list[i].census {
			if first || priority < list[i].least {
				list[i].least, first = priority, false
			}
		}
	}
	slices.SortFunc(list, func(a, b tuple) int {
		return cmp.Or(cmp.Compare(a.least, b.least), cmp.Compare(b.dst.bits, a.dst.bits), cmp.Compare(b.src.bits, a.src.bits))
	})
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
