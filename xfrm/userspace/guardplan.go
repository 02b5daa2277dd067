package userspace

import (
	"math"
	"net/netip"

	"cygnet/xfrm"
)

// guardPlan collects guards. The first that asks for a slot gets it.
type guardPlan struct {
	list   []guard
	claims map[guard]claim
	// marked: what comes out of the TUN bears innerMark; without it IPv6 packets for this host itself cannot be told from clear ones and are not
	// guarded.
	marked bool
}

func (p *guardPlan) put(g guard) {
	slot := g.slot()
	c := p.claims[slot]
	switch {
	case c.count == 0:
		c.guard = g
		p.list = append(p.list, g)
	case c.guard != g:
		c.mixed = true
	}
	c.count++
	p.claims[slot] = c
}

// arriving puts g for what is for this host and what is to be forwarded.
func (p *guardPlan) arriving(g guard) {
	if g.dir = dirIn; p.marked || g.dst.Addr().Is4() {
		p.put(g)
	}
	g.dir = dirForward
	p.put(g)
}

func (p *guardPlan) leaving(g guard) {
	g.dir = dirOut
	p.put(g)
}

// planGuards mirrors the policies. device is the index of the TUN.
func planGuards(policies []xfrm.Policy, marked bool, device uint32, e *effects) []guard {
	p := &guardPlan{claims: e.guards, marked: marked}
	for i := range policies {
		p.mirror(&policies[i], e.own)
		if policies[i].Slot.Selector.Src.Addr().Is6() {
			e.v6++
		}
	}
	for i := range policies {
		p.exceptLocal(&policies[i], e.own)
	}
	if e.v6 > 0 {
		p.exceptIPv6(device)
	}
	return p.list
}

// mirror puts the guards that are a policy's own: an outbound one guards the way back too. own are the addresses of this host.
func (p *guardPlan) mirror(pol *xfrm.Policy, own []netip.Addr) {
	sel := pol.Slot.Selector
	if pol.Slot.Direction == xfrm.Out {
		if !onlyOwn(pol, own) {
			each(pol, p.leaving)
		}
		sel.Src, sel.Dst, sel.SrcPorts, sel.DstPorts = sel.Dst, sel.Src, sel.DstPorts, sel.SrcPorts
	}
	back := *pol
	back.Slot.Selector = sel
	each(&back, p.arriving)
	p.hosts(sel.Dst, sel.Src, pol)
}

// each makes a guard of a policy for each of its port masks.
func each(pol *xfrm.Policy, put func(guard)) {
	sel := &pol.Slot.Selector
	for _, s := range masks(sel.SrcPorts) {
		for _, d := range masks(sel.DstPorts) {
			put(guard{src: sel.Src, dst: sel.Dst, proto: sel.Proto, sport: s, dport: d, allow: pol.Action == xfrm.Pass, priority: pol.Priority})
		}
	}
}

// before is the priority of an exception to a policy: narrower policies still come first.
func before(pol *xfrm.Policy) uint32 { return max(pol.Priority-1, priorityFirst) }

// hosts of the local prefix reach each other although the remote prefix covers them, and so they do those of link scope: as for routes.
func (p *guardPlan) hosts(local, remote netip.Prefix, pol *xfrm.Policy) {
	inside := func(inner netip.Prefix) bool {
		return pol.Action != xfrm.Pass && remote.Bits() < inner.Bits() && remote.Contains(inner.Addr())
	}
	if inside(local) {
		p.arriving(guard{src: local, dst: local, allow: true, priority: before(pol)})
	}
	if pol.Slot.Direction != xfrm.Out {
		return
	}
	for _, scope := range append(linkScope[:], local) {
		if inside(scope) {
			p.leaving(guard{src: local, dst: scope, allow: true, priority: before(pol)})
		}
	}
}

// exceptLocal lets through what this host itself sends over IPv6 where it may go into the TUN: the kernel asks about it before it looks at the device.
// IPv4 into the TUN is exempt by a setting of the device.
func (p *guardPlan) exceptLocal(pol *xfrm.Policy, own []netip.Addr) {
	sel := pol.Slot.Selector
	if pol.Slot.Direction != xfrm.Out || pol.Action != xfrm.Protect || onlyOwn(pol, own) {
		return
	}
	for _, a := range own {
		if a.Is6() && sel.Src.Contains(a) {
			each(&xfrm.Policy{Slot: xfrm.Slot{Selector: xfrm.Selector{
				Src: netip.PrefixFrom(a, a.BitLen()), Dst: sel.Dst, Proto: sel.Proto, SrcPorts: sel.SrcPorts, DstPorts: sel.DstPorts,
			}}, Action: xfrm.Pass, Priority: before(pol)}, p.leaving)
		}
	}
}

// onlyOwn reports whether an IPv6 policy that protects is for packets of this host alone.
func onlyOwn(pol *xfrm.Policy, own []netip.Addr) bool {
	src := pol.Slot.Selector.Src
	if pol.Action != xfrm.Protect || src.Addr().Is4() || src.Bits() < src.Addr().BitLen() {
		return false
	}
	for _, a := range own {
		if a == src.Addr() {
			return true
		}
	}
	return false
}

// exceptIPv6 is what IPv6 needs whatever the selectors cover: router and neighbour discovery and redirects (RFC 4861), which work the link, what
// comes out of the TUN, and what goes into it.
func (p *guardPlan) exceptIPv6(device uint32) {
	any := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	all := guard{src: any, dst: any, allow: true, priority: priorityFirst}
	for kind := uint16(133); kind <= 137; kind++ {
		discovery := all
		discovery.proto, discovery.sport = protoICMPv6, masked{kind, math.MaxUint16}
		p.arriving(discovery)
		p.leaving(discovery)
	}
	inner := all
	inner.mark = innerMark
	p.arriving(inner)
	if device != 0 {
		into := all
		into.device = device
		p.leaving(into)
	}
}
