package xfrmfake

import (
	"net/netip"

	"cygnet/xfrm"
)

// Packet is what a selector looks at. For ICMP, SrcPort is type<<8|code.
type Packet struct {
	Src, Dst         netip.Addr
	Proto            uint8
	SrcPort, DstPort uint16
	Octets           uint64
}

// Fate of a packet.
type Fate uint8

const (
	Clear     Fate = iota // no policy, or one that lets it pass
	Dropped               // blocked, or protected by an SA that is not there, or not what its policy demands
	Protected             // by an SA
)

func (f Fate) String() string { return [...]string{"clear", "dropped", "protected"}[f] }

// Outbound tells what becomes of a packet that leaves, and counts it on its SA. Without an SA for a protecting policy Acquire is raised.
func (d *Driver) Outbound(p Packet) (Fate, xfrm.SAID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	pol, ok := d.policy(xfrm.Out, p)
	switch {
	case !ok || pol.Action == xfrm.Pass:
		return Clear, xfrm.SAID{}
	case pol.Action == xfrm.Block:
		return Dropped, xfrm.SAID{}
	}
	s := d.outboundSA(pol.Template, p)
	if s == nil {
		d.raise(xfrm.Acquire{ReqID: pol.Template.ReqID, Selector: p.selector()})
		return Dropped, xfrm.SAID{}
	}
	d.use(s, p)
	return Protected, s.ID
}

// Inbound tells what becomes of a packet that arrived on an SA, or in clear (the zero SAID). The first one on an SA raises FirstUse.
func (d *Driver) Inbound(id xfrm.SAID, p Packet) Fate {
	d.mu.Lock()
	defer d.mu.Unlock()
	pol, ok := d.policy(xfrm.In, p)
	if id == (xfrm.SAID{}) {
		if !ok || pol.Action == xfrm.Pass {
			return Clear
		}
		return Dropped
	}
	s := d.sas[id]
	if s == nil || s.Direction != xfrm.In || !s.carries(p) {
		return Dropped
	}
	if s.usage.Packets == 0 {
		d.raise(xfrm.FirstUse{ID: id})
	}
	d.use(s, p)
	if ok && (pol.Action == xfrm.Block || pol.Action == xfrm.Protect && pol.Template.ReqID != s.ReqID) {
		return Dropped
	}
	return Protected
}

func (d *Driver) use(s *sa, p Packet) {
	s.usage.Packets++
	s.usage.Sequence++
	s.usage.Bytes += p.Octets
	s.usage.LastUse = d.clock()
}

// policy finds the one that decides: the smallest priority.
func (d *Driver) policy(dir xfrm.Direction, p Packet) (best xfrm.Policy, ok bool) {
	for at, pol := range d.policies {
		if at.Direction == dir && matches(at.Selector, p) && (!ok || byPriority(pol, best) < 0) {
			best, ok = pol, true
		}
	}
	return best, ok
}

// outboundSA finds it as the kernel does: by reqid, addresses and mode, the newest. A hint of an SPI comes first.
func (d *Driver) outboundSA(t xfrm.Template, p Packet) (best *sa) {
	for _, s := range d.sas {
		if s.Direction != xfrm.Out || s.ReqID != t.ReqID || s.ID.Dst != t.Dst || s.Mode != t.Mode || !s.carries(p) {
			continue
		}
		if s.ID.SPI == t.SPI {
			return s
		}
		if best == nil || s.order > best.order {
			best = s
		}
	}
	return best
}

func (s *sa) carries(p Packet) bool {
	for _, sel := range s.Selectors {
		if matches(sel, p) {
			return true
		}
	}
	return len(s.Selectors) == 0
}

func matches(s xfrm.Selector, p Packet) bool {
	return s.Src.Contains(p.Src) && s.Dst.Contains(p.Dst) && (s.Proto == 0 || s.Proto == p.Proto) &&
		inRange(s.SrcPorts, p.SrcPort) && inRange(s.DstPorts, p.DstPort)
}

func inRange(r xfrm.Ports, port uint16) bool {
	return r == (xfrm.Ports{}) || r.First <= port && port <= r.Last
}

func (p Packet) selector() xfrm.Selector {
	return xfrm.Selector{
		Src: netip.PrefixFrom(p.Src, p.Src.BitLen()), Dst: netip.PrefixFrom(p.Dst, p.Dst.BitLen()), Proto: p.Proto,
		SrcPorts: xfrm.Ports{First: p.SrcPort, Last: p.SrcPort}, DstPorts: xfrm.Ports{First: p.DstPort, Last: p.DstPort},
	}
}
