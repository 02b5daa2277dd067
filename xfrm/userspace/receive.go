package userspace

import (
	"encoding/binary"
	"net/netip"
	"time"

	"cygnet/xfrm"
	"cygnet/xfrm/esp"
)

// receiver takes the bursts of one receive loop. It shares nothing with others but the driver's tables and the locks of SAs.
type receiver struct {
	d      *Driver
	out    *coalescer
	passed passed
	inner  [][]byte // of one run of packets
}

// Receiver makes what takes the bursts of one receive loop: it opens their packets in place and delivers what is in them to the TUN.
func (d *Driver) Receiver() func(*xfrm.Burst) {
	r := &receiver{d: d, out: newCoalescer(func(packets int) { d.drops.writing.Add(uint64(packets)) })}
	return r.receive
}

func (r *receiver) receive(b *xfrm.Burst) {
	t, now := r.d.tables.Load(), time.Now().Unix()
	r.out.use(*r.d.dev.Load())
	for rest := b.Packets; len(rest) > 0; {
		if len(rest[0]) < 8 {
			r.d.drops.opening[esp.Malformed].Add(1)
			rest = rest[1:]
			continue
		}
		spi, n := binary.BigEndian.Uint32(rest[0]), 1
		for n < len(rest) && len(rest[n]) >= 8 && binary.BigEndian.Uint32(rest[n]) == spi {
			n++
		}
		if s := t.inbound(xfrm.SAID{Dst: b.Local.Addr(), SPI: spi, Proto: xfrm.ProtoESP}); s != nil {
			r.run(s, rest[:n], b.Remote, b.TOS, now)
		} else {
			r.d.drops.unknownSPI.Add(uint64(n))
		}
		rest = rest[n:]
	}
	if !b.More {
		r.out.flush()
	}
}

// run opens packets of one SA. Its lock is not held while the TUN is written to.
func (r *receiver) run(s *sa, packets [][]byte, from netip.AddrPort, outer uint8, now int64) {
	r.inner = r.inner[:0]
	s.mu.Lock()
	for _, p := range packets {
		if inner := r.open(s, p, from, outer, now); inner != nil {
			r.inner = append(r.inner, inner)
		}
	}
	s.mu.Unlock()
	for _, p := range r.inner {
		r.out.add(p)
	}
}

// open is RFC 4301 section 5.2 for one packet: authenticate and decrypt, then check that the SA may carry what is in it. It returns nil
// for a packet that goes no further. The caller holds the lock of s.
func (r *receiver) open(s *sa, p []byte, from netip.AddrPort, outer uint8, now int64) []byte {
	d := r.d
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
	if !r.passed.allowed(s, data) {
		d.drops.selectors.Add(1)
		return nil
	}
	if !d.arrived(s, data, outer) {
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
