package ike

import (
	"cmp"
	"fmt"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// The peer is asked whether it lives when nothing was heard of it for some time (RFC 7296 section 2.4), and sooner when our packets go out and none
// come in: that is how a peer looks that has restarted and knows nothing of us.

// quietLimit is how long nothing may come in while packets go out.
const quietLimit = 10 * time.Second

// quiet is what was seen of a peer that is not heard.
type quiet struct {
	looked Time          // when the traffic was looked at last
	pause  time.Duration // between looks; grows for a peer that lives and only listens. 0: quietLimit
}

func (q *quiet) wait(most time.Duration) time.Duration { return min(max(q.pause, quietLimit), most) }

// livenessExchange asks the peer whether it lives: an INFORMATIONAL, empty but for NAT detection where a mapping may have changed.
type livenessExchange struct {
	brief bool // nothing hangs on the answer but this IKE SA, which another has replaced
}

func (*livenessExchange) name() string                   { return "INFORMATIONAL (liveness)" }
func (x *livenessExchange) onFailure(sa *SA, r *Refusal) { sa.lost(x, r) }

func (x *livenessExchange) start(sa *SA) {
	var ps []wire.Payload
	if sa.tellsMapping() {
		i, r := sa.spis()
		ps = natPayloads(i, r, sa.path, sa.nat.faked)
	}
	s := sa.schedule()
	if x.brief {
		s = doubtSchedule()
	}
	sa.request(wire.Informational, s, ps...)
}

func (x *livenessExchange) onResponse(sa *SA, m *message) {
	sa.done(x)
	sa.reached(sa.now) // or the peer is told at once where to
	sa.mapped(m)
}

// livenessDue: after some time without a sign of life the data plane is asked first, then the peer.
func (sa *SA) livenessDue() (Time, bool) {
	if sa.phase.name() != phaseEstablished || sa.conn.Liveness.Idle <= 0 || sa.requests.current != nil || len(sa.queue) > 0 {
		return 0, false
	}
	if sa.usageSent != 0 {
		return sa.usageSent.Add(usageLimit), true
	}
	idle := sa.conn.Liveness.Idle
	at := sa.lastSign().Add(idle)
	if in, _ := sa.installedSAs(); len(in) > 0 {
		at = min(at, max(sa.lastSign(), sa.quiet.looked).Add(sa.quiet.wait(idle)))
	}
	if sa.isBack() {
		at = max(sa.woke, sa.lastHeard)
	}
	return at, true
}

// isBack: we were away, and it is we who bring the IKE SA back: the peer is asked at once whether it still knows us.
func (sa *SA) isBack() bool { return sa.life.initiated && sa.woke > sa.lastSign() }

// installedSAs are those whose traffic counts.
func (sa *SA) installedSAs() (in, out []xfrm.SAID) {
	for _, c := range sa.children {
		if c.in == installed {
			in = append(in, c.inID())
		}
		if c.out == installed {
			out = append(out, c.outID())
		}
	}
	return in, out
}

func (sa *SA) wakeLiveness() {
	if !sa.due(sa.livenessDue()) {
		return
	}
	in, out := sa.installedSAs()
	if len(in) == 0 || sa.usageSent != 0 {
		sa.usageSent, sa.quiet.looked = 0, sa.now
		sa.probe()
		return
	}
	sa.usageSent = sa.now
	t := sa.wait(func(ev Event) {
		if u, ok := ev.(UsageDone); ok && sa.usageSent != 0 {
			sa.usageSent = 0
			sa.onUsage(u)
		}
	})
	sa.out.Add(UsageQuery{Token: t, In: in, Out: out})
}

// onUsage judges the traffic since the last look.
func (sa *SA) onUsage(u UsageDone) {
	if m := &sa.mobility; m.agreed && m.stray > sa.quiet.looked { // RFC 4555 section 3.12: the peer may not know where we are, or we where it is
		u.Inbound = 0
	}
	sa.quiet.looked = sa.now
	if at := cmp.Or(u.LastIn, sa.now); u.Inbound > 0 && at <= sa.now {
		sa.reached(at)
	}
	if sa.phase.name() != phaseEstablished {
		return
	}
	idle := sa.conn.Liveness.Idle
	wait := sa.quiet.wait(idle)
	switch {
	case !sa.now.Before(sa.lastSign().Add(idle)), sa.isBack():
		sa.probe()
	case u.Inbound > 0:
		sa.quiet.pause = 0
	case u.Outbound > 0 && !sa.now.Before(sa.lastSign().Add(wait)):
		sa.quiet.pause = 2 * wait
		sa.probe()
	}
}

// probe asks the peer, unless it is being asked something already.
func (sa *SA) probe() {
	switch {
	case sa.phase.name() != phaseEstablished || sa.requests.current != nil || len(sa.queue) > 0:
	case sa.tellsMapping() && sa.mobility.seen == nil: // nothing to compare with yet: it is told at once (RFC 4555 section 3.8)
		sa.update()
	default:
		sa.enqueue(&livenessExchange{})
	}
}

// doubtSchedule is that of a question to a peer that has probably forgotten this IKE SA: 12 s in all.
func doubtSchedule() schedule { return schedule{first: time.Second, factor: 1.8, tries: 4} }

// doubt: the peer has proved itself on another IKE SA, with the same children. One that has restarted without INITIAL_CONTACT does not know this one any more; one that keeps
// both answers.
func (sa *SA) doubt() {
	if sa.phase.name() == phaseEstablished && sa.requests.current == nil && len(sa.queue) == 0 && sa.conn.Liveness.Idle > 0 {
		sa.enqueue(&livenessExchange{brief: true})
	}
}

// disowned: an unprotected INVALID_IKE_SPI answers our request. The peer may have restarted, or someone wants us to think so: it is a hint
// and no more (RFC 7296 section 2.4). The request is repeated as often as ever, only without growing pauses.
func (sa *SA) disowned(p Packet, m *wire.Message) {
	r := &sa.requests
	n := errorNotify(m.Payloads)
	if p, ok := sa.phase.(*closing); ok && p.empty && n != nil && n.Kind == wire.NotifyInvalidIKESPI {
		p.overdue(sa) // nothing hangs on it, whoever says so
		return
	}
	asking := sa.phase.name() == phaseEstablished || sa.phase.name() == phaseAuthenticating
	if n == nil || n.Kind != wire.NotifyInvalidIKESPI || !asking || r.disowned {
		return
	}
	r.disowned = true
	r.plan.factor, r.interval = 1, r.plan.first
	r.due = min(r.due, sa.now.Add(r.plan.first))
	sa.report(Report{Code: CodeSent, Text: fmt.Sprintf("%v says, without proof, that it does not know this IKE SA: has it restarted? asking again", p.Remote)})
	sa.forgotten()
}

// repeated tells that a request was sent once more.
func (sa *SA) repeated(x exchange) {
	code := CodeSent
	if sa.phase.name() == phaseClosing {
		code = CodePhase
	}
	text := fmt.Sprintf("no answer to %s, sent again (%d of %d)", x.name(), sa.requests.sent, sa.requests.plan.tries)
	if n := len(sa.requests.message.datagrams); n > 1 {
		text += fmt.Sprintf(" in %d fragments of at most %d octets", n, sa.datagramSize())
	}
	sa.report(Report{Code: code, Text: text})
}
