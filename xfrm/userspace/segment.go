package userspace

import (
	"encoding/binary"
)

// segmenter takes a packet of the TUN apart: into the segments of one flow that the kernel left together, or the packet alone.
//
// Segments are made where they lie. The headers of segment k stand in the octets before its payload, which belong to the segments before it: those must
// be done with by then.
type segmenter struct {
	packet []byte
	header []byte // of the packet as it was, IP and transport
	upper  int    // where the transport header begins
	proto  uint8
	size   int // payload of each segment but the last; 0: the packet is one
	done   int // octets of payload
	number int // of segments done

	id uint16 // IPv4: identification of the first
	ip sum    // IPv4: of the IP header without length, identification and checksum
	// of pseudo-header and transport header without what differs: lengths, checksum, of TCP also the sequence number and the flags
	transport sum
	seq       uint32
}

const (
	tcpHeaderLen = 20
	udpHeaderLen = 8

	offTCPSeq, offTCPFlags, offTCPSum = 4, 12, 16
	offUDPLen, offUDPSum              = 4, 6

	tcpFIN, tcpSYN, tcpRST, tcpPSH, tcpACK, tcpURG, tcpCWR = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x80
)

// complete does what the kernel left undone of the checksum of one packet. It is false when the header contradicts the packet.
func complete(h vnet, p []byte) bool {
	if h.flags&vnetNeedsCsum == 0 || h.gsoType != gsoNone {
		return true
	}
	start := int(h.csumStart)
	at := start + int(h.csumOffset)
	if start == 0 || at+2 > len(p) {
		return false
	}
	c := sum(0).add(p[start:]).checksum()
	if c == 0 {
		c = 0xffff // the same number; in UDP, 0 is none (RFC 768)
	}
	binary.BigEndian.PutUint16(p[at:], c)
	return true
}

// load begins a packet. It is false when the header contradicts the packet. Of the header only kind and size are believed: what the kernel says of the
// headers' length is wrong for packets that it forwards.
func (g *segmenter) load(h vnet, p []byte, f *flow) bool {
	g.packet, g.size, g.done, g.number = p, 0, 0, 0
	if h.gsoType == gsoNone {
		return true
	}
	if h.gsoSize == 0 || f.fragment || f.upper == 0 {
		return false
	}
	length := 0 // of the transport header
	switch kind := h.gsoType &^ gsoECN; {
	case (kind == gsoTCPv4 && f.src.Is4() || kind == gsoTCPv6 && f.src.Is6()) && f.proto == protoTCP:
		if len(p) < f.upper+tcpHeaderLen {
			return false
		}
		if length = int(p[f.upper+12]>>4) * 4; length < tcpHeaderLen {
			return false
		}
	case kind == gsoUDP && f.proto == protoUDP:
		length = udpHeaderLen
	default:
		return false
	}
	end := f.upper + length
	if end > len(p) {
		return false
	}
	g.size, g.upper, g.proto = int(h.gsoSize), f.upper, f.proto
	g.header = append(g.header[:0], p[:end]...)
	g.sums(f.src.Is4())
	return true
}

// sums adds up what is the same in all segments.
func (g *segmenter) sums(ipv4 bool) {
	h, addresses := g.header, []byte(nil)
	if ipv4 {
		g.id = binary.BigEndian.Uint16(h[4:])
		g.ip = sum(0).add(h[:2]).add(h[6:10]).add(h[12:g.upper])
		addresses = h[12:20]
	} else {
		addresses = h[8:40]
	}
	t, at := h[g.upper:], offTCPSum
	if g.proto == protoUDP {
		at = offUDPSum
	}
	g.transport = pseudo(addresses, g.proto, 0)
	if !ipv4 && g.upper != 40 {
		// A routing header hides the last destination, which the pseudo-header has (RFC 8200 section 8.1). The kernel's own sum is in the field; of
		// it comes off the length.
		g.transport = sum(binary.BigEndian.Uint16(t[at:])).plus(^uint16(len(g.packet) - g.upper))
	}
	if g.proto == protoUDP {
		g.transport = g.transport.add(t[:offUDPLen])
		return
	}
	g.seq = binary.BigEndian.Uint32(t[offTCPSeq:])
	g.transport = g.transport.add(t[:offTCPSeq]).add(t[8:offTCPFlags]).add(t[14:offTCPSum]).add(t[18:])
}

// count is how many segments there are.
func (g *segmenter) count() int {
	if g.size == 0 {
		return 1
	}
	return max(1, (len(g.packet)-len(g.header)+g.size-1)/g.size)
}

// longest is the length of the longest segment.
func (g *segmenter) longest() int {
	if g.size == 0 {
		return len(g.packet)
	}
	return min(len(g.packet), len(g.header)+g.size)
}

// next returns the next segment, a whole packet with good checksums, or nil.
func (g *segmenter) next() []byte {
	if g.size == 0 {
		p := g.packet
		g.packet = nil
		return p
	}
	left := len(g.packet) - len(g.header) - g.done
	if left <= 0 && g.number > 0 {
		return nil
	}
	n := min(left, g.size)
	p := g.packet[g.done : g.done+len(g.header)+n]
	copy(p, g.header)
	g.putIP(p)
	if g.proto == protoTCP {
		g.putTCP(p[g.upper:], n == left)
	} else {
		g.putUDP(p[g.upper:])
	}
	g.done += n
	g.number++
	return p
}

// putIP writes length and, of IPv4, identification and checksum. Each segment has an identification of its own (RFC 791 section 3.2).
func (g *segmenter) putIP(p []byte) {
	if p[0]>>4 == 6 {
		binary.BigEndian.PutUint16(p[4:], uint16(len(p)-40))
		return
	}
	length, id := uint16(len(p)), g.id+uint16(g.number)
	binary.BigEndian.PutUint16(p[2:], length)
	binary.BigEndian.PutUint16(p[4:], id)
	binary.BigEndian.PutUint16(p[10:], g.ip.plus(length).plus(id).checksum())
}

// putTCP: FIN and PSH are for the last octet, CWR answers for one packet (RFC 3168 section 6.1.2).
func (g *segmenter) putTCP(t []byte, last bool) {
	if !last {
		t[13] &^= tcpFIN | tcpPSH
	}
	if g.number > 0 {
		t[13] &^= tcpCWR
	}
	seq := g.seq + uint32(g.done)
	binary.BigEndian.PutUint32(t[offTCPSeq:], seq)
	s := g.transport.plus(uint16(len(t))).plus(uint16(seq >> 16)).plus(uint16(seq)).plus(binary.BigEndian.Uint16(t[offTCPFlags:]))
	binary.BigEndian.PutUint16(t[offTCPSum:], s.add(t[len(g.header)-g.upper:]).checksum())
}

func (g *segmenter) putUDP(t []byte) {
	length := uint16(len(t))
	binary.BigEndian.PutUint16(t[offUDPLen:], length)
	c := g.transport.plus(length).plus(length).add(t[udpHeaderLen:]).checksum()
	if c == 0 {
		c = 0xffff // 0 is none (RFC 768)
	}
	binary.BigEndian.PutUint16(t[offUDPSum:], c)
}
