package transport

import (
	"fmt"
	"net/netip"

	"cygnet/ike"
	"cygnet/xfrm"
)

// Send sends an IKE message from path.Local; with the non-ESP marker when Local.Port is the NAT traversal port.
func (t *Transport) Send(p ike.Path, data []byte) error {
	s, err := t.socketFor(p)
	if err != nil {
		return err
	}
	if s.natt {
		data = append(make([]byte, markerLen, markerLen+len(data)), data...)
	}
	return s.forIKE().send(p, data)
}

// Keepalive sends the one octet of RFC 3948 section 2.3.
func (t *Transport) Keepalive(p ike.Path) error {
	s, err := t.socketFor(p)
	if err != nil {
		return err
	}
	return s.forIKE().send(p, []byte{keepalive})
}

// SendESP sends ESP packets: in UDP from and to the ports of the burst, or plain when they are 0. It goes on after a packet that
// the kernel refuses and returns the first such error.
func (t *Transport) SendESP(b *xfrm.Burst) error {
	p := ike.Path{Local: b.Local, Remote: b.Remote}
	if b.Local.Port() == 0 {
		s, err := t.rawFor(b)
		if err != nil {
			return err
		}
		return s.out.send(b)
	}
	s, err := t.socketFor(p)
	if err != nil {
		return err
	}
	if !s.natt {
		// On the IKE port the receiver would take it for an IKE message.
		return fmt.Errorf("ESP in UDP from port %d: only the NAT traversal port %d carries it", b.Local.Port(), t.config.NATTPort)
	}
	return s.out.send(b)
}

// socketFor finds the socket of a path's family and local port; of two, that of ESP.
func (t *Transport) socketFor(p ike.Path) (*udpSocket, error) {
	f, err := pathFamily(p.Local.Addr(), p.Remote.Addr())
	if err != nil {
		return nil, err
	}
	for _, s := range t.udp {
		if s.domain == f.domain && s.port == p.Local.Port() {
			return s, nil
		}
	}
	return nil, fmt.Errorf("send to %s from %s: no such socket is open", p.Remote, p.Local)
}

func pathFamily(local, remote netip.Addr) (family, error) {
	f := ipv6
	if remote.Unmap().Is4() {
		f = ipv4
	}
	if !remote.IsValid() || local.IsValid() && local.Unmap().Is4() != remote.Unmap().Is4() {
		return f, fmt.Errorf("send to %s from %s: two addresses of one family are needed", remote, local)
	}
	return f, nil
}

func (s *udpSocket) send(p ike.Path, data []byte) error {
	var c controls
	c.source(p.Local.Addr().Unmap())
	to := netip.AddrPortFrom(p.Remote.Addr().Unmap(), p.Remote.Port())
	_, _, err := s.conn.WriteMsgUDPAddrPort(data, c.bytes(), to)
	if err != nil {
		return fmt.Errorf("send %d octets to %s from %s: %w", len(data), p.Remote, p.Local, cause(err))
	}
	return nil
}
