package userspace

import (
	"errors"
	"time"

	"cygnet/xfrm"
	"cygnet/xfrm/esp"
)

const (
	// burstPackets and burstOctets are what the kernel takes as one (Linux 6.9: 128 segments, before that 64; a UDP datagram's length).
	burstPackets = 128
	burstOctets  = 65507
	// burstsAtOnce leave, or packetsAtOnce are read, before the lane looks at the clock, and whether the device is closed, though more can be read. Of
	// those that are read any number may go nowhere, and what is in the burst does not wait for them.
	burstsAtOnce, packetsAtOnce = 64, 2048
	// acquireAgain is how long an unanswered Acquire stands, as net.core.xfrm_acq_expires has it.
	acquireAgain = 30 // seconds
)

// lane takes packets from the TUN to sealed bursts: one goroutine, from the read to the send. The octets of a packet are moved thrice: by the kernel into
// the TUN's buffer, by the cipher into the burst, by the kernel out of it.
type lane struct {
	d        *Driver
	dev      device
	segments segmenter
	burst    xfrm.Burst // always a Run
	arena    []byte     // the packets of the burst, one after the other
	sent     int        // bursts since the lane last looked up
	taken    int        // packets of the TUN since then
	now      int64      // seconds since the epoch
	told     rate       // of errors about packets that are too big
	icmp     [tooBigMost6]byte
}

func newLane(d *Driver, dev device) *lane {
	return &lane{
		d: d, dev: dev, arena: make([]byte, 0, 2*maxPacket),
		burst: xfrm.Burst{Packets: make([][]byte, 0, burstPackets), Run: true},
	}
}

// run ends when the device does. What is in the burst waits only while more can be read at once.
func (l *lane) run() {
	take := func(h vnet, p []byte) bool {
		l.packet(h, p)
		l.taken++
		return l.sent < burstsAtOnce && l.taken < packetsAtOnce
	}
	for {
		l.now, l.sent, l.taken = time.Now().Unix(), 0, 0
		err := l.dev.readAll(take)
		l.flush()
		if err != nil {
			return
		}
	}
}

// packet finds policy and SA of what the TUN handed out (RFC 4301 section 5.1), one look-up for all segments of a flow, and puts it, sealed, into the
// burst. There is no way out in clear. The octets that are looked at are those that leave: nothing but the segmenter's fields changes afterwards.
func (l *lane) packet(h vnet, p []byte) {
	if !complete(h, p) {
		l.d.drops.offload.Add(1)
		return
	}
	f, ok := parse(p)
	if !ok {
		l.d.drops.noPolicy.Add(1)
		return
	}
	if !l.segments.load(h, p, &f) {
		l.d.drops.offload.Add(1)
		return
	}
	// An SA that was removed between look-up and use has a successor by then, as at every rekey.
	for range 2 {
		if l.route(&f, p) {
			return
		}
	}
	l.d.drops.sealing.Add(uint64(l.segments.count()))
}

// route is one look-up for the packet that is loaded, and what follows from it. It returns false when the SA that was found is gone.
func (l *lane) route(f *flow, p []byte) bool {
	packets := uint64(l.segments.count())
	b, ok := l.d.tables.Load().find(f)
	switch {
	case !ok:
		l.d.drops.noPolicy.Add(packets)
	case b.Action != xfrm.Protect:
		// Bypassed packets never come here: a rule leads them past the TUN.
		l.d.drops.blocked.Add(packets)
	case b.sa == nil:
		l.d.drops.noSA.Add(packets)
		l.acquire(b.policy, f)
	case !l.admit(b.sa, p, f):
		l.d.drops.tooBig.Add(packets)
	default:
		next := uint8(esp.NextIPv4)
		if f.src.Is6() {
			next = esp.NextIPv6
		}
		return l.seal(b.sa, next, trafficClass(p), packets)
	}
	return true
}

func (l *lane) acquire(p *policy, f *flow) {
	if last := p.asked.Load(); last == 0 || l.now-last >= acquireAgain {
		p.asked.Store(l.now)
		l.d.events.raise(xfrm.Acquire{ReqID: p.Template.ReqID, Selector: f.selector()})
	}
}

// seal the segments into the burst. What the SA may not carry any more goes nowhere: limits are those of single packets. It returns false, and has done nothing,
// when the SA was removed.
func (l *lane) seal(s *sa, next, class uint8, packets uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wiped {
		return false
	}
	class = outerClass(class, s.state.HideDSCP)
	if local, remote := s.path(); local != l.burst.Local || remote != l.burst.Remote || class != l.burst.TOS {
		l.flush()
		l.burst.Local, l.burst.Remote, l.burst.TOS = local, remote, class
	}
	for p := l.segments.next(); p != nil; p = l.segments.next() {
		if s.hard || !l.sealOne(s, p, next) {
			l.d.drops.sealing.Add(packets)
			return true
		}
		packets--
	}
	return true
}

func (l *lane) sealOne(s *sa, p []byte, next uint8) bool {
	l.makeRoom(s.out.Len(len(p)))
	start := len(l.arena)
	sealed, err := s.out.Seal(l.arena, p, next)
	if err != nil {
		if errors.Is(err, esp.ErrSequence) {
			s.hard = true
			l.d.events.raise(xfrm.Expire{ID: s.state.ID, Hard: true})
		}
		return false
	}
	l.arena = sealed
	l.burst.Packets = append(l.burst.Packets, sealed[start:])
	if ev := s.count(len(p), l.now); ev != nil {
		l.d.events.raise(ev)
	}
	return true
}

// makeRoom sends the burst if a packet of n octets cannot join it: in a Run only the last packet may be shorter.
func (l *lane) makeRoom(n int) {
	packets := l.burst.Packets
	if len(packets) == 0 {
		return
	}
	first, last := len(packets[0]), len(packets[len(packets)-1])
	if n > first || last < first || len(packets) == burstPackets || len(l.arena)+n > burstOctets {
		l.flush()
	}
}

func (l *lane) flush() {
	if len(l.burst.Packets) > 0 {
		if err := l.d.config.Send(&l.burst); err != nil {
			l.d.drops.sending.Add(1)
		}
		l.sent++
	}
	l.burst.Packets, l.arena = l.burst.Packets[:0], l.arena[:0]
}
