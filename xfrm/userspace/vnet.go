package userspace

import (
	"encoding/binary"
	"strings"
)

// vnetLen is the length of a struct virtio_net_hdr of <linux/virtio_net.h>, in the host's octet order.
const vnetLen = 10

// vnet is the header that a TUN with offloads has before each packet (virtio specification, section 5.1.6). The zero value is a packet of its own
// whose checksums are complete.
type vnet struct {
	flags   uint8
	gsoType uint8
	// hdrLen is how much comes before the payload. The kernel has it wrong for packets that it forwards: it is written, and never believed.
	hdrLen     uint16
	gsoSize    uint16 // payload of each segment but the last, in octets
	csumStart  uint16 // with vnetNeedsCsum: the checksum covers the packet from here
	csumOffset uint16 // and lies so many octets after that; it holds the sum of the pseudo-header
}

// Values of the fields (VIRTIO_NET_HDR_*).
const (
	vnetNeedsCsum = 1
	vnetDataValid = 2 // the checksum was verified

	gsoNone  = 0
	gsoTCPv4 = 1
	gsoTCPv6 = 4
	gsoUDP   = 5    // UDP_L4: both families
	gsoECN   = 0x80 // a bit: the first segment alone has CWR. Never asked for, so never seen
)

func parseVnet(b *[vnetLen]byte) vnet {
	e := binary.NativeEndian
	return vnet{flags: b[0], gsoType: b[1], hdrLen: e.Uint16(b[2:]), gsoSize: e.Uint16(b[4:]), csumStart: e.Uint16(b[6:]), csumOffset: e.Uint16(b[8:])}
}

func (h *vnet) put(b *[vnetLen]byte) {
	e := binary.NativeEndian
	b[0], b[1] = h.flags, h.gsoType
	e.PutUint16(b[2:], h.hdrLen)
	e.PutUint16(b[4:], h.gsoSize)
	e.PutUint16(b[6:], h.csumStart)
	e.PutUint16(b[8:], h.csumOffset)
}

// offloads is what a TUN takes and hands out: packets with a vnet before them, and of which kinds several in one.
type offloads struct {
	header     bool
	tcp4, tcp6 bool
	udp        bool // Linux 6.2
}

func (o offloads) String() string {
	var have []string
	for _, k := range []struct {
		is   bool
		name string
	}{{o.header, "checksum"}, {o.tcp4, "TSO4"}, {o.tcp6, "TSO6"}, {o.udp, "USO"}} {
		if k.is {
			have = append(have, k.name)
		}
	}
	if have == nil {
		return "none"
	}
	return strings.Join(have, " ")
}
