package userspace

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"

	"cygnet/xfrm"
	"cygnet/xfrm/esp"
)

// sa is one SA in use. Identity and reqid never change while it is in tables; the rest is behind its lock, which the packet path
// holds for what the TUN handed out as one, or for a run of packets received: only a change of this very SA ever waits for it.
type sa struct {
	direction xfrm.Direction
	reqID     uint32
	birth     uint64 // order of AddSA

	limit atomic.Int64 // longest inner packet that the path carries, in octets; 0: not known
	asked atomic.Int64 // when the host was asked for it, seconds since the epoch; 0: not since the path is what it is

	mu       sync.Mutex
	state    xfrm.SA // without keys
	out      *esp.Outbound
	in       *esp.Inbound
	usage    xfrm.Usage
	soft     bool           // its Expire was raised
	hard     bool           // likewise; the SA carries nothing more
	wiped    bool           // it was removed
	reported netip.AddrPort // of the last Mapping
}

func newSA(s xfrm.SA, rand io.Reader) (*sa, error) {
	if s.Mode != xfrm.Tunnel {
		return nil, errors.New("transport mode needs a kernel with ESP: use mode = \"tunnel\"")
	}
	if s.ID.Proto != xfrm.ProtoESP {
		return nil, fmt.Errorf("IP protocol %d: only ESP (50) is carried", s.ID.Proto)
	}
	if !s.ID.Dst.IsValid() || !s.Src.IsValid() || s.ID.Dst.Is4() != s.Src.Is4() {
		return nil, fmt.Errorf("outer addresses %v -> %v: two of one family are needed", s.Src, s.ID.Dst)
	}
	n := &sa{direction: s.Direction, reqID: s.ReqID}
	var err error
	switch s.Direction {
	case xfrm.In:
		n.in, err = esp.NewInbound(s)
	case xfrm.Out:
		n.out, err = esp.NewOutbound(s, rand)
	default:
		err = fmt.Errorf("direction %d", s.Direction)
	}
	if err != nil {
		return nil, err
	}
	s.EncrKey, s.IntegKey = zeroSecret, zeroSecret
	n.state = s
	return n, nil
}

func (s *sa) wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wiped = true
	if s.in != nil {
		s.in.Wipe()
	} else {
		s.out.Wipe()
	}
}

// read copies state and usage.
func (s *sa) read() (xfrm.SA, xfrm.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.usage
	if s.in != nil {
		u.Sequence = s.in.Sequence()
	} else {
		u.Sequence = s.out.Sequence()
	}
	return s.state, u
}

// path of an SA's packets as this host sees it: ports are 0 without encapsulation.
func (s *sa) path() (local, remote netip.AddrPort) {
	var src, dst uint16
	if e := s.state.Encap; e != nil {
		src, dst = e.SrcPort, e.DstPort
	}
	from, to := netip.AddrPortFrom(s.state.Src, src), netip.AddrPortFrom(s.state.ID.Dst, dst)
	if s.direction == xfrm.In {
		return to, from
	}
	return from, to
}

// count books a packet that the SA carried. It returns the Expire that is due, if any.
func (s *sa) count(octets int, now int64) xfrm.Event {
	s.usage.Packets++
	s.usage.Bytes += uint64(octets)
	s.usage.LastUse = now
	switch {
	case !s.hard && (reached(s.usage.Packets, s.state.HardPackets) || reached(s.usage.Bytes, s.state.HardBytes)):
		s.hard = true
		return xfrm.Expire{ID: s.state.ID, Hard: true}
	case !s.hard && !s.soft && (reached(s.usage.Packets, s.state.SoftPackets) || reached(s.usage.Bytes, s.state.SoftBytes)):
		s.soft = true
		return xfrm.Expire{ID: s.state.ID}
	}
	return nil
}

func reached(n, limit uint64) bool { return limit != 0 && n >= limit }
