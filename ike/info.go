package ike

import (
	"slices"

	"cygnet/ike/wire"
	"cygnet/policy"
)

// schedule is that of requests on an established IKE SA.
func (sa *SA) schedule() schedule {
	if sa.phase.name() == phaseClosing {
		return closingSchedule()
	}
	return sa.fullSchedule()
}

func (sa *SA) fullSchedule() schedule {
	l := policy.Liveness{}
	if sa.conn != nil {
		l = sa.conn.Liveness
	}
	s := schedule{first: l.Timeout, factor: l.Factor, tries: l.Tries}
	if s.first <= 0 {
		s.first = policy.DefaultLivenessTimeout
	}
	if s.factor < 1 {
		s.factor = policy.DefaultLivenessFactor
	}
	if s.tries <= 0 {
		s.tries = policy.DefaultLivenessTries
	}
	return sa.patienceOf(s)
}

// lost: a request of an established IKE SA got no answer, or one that cannot be read.
func (sa *SA) lost(x exchange, r *Refusal) {
	if sa.phase.name() == phaseClosing {
		sa.phase.overdue(sa)
		return
	}
	if r.Code == CodeNoAnswer { // RFC 7296 section 2.4: the peer is dead, so no Delete either
		sa.fail(r)
		return
	}
	sa.bad(x, r)
}

// bad: a response that cannot be used leaves the two sides with different states; the IKE SA goes (RFC 7296 section 2.21), if it is not going already.
func (sa *SA) bad(x exchange, r *Refusal) {
	sa.done(x)
	sa.refused(r, "")
	sa.end(ending{code: r.Code, why: r.Why, retry: true})
}

// lastExchange is the last request of an IKE SA: Delete, and AUTHENTICATION_FAILED where that is why. Whatever comes of it, the machine ends.
type lastExchange struct{ payloads []wire.Payload }

func (*lastExchange) name() string { return "INFORMATIONAL" }
func (x *lastExchange) start(sa *SA) {
	sa.request(wire.Informational, closingSchedule(), x.payloads...)
}
func (*lastExchange) onResponse(sa *SA, _ *message) { sa.phase.overdue(sa) }
func (*lastExchange) onFailure(sa *SA, _ *Refusal)  { sa.phase.overdue(sa) }

// lower closes the IKE SA, or one child.
func (sa *SA) lower(e Lower) {
	if e.Child != "" {
		sa.lowerChild(e)
		return
	}
	why := e.Why
	if why == "" {
		why = "closed as asked"
	}
	p, authenticating := sa.phase.(*authenticating)
	switch {
	case e.Silent, sa.phase.name() == phaseOpening, authenticating && !sa.initiator:
		sa.finish(CodeClosed, why, false)
	case authenticating: // the peer may believe the IKE SA up before it hears of the end: wait for its answer
		p.lowered = &Lower{Why: why}
		p.limit = sa.now.Add(closingLimit)
	default:
		sa.end(ending{code: CodeClosed, why: why, carried: e.Carried})
	}
}

// lowerChild deletes all instances of a child.
func (sa *SA) lowerChild(e Lower) {
	why := e.Why
	if why == "" {
		why = "closed as asked"
	}
	found := sa.cancel(e.Child, why)
	for _, c := range slices.Clone(sa.children) {
		if c.config.Name != e.Child || c.deleting {
			continue
		}
		found = true
		if e.Silent {
			sa.dropChild(c, why)
		} else {
			sa.deleteChild(c, why)
		}
	}
	if !found {
		sa.report(Report{Child: e.Child, Code: CodeClosed, Text: "is not up"})
	}
}

// cancel takes back intents to raise a child. What is on its way is deleted when it arrives.
func (sa *SA) cancel(name, why string) (found bool) {
	wanted := func(x exchange) bool { c, ok := x.(*createExchange); return ok && c.config.Name == name }
	before := len(sa.queue) + len(sa.postponed)
	sa.queue = slices.DeleteFunc(sa.queue, wanted)
	sa.postponed = slices.DeleteFunc(sa.postponed, func(p postponed) bool { return wanted(p.x) })
	found = len(sa.queue)+len(sa.postponed) < before
	var plan *childPlan
	var others *[]string
	switch x := sa.requests.current.(type) {
	case *createExchange:
		plan = x.plan
	case *authExchange:
		plan, others = x.plan, &x.children
	case *initExchange:
		others = &x.children
	}
	if plan != nil && plan.config.Name == name {
		plan.cancelled = why
		return true
	}
	if others == nil || !slices.Contains(*others, name) {
		return found
	}
	if *others = slices.DeleteFunc(slices.Clone(*others), func(s string) bool { return s == name }); len(*others) == 0 {
		sa.finish(CodeClosed, why, false) // it was the only one, and keys are not even agreed
	}
	return true
}

// deleteChild tells the peer that a child goes (RFC 7296 section 2.4: a child that is deleted here MUST be).
func (sa *SA) deleteChild(c *child, why string) {
	if c.deleting || c.gone {
		return
	}
	c.deleting = true
	sa.enqueue(&deleteExchange{spis: []uint32{c.spiIn}, children: []*child{c}, why: why})
}

// takeBack: our Delete of a child is not sent any more, if it has not been; the peer's came first, and is answered like any other. Libreswan ends the IKE SA when the answer has no
// Delete, which is right only where ours is on the wire (RFC 7296 section 1.4.1).
func (sa *SA) takeBack(c *child) bool {
	is := func(x exchange) bool { d, ok := x.(*deleteExchange); return ok && slices.Contains(d.children, c) }
	before := len(sa.queue) + len(sa.postponed)
	sa.queue = slices.DeleteFunc(sa.queue, is)
	sa.postponed = slices.DeleteFunc(sa.postponed, func(p postponed) bool { return is(p.x) })
	return len(sa.queue)+len(sa.postponed) < before
}

// deleteExchange deletes children (RFC 7296 section 1.4.1). spis are our inbound ones, also of children that we never installed.
type deleteExchange struct {
	spis     []uint32
	children []*child
	why      string
}

func (*deleteExchange) name() string { return "INFORMATIONAL (Delete)" }

func (x *deleteExchange) start(sa *SA) {
	sa.request(wire.Informational, sa.schedule(), &wire.Delete{Protocol: wire.ProtoESP, SPIs: x.spis})
}

func (x *deleteExchange) onResponse(sa *SA, _ *message) {
	sa.done(x)
	for _, c := range x.children {
		if !c.gone {
			sa.dropChild(c, x.why)
		}
	}
}

func (x *deleteExchange) onFailure(sa *SA, r *Refusal) { sa.lost(x, r) }

// onInfoRequest handles an INFORMATIONAL request. Each is answered (RFC 7296 section 1.4).
func (sa *SA) onInfoRequest(m *message) {
	deletes := wire.All[*wire.Delete](m.payloads)
	mobile, then := sa.answerMobile(m)
	if n := errorNotify(m.payloads); n != nil && endsIKE(n.Kind) { // it tells why, also beside a Delete
		sa.respond(mobile...)
		if !sa.finished {
			sa.fail(authRejected(sa, n))
		}
		return
	}
	if slices.ContainsFunc(deletes, func(d *wire.Delete) bool { return d.Protocol == wire.ProtoIKE }) {
		sa.respond(mobile...)
		sa.closedByPeer()
		return
	}
	sa.heedAuthLifetime(m.payloads)
	var spis []uint32
	var gone []*child
	for _, d := range deletes {
		if d.Protocol == wire.ProtoESP {
			for _, spi := range d.SPIs {
				switch c := sa.childByOutbound(spi); {
				case c == nil:
					sa.deletedEarly(spi)
				case !slices.Contains(gone, c):
					gone = append(gone, c)
				}
			}
		}
	}
	gone = slices.DeleteFunc(gone, func(c *child) bool {
		if !c.deleting || sa.takeBack(c) {
			spis = append(spis, c.spiIn)
			return false
		}
		// RFC 7296 section 1.4.1: deletes that cross: outgoing with the request, incoming with the response, and no Delete in the answer.
		sa.remove(c, false, true)
		return true
	})
	for _, c := range gone {
		sa.dropChild(c, "the peer deleted it")
	}
	if len(spis) == 0 {
		sa.respond(mobile...)
		then()
		return
	}
	sa.respond(append(mobile, &wire.Delete{Protocol: wire.ProtoESP, SPIs: spis})...)
	then()
}

// deletedEarly notes an SPI that we do not know, while we wait for the answer to a CREATE_CHILD_SA: that answer may be lost and come, repeated,
// after the Delete of what it made. Such a child must not be installed then, since the other half is gone.
func (sa *SA) deletedEarly(spi uint32) {
	if sa.next.replaced != nil {
		sa.deletedLate(spi)
		return
	}
	if _, ok := sa.requests.current.(*createExchange); (ok || sa.next.pending != 0) && len(sa.early) < sa.maxChildren() {
		sa.early = append(sa.early, spi)
	}
}

// endsIKE: RFC 7296 section 2.21.2: these end the IKE SA without a Delete.
func endsIKE(t wire.NotifyType) bool {
	return t == wire.NotifyAuthenticationFailed || t == wire.NotifyInvalidSyntax || t == wire.NotifyUnsupportedCriticalPayload
}

// closedByPeer: the peer deleted the IKE SA. When both did, ours counts (RFC 7296 section 2.25.2).
func (sa *SA) closedByPeer() {
	if sa.finished || sa.replacedByPeer() {
		return
	}
	if p, ok := sa.phase.(*closing); ok {
		p.overdue(sa)
		return
	}
	sa.report(Report{Code: CodeClosed, Text: "closed by the peer"})
	sa.finish(CodeClosed, "closed by the peer", true)
}
