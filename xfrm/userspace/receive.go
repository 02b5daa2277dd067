package userspace

import (
	"encoding/binary"
	"net/netip"
	"time"

	"cygnet/xfrm"
	"cygnet/xfrm/esp"
)

// Receiver makes what takes the bursts of one receive loop.
func (d *Driver) Receiver() func(*xfrm.Burst) {
	parts := make([][]byte, 1)
	return func(b *xfrm.Burst) { d.receive(b, parts) }
}

// Receive opens the packets of a burst, in place, and delivers what is in them to the TUN. It is safe for concurrent use.
func (d *Driver) Receive(b *xfrm.Burst) { d.receive(b, make([][]byte, 1)) }

func (d *Driver) receive(b *xfrm.Burst, parts [][]byte) {
	t, now := d.tables.Load(), time.Now().Unix()
	for _, p := range b.Packets {
		if len(p) < 8 {
			d.drops.opening[esp.Malformed].Add(1)
			continue
		}
		id := xfrm.SAID{Dst: b.Local.Addr(), SPI: binary.BigEndian.Uint32(p), Proto: xfrm.ProtoESP}
		s := t.inbound(id)
		if s == nil {
			d.drops.unknownSPI.Add(1)
			continue
		}
		if inner := d.open(s, p, b.Remote, now); inner != nil {
			parts[0] = inner
			if err := (*d.dev.Load()).write(vnet{}, parts); err != nil {
				d.drops.writing.Add(1)
			}
		}
	}
}

// open is RFC 4301 section 5.2 for one packet: authenticate and decrypt, then check that the SA may carry what is in it. It returns nil
// for a packet that goes no further.
func (d *Driver) open(s *sa, p []byte, from netip.AddrPort, now int64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hard {
		d.drops.expired.Add(1)
		return nil
	}
	highest := s.in.Sequence()
	data, next, reason := s.in.Open(p)
	switch reason {
	case esp.Malformed, esp.Wiped:
	case esp.Replayed:
		s.usage.ReplayDrops++
	case esp.Integrity:
		s.usage.IntegrityDrops++
	default: // authenticated
		d.authenticated(s, len(data), from, s.in.Sequence() > highest, now)
	}
	if reason == esp.Accepted {
		data, reason = esp.Datagram(data, next)
	}
	if reason != esp.Accepted {
		d.drops.opening[reason].Add(1)
		return nil
	}
	if !allowed(s.state.Selectors, data) {
		d.drops.selectors.Add(1)
		return nil
	}
	return data
}

// authenticated raises the events of a packet that the peer has sent, whatever is in it: dummies count for the lifetime too.
func (d *Driver) authenticated(s *sa, octets int, from netip.AddrPort, newest bool, now int64) {
	if s.usage.Packets == 0 {
		d.events.raise(xfrm.FirstUse{ID: s.state.ID})
	}
	d.events.raise(s.count(octets, now))
	// Only the newest packet tells where the peer is: an older one may have been held back by someone else.
	if _, known := s.path(); newest && s.state.Encap != nil && from.Port() != 0 {
		switch {
		case from == known:
			s.reported = netip.AddrPort{}
		case from != s.reported:
			s.reported = from
			d.events.raise(xfrm.Mapping{ID: s.state.ID, From: from})
		}
	}
}

// allowed checks an inner packet against the selectors of its SA. An ICMP error of a router on the way is let through when the packet
// that it quotes could have been sent to the peer (RFC 4301 section 6.2).
func allowed(selectors []xfrm.Selector, packet []byte) bool {
	f, ok := parse(packet)
	if !ok {
		return false
	}
	if covered(selectors, &f) {
		return true
	}
	q, ok := quoted(packet, &f)
	if !ok || q.src != f.dst {
		return false
	}
	q = q.reversed()
	return covered(selectors, &q)
}

func covered(selectors []xfrm.Selector, f *flow) bool {
	for i := range selectors {
		if matches(&selectors[i], f) {
			return true
		}
	}
	return false
}
