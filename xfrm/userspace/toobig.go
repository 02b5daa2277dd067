package userspace

import (
	"encoding/binary"
	"net/netip"
)

const (
	// leastMTU that is ever assumed inside a tunnel, whatever the path is said to carry: what each host must take in (RFC 791 section 3.1: 576 octets,
	// RFC 8200 section 5). Longer packets than the path carries are fragmented outside then. So who forges a PMTU (RFC 4301 section 8.2) gains little.
	leastMTU4 = 576
	leastMTU6 = 1280

	icmpHeaderLen = 8
	// tooBigMost4 and tooBigMost6 are how long an ICMP error may be (RFC 1812 section 4.3.2.3, RFC 4443 section 2.4).
	tooBigMost4 = 576
	tooBigMost6 = 1280

	controlClass = 0xc0 // internetwork control (RFC 1812 section 4.3.2.5)
	hopLimit     = 64
)

// fits reports whether an inner packet, or a segment of it, of n octets may go into an SA whose path carries inner packets of limit octets. IPv4 packets
// that may be fragmented always do: the kernel fragments what carries them. Not the inner packet, because fragments have no ports, and an SA with
// ports takes none (RFC 4301 sections 4.4.1.1 and 8.2.1, case 2).
func fits(p []byte, n, limit int) bool {
	if p[0]>>4 == 6 {
		return n <= max(limit, leastMTU6)
	}
	return n <= max(limit, leastMTU4) || p[6]&0x40 == 0
}

// tooBig writes the ICMP error that tells the sender of p, a packet that parse has taken, which MTU to keep to (RFC 1191 section 4, RFC 8201, RFC 4301 section 8.2.1,
// cases 1 and 3). The packet's destination is its source: an address that the sender has a route to, and which the kernel expects to come out of the
// TUN. b has room for tooBigMost6 octets. It returns nil for what is never answered: errors, later fragments, packets from or to no single
// host (RFC 1122 section 3.2.2, RFC 4443 section 2.4).
func tooBig(b, p []byte, f *flow, limit int) []byte {
	if !answerable(f, p) {
		return nil
	}
	if p[0]>>4 == 6 {
		return packetTooBig(b, p, max(limit, leastMTU6))
	}
	return fragmentationNeeded(b, p, max(limit, leastMTU4))
}

func answerable(f *flow, p []byte) bool {
	for _, a := range [...]netip.Addr{f.src, f.dst} {
		if a.IsMulticast() || a.IsUnspecified() || a.IsLoopback() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return false
		}
	}
	kind := f.sport >> 8
	switch {
	case f.dst.Is4() && binary.BigEndian.Uint16(p[6:])&0x1fff != 0:
		return false
	case f.proto == protoICMP && f.dst.Is4():
		return f.ports && (kind == 0 || kind == 8 || kind >= 13) // neither an error nor a redirect
	case f.proto == protoICMPv6 && f.dst.Is6():
		return f.ports && kind >= 128 && kind != 137
	}
	return true
}

func fragmentationNeeded(b, p []byte, mtu int) []byte {
	const header = 20
	b = b[:header+icmpHeaderLen+min(len(p), tooBigMost4-header-icmpHeaderLen)]
	clear(b[:header+icmpHeaderLen])
	b[0], b[1], b[8], b[9] = 0x45, controlClass, hopLimit, protoICMP
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	copy(b[12:16], p[16:20])
	copy(b[16:20], p[12:16])
	binary.BigEndian.PutUint16(b[10:], sum(0).add(b[:header]).checksum())
	icmp := b[header:]
	icmp[0], icmp[1] = 3, 4 // destination unreachable: fragmentation needed and DF set
	binary.BigEndian.PutUint16(icmp[6:], uint16(mtu))
	copy(icmp[icmpHeaderLen:], p)
	binary.BigEndian.PutUint16(icmp[2:], sum(0).add(icmp).checksum())
	return b
}

func packetTooBig(b, p []byte, mtu int) []byte {
	const header = 40
	b = b[:header+icmpHeaderLen+min(len(p), tooBigMost6-header-icmpHeaderLen)]
	clear(b[:header+icmpHeaderLen])
	icmp := b[header:]
	b[0], b[1], b[6], b[7] = 0x60|controlClass>>4, controlClass<<4&0xff, protoICMPv6, hopLimit
	binary.BigEndian.PutUint16(b[4:], uint16(len(icmp)))
	copy(b[8:24], p[24:40])
	copy(b[24:40], p[8:24])
	icmp[0] = 2 // packet too big
	binary.BigEndian.PutUint32(icmp[4:], uint32(mtu))
	copy(icmp[icmpHeaderLen:], p)
	binary.BigEndian.PutUint16(icmp[2:], pseudo(b[8:40], protoICMPv6, len(icmp)).add(icmp).checksum())
	return b
}

// tooBigRate is how many such errors a lane sends in a second; senders that heed one need no more.
const tooBigRate = 100

// rate lets so many pass in each second.
type rate struct {
	second int64
	passed int
}

func (r *rate) pass(now int64, most int) bool {
	if r.second != now {
		r.second, r.passed = now, 0
	}
	if r.passed >= most {
		return false
	}
	r.passed++
	return true
}
