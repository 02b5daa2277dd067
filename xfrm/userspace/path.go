package userspace

import (
	"net/netip"

	"cygnet/xfrm"
	"cygnet/xfrm/esp"
)

const (
	// pathAge is for how many seconds what the host says of a path is taken as it was (RFC 4301 section 8.2.2): shorter paths are told sooner, by an
	// error, and wider ones are used soon enough.
	pathAge = 10
	// pathsAtOnce are asked for in one look; the others follow a second later.
	pathsAtOnce = 256
)

// innerMTU is the longest inner packet whose ESP packet fits into an outer IP packet of path octets.
func innerMTU(s *xfrm.SA, path int) int {
	room := path - 20
	if s.Src.Is6() {
		room = path - 40
	}
	if s.Encap != nil {
		room -= 8
	}
	n, _ := esp.MaxInner(s.Suite, room)
	return n
}

// learnPaths asks the host about the paths of SAs about which it was not asked for a while, or never.
func (d *Driver) learnPaths(now int64) {
	if d.config.PathMTU == nil {
		return
	}
	type path struct{ local, remote netip.Addr }
	known := make(map[path]int)
	for _, s := range d.unsorted() {
		if last := s.asked.Load(); last != 0 && now-last < pathAge {
			continue
		}
		s.asked.Store(now) // before its path is read: a move from here on asks again
		state, _ := s.read()
		p := path{state.Src, state.ID.Dst}
		if s.direction == xfrm.In {
			p = path{state.ID.Dst, state.Src}
		}
		mtu, asked := known[p]
		if !asked {
			if len(known) == pathsAtOnce {
				s.asked.Store(0)
				return
			}
			var err error
			if mtu, err = d.config.PathMTU(p.local, p.remote); err != nil {
				mtu = 0 // no route: nothing to be too long for
			}
			known[p] = mtu
		}
		limit := 0
		if mtu > 0 {
			limit = max(1, innerMTU(&state, mtu))
		}
		s.limit.Store(int64(limit))
	}
}

// limitOf inner packets of an SA, in octets: what its path is known to carry, and no more than the TUN's MTU.
func (d *Driver) limitOf(s *sa) int {
	if n := int(s.limit.Load()); n > 0 && n < d.config.MTU {
		return n
	}
	return d.config.MTU
}
