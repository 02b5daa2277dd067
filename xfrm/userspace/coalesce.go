package userspace

import (
	"bytes"
	"encoding/binary"
	"slices"
)

const (
	mostRuns     = 8  // flows whose packets wait for more
	mostSegments = 64 // of one run; what every kernel with USO takes
)

// coalescer writes inner packets to a TUN. Consecutive ones of a TCP or UDP flow go as one super-packet: the kernel's way up is then walked once for all
// of them. It makes no packet that the kernel could not take apart again into the very packets that came (the identification of IPv4 packets that must
// not be fragmented excepted: it has no meaning, RFC 6864 section 4.1), and it verifies checksums first, since what it writes has a new one. What
// is not of that kind is written alone. Packets of one flow keep their order.
//
// Packets are not copied: they stay where they are until flush. The header of the first is changed in place.
type coalescer struct {
	dev  device
	have offloads          // of dev
	lost func(packets int) // the device did not take them

	open  []*run // in the order in which they began
	spare []*run
	alone [1][]byte
}

// run is packets of one flow, each continuing the one before.
type run struct {
	segment            // the first
	parts     [][]byte // the first packet whole, of the others their payload
	octets    int      // of payload
	id        uint16   // identification, if the next continues them
	seq       uint32   // TCP: that of the next
	verified  bool     // the checksums of the first
	flagsLast byte     // TCP: of the last
}

// segment is a packet that has the ports of a flow where a look at fixed places finds them.
type segment struct {
	packet []byte
	v6     bool
	proto  uint8
	upper  int  // where the transport header begins
	body   int  // where the payload begins
	joins  bool // it may be in a run
	final  bool // and then as the last
}

func newCoalescer(lost func(packets int)) *coalescer {
	c := &coalescer{lost: lost}
	for range mostRuns {
		c.spare = append(c.spare, &run{parts: make([][]byte, 0, mostSegments)})
	}
	return c
}

// use dev for what comes, once nothing waits.
func (c *coalescer) use(dev device) {
	if len(c.open) == 0 && dev != c.dev {
		c.dev, c.have = dev, dev.offloads()
	}
}

// add takes a whole IP packet without anything behind it, which is the coalescer's until the next flush.
func (c *coalescer) add(p []byte) {
	if !c.have.header {
		c.write(vnet{}, p)
		return
	}
	s, ok := segmentOf(p, c.have)
	if !ok {
		// A fragment, say, may be of any flow between the two.
		c.flushSome(func(r *run) bool { return r.between(p) })
		c.write(vnet{}, p)
		return
	}
	if at := slices.IndexFunc(c.open, func(r *run) bool { return r.sameFlow(&s) }); at >= 0 {
		r := c.open[at]
		if r.continues(&s) && r.verify() && s.verify() {
			if r.append(&s) {
				c.close(at)
			}
			return
		}
		c.close(at)
	}
	if !s.joins || s.final {
		c.write(vnet{}, p)
		return
	}
	if len(c.open) == mostRuns {
		c.close(0)
	}
	r := c.spare[len(c.spare)-1]
	c.spare, c.open = c.spare[:len(c.spare)-1], append(c.open, r)
	r.begin(&s)
}

// flush writes all that waits.
func (c *coalescer) flush() { c.flushSome(func(*run) bool { return true }) }

func (c *coalescer) flushSome(which func(*run) bool) {
	for at := 0; at < len(c.open); {
		if which(c.open[at]) {
			c.close(at)
		} else {
			at++
		}
	}
}

// close writes a run.
func (c *coalescer) close(at int) {
	r := c.open[at]
	c.open = slices.Delete(c.open, at, at+1)
	if err := c.dev.write(r.finish(), r.parts); err != nil {
		c.lost(len(r.parts))
	}
	clear(r.parts)
	c.spare = append(c.spare, r)
}

func (c *coalescer) write(h vnet, p []byte) {
	c.alone[0] = p
	if err := c.dev.write(h, c.alone[:]); err != nil {
		c.lost(1)
	}
}

func (r *run) begin(s *segment) {
	r.segment, r.verified = *s, false
	r.parts = append(r.parts[:0], s.packet)
	r.octets, r.flagsLast = len(s.payload()), 0
	if !s.v6 {
		r.id = binary.BigEndian.Uint16(s.packet[4:]) + 1
	}
	if s.proto == protoTCP {
		r.seq = binary.BigEndian.Uint32(s.transport()[offTCPSeq:]) + uint32(r.octets)
	}
}

// append a segment that continues the run. It is true when none can follow.
func (r *run) append(s *segment) (full bool) {
	p := s.payload()
	r.parts = append(r.parts, p)
	r.octets += len(p)
	r.id++
	r.seq += uint32(len(p))
	if s.proto == protoTCP {
		r.flagsLast = s.transport()[13]
	}
	return s.final || len(p) < r.size() || len(r.parts) == mostSegments
}

// size of the payload of each segment but the last.
func (r *run) size() int { return len(r.payload()) }

// sameFlow compares addresses, which in IP headers without options lie before the ports, ports and protocol.
func (r *run) sameFlow(s *segment) bool {
	return r.v6 == s.v6 && r.proto == s.proto && bytes.Equal(r.endpoints(), s.endpoints())
}

// between reports whether a packet has the addresses of the run.
func (r *run) between(p []byte) bool {
	if p[0]>>4 == 6 {
		return r.v6 && bytes.Equal(r.packet[8:40], p[8:40])
	}
	return !r.v6 && bytes.Equal(r.packet[12:20], p[12:20])
}

// continues reports whether a segment of the flow is what the kernel would make as the next of the run: all is the same in it but what it counts on. Of
// its checksums nothing is said.
func (r *run) continues(s *segment) bool {
	a, b := r.packet, s.packet
	if !s.joins || s.body != r.body || len(b)-s.body > r.size() || r.body+r.octets+len(b)-s.body > maxPacket {
		return false
	}
	if r.v6 {
		if !bytes.Equal(a[:4], b[:4]) || a[7] != b[7] { // traffic class, flow label, hop limit
			return false
		}
	} else {
		const dontFragment = 0x40
		if a[1] != b[1] || a[6] != b[6] || a[8] != b[8] { // traffic class, flags, TTL
			return false
		}
		if b[6]&dontFragment == 0 && binary.BigEndian.Uint16(b[4:]) != r.id {
			return false
		}
	}
	if r.proto == protoUDP {
		return true
	}
	t, u := r.transport(), s.transport()
	return binary.BigEndian.Uint32(u[offTCPSeq:]) == r.seq &&
		bytes.Equal(t[8:13], u[8:13]) && t[13] == u[13]&^(tcpPSH|tcpFIN) && // acknowledgement, offset, flags
		bytes.Equal(t[14:offTCPSum], u[14:offTCPSum]) && bytes.Equal(t[18:r.body-r.upper], u[18:s.body-s.upper]) // window, urgent pointer, options
}

// verify the checksums of the first, once.
func (r *run) verify() bool {
	r.verified = r.verified || r.segment.verify()
	return r.verified
}

// finish makes of the first packet's header that of all, and of its checksum the sum of the pseudo-header, which the kernel completes.
func (r *run) finish() vnet {
	if len(r.parts) == 1 {
		return vnet{}
	}
	p, length := r.packet, r.body+r.octets
	h := vnet{
		flags: vnetNeedsCsum, gsoType: gsoTCPv4, hdrLen: uint16(r.body), gsoSize: uint16(r.size()),
		csumStart: uint16(r.upper), csumOffset: offTCPSum,
	}
	if r.v6 {
		h.gsoType = gsoTCPv6
		binary.BigEndian.PutUint16(p[4:], uint16(length-r.upper))
	} else {
		binary.BigEndian.PutUint16(p[2:], uint16(length))
		clear(p[10:12])
		binary.BigEndian.PutUint16(p[10:], sum(0).add(p[:r.upper]).checksum())
	}
	t := r.transport()
	if r.proto == protoUDP {
		h.gsoType, h.csumOffset = gsoUDP, offUDPSum
		binary.BigEndian.PutUint16(t[offUDPLen:], uint16(length-r.upper))
	} else {
		t[13] |= r.flagsLast & (tcpPSH | tcpFIN)
	}
	binary.BigEndian.PutUint16(t[h.csumOffset:], uint16(pseudo(r.addresses(), r.proto, length-r.upper)))
	return h
}

// segmentOf looks at a packet; false: it is none of a flow that can be told so.
func segmentOf(p []byte, have offloads) (s segment, ok bool) {
	s = segment{packet: p, v6: p[0]>>4 == 6, upper: 20}
	tcp, length := have.tcp4, 0
	if s.v6 {
		s.upper, tcp = 40, have.tcp6
		if len(p) < s.upper {
			return s, false
		}
		s.proto, length = p[6], s.upper+int(binary.BigEndian.Uint16(p[4:]))
	} else {
		// Neither options nor the bit that must be zero, and no fragment.
		if len(p) < s.upper || p[0] != 0x45 || p[6]&^0x40 != 0 || p[7] != 0 {
			return s, false
		}
		s.proto, length = p[9], int(binary.BigEndian.Uint16(p[2:]))
	}
	if length != len(p) {
		return s, false
	}
	switch t := p[s.upper:]; {
	case s.proto == protoTCP && len(t) >= tcpHeaderLen:
		s.body = s.upper + int(t[12]>>4)*4
		const alone = tcpSYN | tcpRST | tcpURG | tcpCWR // CWR answers for one packet (RFC 3168 section 6.1.2)
		s.joins = tcp && s.body >= s.upper+tcpHeaderLen && s.body < len(p) && t[13]&(alone|tcpACK) == tcpACK
		s.final = t[13]&(tcpPSH|tcpFIN) != 0
	case s.proto == protoUDP && len(t) >= udpHeaderLen:
		s.body = s.upper + udpHeaderLen
		whole, summed := int(binary.BigEndian.Uint16(t[offUDPLen:])) == len(t), binary.BigEndian.Uint16(t[offUDPSum:]) != 0
		s.joins = have.udp && whole && summed && s.body < len(p)
	default:
		return s, false
	}
	return s, true
}

func (s *segment) transport() []byte { return s.packet[s.upper:] }
func (s *segment) payload() []byte   { return s.packet[s.body:] }
func (s *segment) addresses() []byte {
	if s.v6 {
		return s.packet[8:40]
	}
	return s.packet[12:20]
}

func (s *segment) endpoints() []byte {
	if s.v6 {
		return s.packet[8:44]
	}
	return s.packet[12:24]
}

// verify the checksums. One that is right but that nobody computes, all ones where the sum of what is not all zeros ends in zero, is not: a
// segment that the kernel makes has the other.
func (s *segment) verify() bool {
	const negativeZero = 0xffff
	if !s.v6 && (binary.BigEndian.Uint16(s.packet[10:]) == negativeZero || sum(0).add(s.packet[:s.upper]) != negativeZero) {
		return false
	}
	t := s.transport()
	if s.proto == protoTCP && binary.BigEndian.Uint16(t[offTCPSum:]) == negativeZero {
		return false
	}
	return pseudo(s.addresses(), s.proto, len(t)).add(t) == negativeZero
}
