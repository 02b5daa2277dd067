package transport

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// oobSize is room for the control messages of one datagram: packet information, traffic class, segment size, with some to spare.
const oobSize = 128

// arrival is what the kernel says of a received datagram besides its octets.
type arrival struct {
	local   netip.Addr // that it reached; invalid if it was not said
	tos     uint8      // traffic class: DSCP and ECN
	segment int        // octets of each of the datagrams that were merged, of which the last may be shorter; 0: it is one
}

// parseControl reads control messages. A link-local address gets the zone of the peer's, which is on the same link.
func parseControl(oob []byte, zone string) (a arrival) {
	for len(oob) >= unix.SizeofCmsghdr {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return a
		}
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			a.local = netip.AddrFrom4([4]byte(data[4:8])) // ifindex, spec_dst, addr
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			a.local = netip.AddrFrom16([16]byte(data[:16]))
			if a.local.IsLinkLocalUnicast() {
				a.local = a.local.WithZone(zone)
			}
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_TOS && len(data) >= 1:
			a.tos = data[0]
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_TCLASS && len(data) >= 4:
			a.tos = uint8(binary.NativeEndian.Uint32(data))
		case h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_GRO && len(data) >= 4:
			a.segment = int(binary.NativeEndian.Uint32(data))
		}
		oob = rest
	}
	return a
}

// controls are the control messages of what is sent.
type controls struct {
	buf [oobSize]byte
	n   int
}

func (c *controls) bytes() []byte { return c.buf[:c.n] }

// source makes local the source address; without an address the kernel chooses.
func (c *controls) source(local netip.Addr) {
	switch {
	case !local.IsValid() || local.IsUnspecified():
	case local.Is4():
		a := local.As4()
		copy(c.put(unix.IPPROTO_IP, unix.IP_PKTINFO, unix.SizeofInet4Pktinfo)[4:], a[:]) // ifindex 0: routing chooses the link
	default:
		a := local.As16()
		copy(c.put(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, unix.SizeofInet6Pktinfo), a[:])
	}
}

// class sets the traffic class; 0 is the socket's own.
func (c *controls) class(domain uint16, tos uint8) {
	level, kind := int32(unix.IPPROTO_IP), int32(unix.IP_TOS)
	if domain == unix.AF_INET6 {
		level, kind = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	if tos != 0 {
		binary.NativeEndian.PutUint32(c.put(level, kind, 4), uint32(tos))
	}
}

// segment makes datagrams of size octets of what is sent, the last may be shorter; 0: it is one.
func (c *controls) segment(size int) {
	if size > 0 {
		binary.NativeEndian.PutUint16(c.put(unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2), uint16(size))
	}
}

// put appends a struct cmsghdr, whose length field is a machine word, and returns the room for its data.
func (c *controls) put(level, kind int32, size int) []byte {
	b := c.buf[c.n:][:unix.CmsgSpace(size)]
	c.n += len(b)
	clear(b)
	word := unix.CmsgLen(0) - 8
	if word == 8 {
		binary.NativeEndian.PutUint64(b, uint64(unix.CmsgLen(size)))
	} else {
		binary.NativeEndian.PutUint32(b, uint32(unix.CmsgLen(size)))
	}
	binary.NativeEndian.PutUint32(b[word:], uint32(level))
	binary.NativeEndian.PutUint32(b[word+4:], uint32(kind))
	return b[unix.CmsgLen(0):][:size]
}
