package ledger

import (
	"math/bits"

	"cygnet/xfrm"
)

// PriorityFirst..PriorityLast is our band of policy priorities.
const (
	PriorityFirst uint32 = 0x00100000
	PriorityLast  uint32 = 0x001fffff
)

const (
	prefixBits = 256 // two IPv6 host prefixes
	portSteps  = 513 // values of portWidth
)

// Priority of a slot inside our band: the narrower selector gets the smaller number and wins, whatever its action, so that a narrow
// protect stands before a wide block and a narrow block before a wide protect. Prefix lengths of both ends count first, then protocol, then
// ports: of two selectors of which one lies inside the other the inner one comes first (port ranges to within 3 percent of their width).
func Priority(s xfrm.Selector) uint32 {
	wide := uint32(prefixBits - max(s.Src.Bits(), 0) - max(s.Dst.Bits(), 0))
	wide *= 2
	if s.Proto == 0 {
		wide++
	}
	wide *= 2*portSteps - 1
	wide += portWidth(s.SrcPorts) + portWidth(s.DstPorts)
	return PriorityFirst + wide
}

// portWidth maps the number of ports in a range, 1 to 65536, to 0..512: the position of its highest bit, then the next five bits.
func portWidth(p xfrm.Ports) uint32 {
	p = canonicalPorts(p)
	if p.First > p.Last { // OPAQUE
		return 0
	}
	n := uint32(p.Last) - uint32(p.First) + 1
	exp := bits.Len32(n) - 1
	mantissa := n << (16 - exp) >> 11 & 31
	return uint32(exp)<<5 | mantissa
}

// canonical gives equal slots one spelling: any port is {0, 65535}, prefixes are masked.
func canonical(s xfrm.Slot) xfrm.Slot {
	s.Selector.Src = s.Selector.Src.Masked()
	s.Selector.Dst = s.Selector.Dst.Masked()
	s.Selector.SrcPorts = canonicalPorts(s.Selector.SrcPorts)
	s.Selector.DstPorts = canonicalPorts(s.Selector.DstPorts)
	return s
}

func canonicalPorts(p xfrm.Ports) xfrm.Ports {
	if p == (xfrm.Ports{}) {
		return xfrm.Ports{First: 0, Last: 65535}
	}
	return p
}
