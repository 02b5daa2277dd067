package kernel

import (
	"fmt"
	"math/bits"

	"cygnet/xfrm"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// masked is how the kernel matches ports: port & mask == value.
type masked struct{ value, mask uint16 }

// portPair is one pair of masks; a selector needs one or several.
type portPair struct{ src, dst masked }

// maxPieces bounds how many kernel policies one selector may take for each direction.
const maxPieces = 64

func isICMP(proto uint8) bool { return proto == unix.IPPROTO_ICMP || proto == unix.IPPROTO_ICMPV6 }

func anyPort(p xfrm.Ports) bool {
	return p == xfrm.Ports{} || p == xfrm.Ports{First: 0, Last: 65535}
}

// splitPorts writes the port ranges of s as pairs of masks.
func splitPorts(s xfrm.Selector) ([]portPair, error) {
	for _, p := range []xfrm.Ports{s.SrcPorts, s.DstPorts} {
		if p.First > p.Last && !anyPort(p) {
			return nil, fmt.Errorf("ports %d-%d (OPAQUE): the kernel cannot match packets whose ports are hidden: use any port", p.First, p.Last)
		}
	}
	if isICMP(s.Proto) {
		return splitICMP(s)
	}
	src, dst := prefixes(s.SrcPorts), prefixes(s.DstPorts)
	if n := len(src) * len(dst); n > maxPieces {
		return nil, fmt.Errorf("port ranges %d-%d and %d-%d take %d kernel policies, more than %d: begin and end them at multiples of a power of two, or use any port",
			s.SrcPorts.First, s.SrcPorts.Last, s.DstPorts.First, s.DstPorts.Last, n, maxPieces)
	}
	var out []portPair
	for _, a := range src {
		for _, b := range dst {
			out = append(out, portPair{a, b})
		}
	}
	return out, nil
}

// splitICMP: type<<8|code is one number for IKE (RFC 7296 section 3.13.1), but the kernel takes the type for the
// source port and the code for the destination port.
func splitICMP(s xfrm.Selector) ([]portPair, error) {
	number := s.SrcPorts
	switch {
	case anyPort(number):
		number = s.DstPorts
	case !anyPort(s.DstPorts) && s.DstPorts != number:
		return nil, fmt.Errorf("ICMP types and codes %#04x-%#04x on one side and %#04x-%#04x on the other: a packet has only one, use the same on both sides",
			s.SrcPorts.First, s.SrcPorts.Last, s.DstPorts.First, s.DstPorts.Last)
	}
	var out []portPair
	for _, m := range prefixes(number) {
		p := portPair{src: masked{m.value >> 8, m.mask >> 8}, dst: masked{m.value & 0xff, m.mask & 0xff}}
		if p.src.mask != 0 {
			p.src.mask |= 0xff00 // a type has 8 bits: the others are zero
		}
		if p.dst.mask != 0 {
			p.dst.mask |= 0xff00
		}
		out = append(out, p)
	}
	return out, nil
}

// prefixes splits a range into the fewest masks: at most 30.
func prefixes(p xfrm.Ports) []masked {
	if anyPort(p) {
		return []masked{{}}
	}
	var out []masked
	for at, end := uint32(p.First), uint32(p.Last)+1; at < end; {
		size := uint32(1) << min(bits.TrailingZeros32(at|1<<16), bits.Len32(end-at)-1)
		out = append(out, masked{uint16(at), uint16(-size)})
		at += size
	}
	return out
}

// ports is the range that m matches.
func (m masked) ports() xfrm.Ports {
	if m.mask == 0 {
		return xfrm.Ports{}
	}
	return xfrm.Ports{First: m.value & m.mask, Last: m.value | ^m.mask}
}

// icmpPorts joins type and code.
func icmpPorts(kind, code masked) xfrm.Ports {
	t, c := kind.ports(), code.ports()
	if code.mask == 0 {
		c.Last = 0xff
	}
	return xfrm.Ports{First: t.First<<8 | c.First&0xff, Last: t.Last<<8 | c.Last&0xff}
}

// tag carries the ranges of a selector that was split, or whose ports the kernel keeps in another form, through the
// kernel and past the end of this process: in the policy's soft packet limit, which the kernel stores but does not
// apply to policies. Without it the pieces of two adjacent ranges could not be told from those of one.
func tag(s xfrm.Selector, pieces int) uint64 {
	if pieces == 1 && (!isICMP(s.Proto) || anyPort(s.SrcPorts) && anyPort(s.DstPorts)) {
		return nl.XFRM_INF
	}
	return uint64(s.SrcPorts.First)<<48 | uint64(s.SrcPorts.Last)<<32 | uint64(s.DstPorts.First)<<16 | uint64(s.DstPorts.Last)
}

// untag restores the ranges.
func untag(s *xfrm.Selector, v uint64) {
	if v == nl.XFRM_INF {
		return
	}
	s.SrcPorts = xfrm.Ports{First: uint16(v >> 48), Last: uint16(v >> 32)}
	s.DstPorts = xfrm.Ports{First: uint16(v >> 16), Last: uint16(v)}
}
