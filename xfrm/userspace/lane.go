package userspace

import (
	"errors"
	"time"

	"cygnet/xfrm"
	"cygnet/xfrm/esp"
)

const (
	burstPackets = 64
	burstOctets  = 1 << 16
	// acquireAgain is how long an unanswered Acquire stands, as net.core.xfrm_acq_expires has it.
	acquireAgain = 30 // seconds
)

// lane takes packets from the TUN to sealed bursts: one goroutine, from the read to the send.
type lane struct {
	d     *Driver
	dev   device
	burst xfrm.Burst
	arena []byte // the packets of the burst, one after the other
	now   int64
}

func newLane(d *Driver, dev device) *lane {
	return &lane{
		d: d, dev: dev, arena: make([]byte, 0, burstOctets+2*maxPacket),
		burst: xfrm.Burst{Packets: make([][]byte, 0, burstPackets)},
	}
}

// run ends when the device does.
func (l *lane) run() {
	take := func(_ vnet, p []byte) bool {
		l.packet(p)
		return len(l.burst.Packets) < burstPackets && len(l.arena) < burstOctets
	}
	for {
		l.now = time.Now().Unix()
		err := l.dev.readAll(take)
		l.flush()
		if err != nil {
			return
		}
	}
}

// packet finds policy and SA of one packet (RFC 4301 section 5.1) and puts it, sealed, into the burst. There is no way out in clear.
func (l *lane) packet(p []byte) {
	f, ok := parse(p)
	if !ok {
		l.d.drops.noPolicy.Add(1)
		return
	}
	b, ok := l.d.tables.Load().find(&f)
	switch {
	case !ok:
		l.d.drops.noPolicy.Add(1)
	case b.Action != xfrm.Protect:
		// Bypassed packets never come here: a rule leads them past the TUN.
		l.d.drops.blocked.Add(1)
	case b.sa == nil:
		l.d.drops.noSA.Add(1)
		l.acquire(b.policy, &f)
	default:
		l.seal(b.sa, p)
	}
}

func (l *lane) acquire(p *policy, f *flow) {
	if last := p.asked.Load(); last == 0 || l.now-last >= acquireAgain {
		p.asked.Store(l.now)
		l.d.events.raise(xfrm.Acquire{ReqID: p.Template.ReqID, Selector: f.selector()})
	}
}

func (l *lane) seal(s *sa, p []byte) {
	next := uint8(esp.NextIPv4)
	if p[0]>>4 == 6 {
		next = esp.NextIPv6
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hard {
		l.d.drops.sealing.Add(1)
		return
	}
	if local, remote := s.path(); local != l.burst.Local || remote != l.burst.Remote {
		l.flush()
		l.burst.Local, l.burst.Remote = local, remote
	}
	start := len(l.arena)
	sealed, err := s.out.Seal(l.arena, p, next)
	if err != nil {
		l.d.drops.sealing.Add(1)
		if errors.Is(err, esp.ErrSequence) {
			s.hard = true
			l.d.events.raise(xfrm.Expire{ID: s.state.ID, Hard: true})
		}
		return
	}
	l.arena = sealed
	l.burst.Packets = append(l.burst.Packets, sealed[start:])
	l.d.events.raise(s.count(len(p), l.now))
}

func (l *lane) flush() {
	if len(l.burst.Packets) > 0 {
		if err := l.d.config.Send(&l.burst); err != nil {
			l.d.drops.sending.Add(1)
		}
	}
	l.burst.Packets, l.arena = l.burst.Packets[:0], l.arena[:0]
}
