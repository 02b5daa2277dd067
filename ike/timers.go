package ike

import (
	"time"

	"cygnet/ike/wire"
)

const (
	// halfOpenLimit bounds how long a responder waits for IKE_AUTH.
	halfOpenLimit = 30 * time.Second
	// openingLimit ends an initiator whose job or look-up is never answered; both initial exchanges give up before.
	openingLimit = 3 * time.Minute
	// closingLimit is how long the answer to the last Delete is waited for.
	closingLimit = 5 * time.Second
	// usageLimit is how long the answer to UsageQuery is waited for.
	usageLimit = 10 * time.Second
	// outboundLimit: a rekeyed child's new outbound SA is used at the latest then (RFC 7296 section 2.8 leaves the time open).
	outboundLimit = 5 * time.Second
	// temporaryDelay: RFC 7296 section 2.25: TEMPORARY_FAILURE must not be answered by an immediate retry.
	temporaryDelay = 5 * time.Second
)

// earliest keeps the earlier of the deadlines that it is shown.
type earliest struct {
	at  Time
	set bool
}

func (e *earliest) add(at Time, ok bool) {
	if ok && (!e.set || at.Before(e.at)) {
		e.at, e.set = at, true
	}
}

// Deadline says when to Step(Wake{}) if nothing else happens.
func (sa *SA) Deadline() (Time, bool) {
	if sa.finished {
		return 0, false
	}
	var e earliest
	e.add(sa.phase.deadline())
	e.add(sa.requests.due, sa.requests.waiting())
	e.add(sa.reassemblyDue())
	e.add(sa.jobDue())
	e.add(sa.initDue())
	e.add(sa.keepaliveDue())
	e.add(sa.livenessDue())
	e.add(sa.lifetimeDue())
	e.add(sa.endDue())
	e.add(sa.strandedDue())
	for _, p := range sa.postponed {
		e.add(p.at, true)
	}
	e.add(sa.childDue())
	e.add(sa.contactDue())
	for _, c := range sa.children {
		e.add(c.surplus, c.surplus != 0)
	}
	return e.at, e.set
}

// onWake does what is due. Each step may end the machine. Whether the peer is to be asked depends on what waits for the window, and that may be obsolete.
func (sa *SA) onWake() {
	sa.overslept()
	for _, step := range []func(){sa.wakePhase, sa.wakeJobs, sa.wakeReassembly, sa.wakeInit, sa.wakeRequest, sa.wakeContact, sa.wakeChildren, sa.wakeBehind, sa.wakeLifetimes, sa.wakeDuplicates, sa.wakePostponed, sa.wakeLifetime, sa.wakeEnding, sa.pump, sa.wakeStranded, sa.wakeLiveness, sa.wakeKeepalive} {
		if step(); sa.finished {
			return
		}
	}
}

func (sa *SA) due(at Time, ok bool) bool { return ok && !sa.now.Before(at) }

func (sa *SA) wakePhase() {
	if sa.due(sa.phase.deadline()) {
		sa.phase.overdue(sa)
	}
}

// wakeRequest sends the request on the wire again, bit for bit (RFC 7296 section 2.1) or in smaller fragments, or gives up.
func (sa *SA) wakeRequest() {
	r := &sa.requests
	if !sa.due(r.due, r.waiting()) {
		return
	}
	if sa.woke == sa.now { // its answer has not been waited for
		r.afresh(sa.now)
		sa.transmit(sa.path, r.message)
		return
	}
	if sa.waitsForAddress() {
		r.afresh(sa.now)
		return
	}
	if sa.doubted() {
		return
	}
	if sa.probeSmaller() || r.repeat(sa.now) {
		sa.transmit(sa.path, r.message)
		sa.repeated(r.current)
		sa.hopeless()
		return
	}
	x := r.current
	refusal := noAnswer(sa, x.name())
	r.lost = r.header.Exchange != wire.IKESAInit
	r.forget()
	x.onFailure(sa, refusal)
}

func (sa *SA) wakePostponed() {
	var later []postponed
	for _, p := range sa.postponed {
		if sa.due(p.at, true) {
			sa.enqueue(p.x)
		} else {
			later = append(later, p)
		}
	}
	sa.postponed = later
}

// postpone makes a request after some time.
func (sa *SA) postpone(d time.Duration, x exchange) {
	sa.postponed = append(sa.postponed, postponed{sa.now.Add(d), x})
}
