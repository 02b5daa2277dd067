package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"

	"cygnet/xfrm"
)

// rawSocket carries IP protocol 50 of one address family.
type rawSocket struct {
	conn *net.IPConn
	family
	out *outlet
}

func (t *Transport) openRaw(f family) (*rawSocket, error) {
	lc := net.ListenConfig{Control: controlled(func(fd int) error { return t.options(fd, family6Raw(f), false) })}
	pc, err := lc.ListenPacket(context.Background(), f.ip, f.any)
	if errors.Is(err, os.ErrPermission) {
		return nil, fmt.Errorf("raw socket for ESP (IP protocol 50) on %s: %w: start as root or with CAP_NET_RAW, or encapsulate ESP in UDP", f.any, cause(err))
	}
	if err != nil {
		return nil, fmt.Errorf("raw socket for ESP (IP protocol 50) on %s: %w", f.any, cause(err))
	}
	return &rawSocket{conn: pc.(*net.IPConn), family: f}, nil
}

// family6Raw: a raw IPv6 socket is IPv6 only by nature and refuses the option.
func family6Raw(f family) family { f.v6only = 0; return f }

// classify takes ESP out of what a raw socket delivers: of IPv4, with its header. SPI 0 is for local use and never on the wire (RFC 4303
// section 2.1).
func (s *rawSocket) classify(b []byte) (kind, []byte) {
	ok := true
	if s.domain == ipv4.domain {
		b, ok = afterIPv4Header(b)
	}
	if !ok || len(b) < espHeaderLen || binary.BigEndian.Uint32(b) == 0 {
		return kindNone, nil
	}
	return kindESP, b
}

// afterIPv4Header strips the header that raw IPv4 sockets deliver.
func afterIPv4Header(b []byte) ([]byte, bool) {
	if len(b) < 20 || b[0]>>4 != 4 {
		return nil, false
	}
	length := int(b[0]&15) * 4
	if length < 20 || length > len(b) {
		return nil, false
	}
	return b[length:], true
}

func (t *Transport) rawFor(b *xfrm.Burst) (*rawSocket, error) {
	f, err := pathFamily(b.Local.Addr(), b.Remote.Addr())
	if err != nil {
		return nil, err
	}
	for _, s := range t.raw {
		if s.domain == f.domain {
			return s, nil
		}
	}
	return nil, fmt.Errorf("send ESP to %s without UDP: no raw socket is open", b.Remote.Addr())
}
