package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"cygnet/ike"
	"cygnet/xfrm"
)

const (
	maxDatagram = 1 << 16
	oobSize     = 128              // room for one packet information message, with much to spare
	readPause   = time.Millisecond // after a failed read (no memory): do not spin
)

// receiveUDP is the receive loop of one socket.
func (t *Transport) receiveUDP(s *udpSocket) {
	buf, oob := make([]byte, maxDatagram), make([]byte, oobSize)
	burst, deliver := xfrm.Burst{Packets: make([][]byte, 1)}, t.receiver()
	for {
		n, oobn, _, from, err := s.conn.ReadMsgUDPAddrPort(buf, oob)
		if err != nil {
			if t.ended(err) {
				return
			}
			continue
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		k, body := classify(s.natt, buf[:n])
		switch k {
		case kindNone:
			t.dropped.short.Add(1)
		case kindIKE:
			local, _ := destination(oob[:oobn], from.Addr().Zone())
			path := ike.Path{Local: netip.AddrPortFrom(local, s.port), Remote: from}
			t.config.IKE(ike.Packet{Path: path, Data: bytes.Clone(body)})
		case kindESP:
			local, _ := destination(oob[:oobn], from.Addr().Zone())
			burst.Local, burst.Remote = netip.AddrPortFrom(local, s.port), from
			burst.Packets[0] = body
			deliver(&burst)
		}
	}
}

// receiver of ESP for one loop.
func (t *Transport) receiver() func(*xfrm.Burst) {
	if t.config.ESP == nil {
		return func(b *xfrm.Burst) { t.dropped.esp.Add(uint64(len(b.Packets))) }
	}
	return t.config.ESP()
}

// ended reports whether a read failed because the socket is closed. Any other failure passes.
func (t *Transport) ended(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return true
	}
	t.dropped.errors.Add(1)
	time.Sleep(readPause)
	return false
}

// destination finds the address that a packet reached in its packet information. A link-local address gets the zone of the
// peer's, which is on the same link.
func destination(oob []byte, zone string) (netip.Addr, bool) {
	for len(oob) >= unix.SizeofCmsghdr {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return netip.Addr{}, false
		}
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			return netip.AddrFrom4([4]byte(data[4:8])), true // ifindex, spec_dst, addr
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			a := netip.AddrFrom16([16]byte(data[:16]))
			if a.IsLinkLocalUnicast() {
				a = a.WithZone(zone)
			}
			return a, true
		}
		oob = rest
	}
	return netip.Addr{}, false
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
