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

// source writes packet information that makes local the source address of a message into oob; without an address the kernel chooses.
func source(oob *[oobSize]byte, local netip.Addr) []byte {
	switch {
	case !local.IsValid() || local.IsUnspecified():
		return nil
	case local.Is4():
		data := header(oob, unix.IPPROTO_IP, unix.IP_PKTINFO, unix.SizeofInet4Pktinfo)
		a := local.As4()
		copy(data[4:], a[:]) // ifindex 0: routing chooses the link
		return oob[:unix.CmsgSpace(unix.SizeofInet4Pktinfo)]
	}
	data := header(oob, unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, unix.SizeofInet6Pktinfo)
	a := local.As16()
	copy(data, a[:])
	return oob[:unix.CmsgSpace(unix.SizeofInet6Pktinfo)]
}

// header writes a struct cmsghdr, whose length field is a machine word, and returns the room for its data.
func header(oob *[oobSize]byte, level, kind int32, size int) []byte {
	clear(oob[:])
	word := unix.CmsgLen(0) - 8
	if word == 8 {
		binary.NativeEndian.PutUint64(oob[:], uint64(unix.CmsgLen(size)))
	} else {
		binary.NativeEndian.PutUint32(oob[:], uint32(unix.CmsgLen(size)))
	}
	binary.NativeEndian.PutUint32(oob[word:], uint32(level))
	binary.NativeEndian.PutUint32(oob[word+4:], uint32(kind))
	return oob[unix.CmsgLen(0):]
}
