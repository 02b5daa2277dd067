package userspace

import (
	"encoding/binary"
	"net/netip"

	"cygnet/xfrm"
)

// IP protocol numbers that the parser knows.
const (
	protoHopByHop = 0
	protoICMP     = 1
	protoTCP      = 6
	protoUDP      = 17
	protoRouting  = 43
	protoFragment = 44
	protoAH       = 51
	protoICMPv6   = 58
	protoDestOpts = 60
	protoSCTP     = 132
	protoUDPLite  = 136
)

// flow is what selectors look at in a packet.
type flow struct {
	src, dst     netip.Addr
	proto        uint8
	sport, dport uint16 // of ICMP both are type<<8 | code (RFC 4301 section 4.4.1.1)
	ports        bool   // false: OPAQUE (a later fragment, a protocol without ports)
	upper        int    // where the header of proto begins; 0 in a later fragment
	fragment     bool   // part of a packet
}

// parse reads the headers of a packet up to the ports. It is false for what is not a whole IP header with its extension headers.
// Of a fragment that does not reach as far as the ports they are not known.
func parse(p []byte) (f flow, ok bool) {
	if len(p) == 0 {
		return flow{}, false
	}
	switch p[0] >> 4 {
	case 4:
		return parseIPv4(p)
	case 6:
		return parseIPv6(p)
	}
	return flow{}, false
}

func parseIPv4(p []byte) (f flow, ok bool) {
	if len(p) < 20 {
		return flow{}, false
	}
	header := int(p[0]&15) * 4
	if header < 20 || header > len(p) {
		return flow{}, false
	}
	f.src, f.dst, f.proto = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20])), p[9]
	place := binary.BigEndian.Uint16(p[6:]) & 0x3fff // more fragments, fragment offset
	f.fragment = place != 0
	if place&0x1fff == 0 {
		f.upper = header
		f.readPorts(p[header:])
	}
	return f, true
}

func parseIPv6(p []byte) (f flow, ok bool) {
	if len(p) < 40 {
		return flow{}, false
	}
	f.src, f.dst = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
	next, rest := p[6], p[40:]
	for {
		f.proto = next
		length := 0
		switch next {
		case protoHopByHop, protoRouting, protoDestOpts:
			if len(rest) < 8 {
				return flow{}, false
			}
			length = 8 + int(rest[1])*8
		case protoAH:
			if len(rest) < 8 {
				return flow{}, false
			}
			length = 8 + int(rest[1])*4
		case protoFragment:
			if len(rest) < 8 {
				return flow{}, false
			}
			f.fragment = true
			if binary.BigEndian.Uint16(rest[2:])&^7 != 0 {
				// A later fragment: what follows is not a header. Its protocol is the one named here; further extension headers
				// hide it, and then no protocol selector matches.
				f.proto = rest[0]
				return f, true
			}
			length = 8
		default:
			f.upper = len(p) - len(rest)
			f.readPorts(rest)
			return f, true
		}
		if length > len(rest) {
			return flow{}, false
		}
		next, rest = rest[0], rest[length:]
	}
}

func (f *flow) readPorts(b []byte) {
	switch f.proto {
	case protoTCP, protoUDP, protoSCTP, protoUDPLite:
		if len(b) >= 4 {
			f.sport, f.dport, f.ports = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:]), true
		}
	case protoICMP, protoICMPv6:
		if len(b) >= 2 {
			f.sport = binary.BigEndian.Uint16(b)
			f.dport, f.ports = f.sport, true
		}
	}
}

// reversed is the flow of the answers.
func (f flow) reversed() flow {
	return flow{src: f.dst, dst: f.src, proto: f.proto, sport: f.dport, dport: f.sport, ports: f.ports}
}

// selector is that of the packet alone.
func (f flow) selector() xfrm.Selector {
	s := xfrm.Selector{
		Src: netip.PrefixFrom(f.src, f.src.BitLen()), Dst: netip.PrefixFrom(f.dst, f.dst.BitLen()), Proto: f.proto,
	}
	if f.ports {
		s.SrcPorts, s.DstPorts = xfrm.Ports{First: f.sport, Last: f.sport}, xfrm.Ports{First: f.dport, Last: f.dport}
	}
	return s
}

// matches reports whether a selector covers the flow.
func matches(s *xfrm.Selector, f *flow) bool {
	return (s.Proto == 0 || s.Proto == f.proto) && s.Dst.Contains(f.dst) && s.Src.Contains(f.src) &&
		portMatches(s.SrcPorts, f.sport, f.ports) && portMatches(s.DstPorts, f.dport, f.ports)
}

// portMatches: any covers OPAQUE too, OPAQUE covers only what has no ports, a range only what has (RFC 4301 section 4.4.1.1). A fragment
// without ports therefore never travels under a selector with ports.
func portMatches(r xfrm.Ports, port uint16, known bool) bool {
	switch {
	case anyPort(r):
		return true
	case r.First > r.Last:
		return !known
	}
	return known && r.First <= port && port <= r.Last
}

func anyPort(r xfrm.Ports) bool { return r.First == 0 && (r.Last == 0 || r.Last == 65535) }

// quoted finds the flow of the packet that an ICMP error quotes.
func quoted(p []byte, f *flow) (flow, bool) {
	const icmpHeader = 8
	var rest []byte
	switch kind := f.sport >> 8; {
	case !f.ports:
		return flow{}, false
	case f.proto == protoICMP && (kind == 3 || kind == 11 || kind == 12): // unreachable, time exceeded, parameter problem
		rest = p[int(p[0]&15)*4:]
	case f.proto == protoICMPv6 && kind >= 1 && kind <= 4 && p[6] == protoICMPv6:
		rest = p[40:]
	default:
		return flow{}, false
	}
	if len(rest) < icmpHeader {
		return flow{}, false
	}
	return parse(rest[icmpHeader:])
}
