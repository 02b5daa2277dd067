package ike

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// This file watches how long children live. Lifetimes are each side's own (RFC 7296 section 2.8).

const (
	// firstPacket as the soft limit of an inbound SA makes the data plane tell its first use.
	firstPacket = 1
	// InboundGrace is how long an inbound SA outlives its child where another carries its traffic, of this IKE SA or of another: packets that the
	// peer sent on it before it deleted it are still on their way.
	InboundGrace = 2 * time.Second
	// deleteDelay: a child that we have replaced is deleted a little later, as the peer may handle our Delete before packets that we sent on it first.
	deleteDelay = 200 * time.Millisecond
	// rekeyedLimit: a rekeyed child's new outbound SA is used at the latest then, although nothing has shown that the peer has the new pair. Until then
	// the old one works just as well (RFC 7296 section 2.8).
	rekeyedLimit = time.Minute
)

// jitter draws a time below d.
func (sa *SA) jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(binary.BigEndian.Uint64(sa.draw(8)) % uint64(d))
}

// born starts the clocks of a child that has just come up.
func (sa *SA) born(c *child) {
	l := c.config.Lifetime
	if l.Rekey > 0 {
		c.rekeyAt = sa.now.Add(sa.sooner(l.Rekey, l.Jitter))
	}
	if l.Hard > 0 {
		c.endAt = sa.now.Add(l.Hard)
	}
}

// limit sets what the data plane counts. The soft limits stand on the SA whose sender we are; of an inbound one the soft packet limit tells the first
// use where we wait for it.
func (sa *SA) limit(c *child, s *xfrm.SA) {
	l := c.config.Lifetime.Limits(c.suite)
	s.HardBytes, s.HardPackets = l.HardBytes, l.HardPackets
	if s.Direction == xfrm.In && !c.initiated {
		s.SoftPackets, c.awaitsUse = firstPacket, true
		return
	}
	// Both sides count the same packets: less a tenth by chance, so that they do not rekey at once.
	some := binary.BigEndian.Uint64(sa.draw(8))
	s.SoftBytes = l.SoftBytes - some%(l.SoftBytes/10+1)
	s.SoftPackets = l.SoftPackets - some%(l.SoftPackets/10+1)
}

// onExpire: a limit was reached in the data plane.
func (sa *SA) onExpire(e Expire) {
	c := sa.findChild(func(c *child) bool { return c.inID() == e.ID || c.outID() == e.ID })
	switch {
	case c == nil:
	case e.Hard:
		sa.endChild(c, "its lifetime ended")
	case e.ID == c.inID() && c.awaitsUse:
		sa.onFirstUse(e.ID)
	case c.up:
		sa.rekeyChild(c)
	}
}

// childDue is when something about the children is due.
func (sa *SA) childDue() (Time, bool) {
	var e earliest
	for _, c := range sa.children {
		e.add(c.sendsAt())
		e.add(c.behindDue())
		if !c.deleting && sa.phase.name() == phaseEstablished {
			e.add(c.rekeyAt, c.rekeyAt != 0)
			e.add(c.endAt, c.endAt != 0)
		}
	}
	for _, f := range sa.fading {
		e.add(f.at, true)
	}
	return e.at, e.set
}

func (sa *SA) wakeLifetimes() {
	for _, c := range slices.Clone(sa.children) {
		if c.gone || c.deleting || sa.finished || sa.phase.name() != phaseEstablished {
			continue
		}
		switch {
		case sa.due(c.endAt, c.endAt != 0):
			sa.endChild(c, "its lifetime ended")
		case sa.due(c.rekeyAt, c.rekeyAt != 0):
			c.rekeyAt = 0
			switch {
			case sa.rekeying(c): // the peer has not answered the last try yet
				c.rekeyAt = sa.now.Add(rekeyPause)
			case sa.successor(c) == nil && c.peerRekeys == 0:
				sa.rekeyChild(c)
			}
		}
	}
	sa.fade()
}

// endChild: a child has reached a hard limit. It must not be used any more; where it could not be rekeyed the IKE SA goes with it (RFC 7296 section 2.8).
func (sa *SA) endChild(c *child, why string) {
	c.rekeyAt, c.endAt = 0, 0
	if c.deleting || c.gone || sa.phase.name() != phaseEstablished {
		return
	}
	if next := sa.successor(c); next == nil && c.tries > 0 && c.up {
		r := &Refusal{Stage: "CREATE_CHILD_SA", Code: CodeExpired,
			Why: fmt.Sprintf("child %s could not be rekeyed in its lifetime: the IKE SA is made anew", c.config.Name)}
		sa.refused(r, c.config.Name)
		sa.remove(c, true, true)
		sa.end(ending{code: r.Code, why: r.Why, retry: true})
		return
	}
	sa.deleteChild(c, why)
	sa.remove(c, true, true)
}

// peerWentOn: a further request of the peer shows that it has our last answer, and with it the new pair of a rekey. A Delete says itself what follows.
func (sa *SA) peerWentOn(m *message) {
	if has(m.payloads, wire.PayloadDelete) {
		return
	}
	for _, c := range slices.Clone(sa.children) {
		if c.outboundDue != 0 && !c.redundant {
			sa.startSending(c)
		}
		sa.peerHas(c)
	}
}

// fading is an inbound SA whose child is gone.
type fading struct {
	at      Time
	id      xfrm.SAID
	lineage string
}

// outlive keeps the inbound SA of a child for a little longer, when another carries its traffic from here on.
func (sa *SA) outlive(c *child) {
	other := sa.findChild(func(x *child) bool { return x != c && x.config == c.config && x.in == installed && !x.deleting })
	if c.in != installed || other == nil && !c.redundant {
		return
	}
	sa.fading = append(sa.fading, fading{sa.now.Add(InboundGrace), c.inID(), sa.lineage(c)})
	c.in = absent
}

// fade removes the inbound SAs whose time is over.
func (sa *SA) fade() {
	sa.fading = slices.DeleteFunc(sa.fading, func(f fading) bool {
		if !sa.due(f.at, true) {
			return false
		}
		sa.sadb(xfrm.Batch{Lineage: f.lineage, Remove: []xfrm.SAID{f.id}}, func(d SADBDone) {
			if d.Err != nil {
				sa.ignored("removing %v: %v", f.id, d.Err)
			}
		})
		return true
	})
}
