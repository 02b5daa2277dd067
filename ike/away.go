package ike

import (
	"bytes"
	"time"

	"cygnet/ike/wire"
)

// What silence means: this host was away, or the peer is no longer where it was, or a NAT has forgotten us.

const (
	// sleptLimit: who wakes so much too late has slept, as a laptop does; nothing that was due meanwhile has been waited for.
	sleptLimit = 10 * time.Second
	// silentAfter sendings of the first request after a sleep the peer may have given the IKE SA up: many say nothing to what they do not know.
	silentAfter = 2
	// hopelessAfter sendings of a request the peer may no longer be where it was (RFC 4555 section 3.5).
	hopelessAfter = 3
)

// hopeless: requests stay unanswered. A peer that may have given this IKE SA up while we were away is asked for another; else its other addresses are tried.
func (sa *SA) hopeless() {
	m := &sa.mobility
	if sa.absent() && sa.requests.sent-sa.requests.unsent >= silentAfter && sa.phase.name() == phaseEstablished && m.stranded == 0 {
		sa.renew("no answer since this host was away: the peer may have given this IKE SA up")
	}
	if m.agreed && m.begun && sa.requests.sent >= hopelessAfter && sa.phase.name() == phaseEstablished && m.stranded == 0 {
		sa.seek("no answer from "+sa.path.Remote.Addr().String(), true)
	}
}

// renew asks for an IKE SA beside this one, once as long as the peer is not heard: this one may have no way to it.
func (sa *SA) renew(why string) {
	if !sa.mobility.renewed && sa.life.initiated {
		sa.mobility.renewed = true
		sa.reauthenticate(why)
	}
}

// forgotten: after a move, or a long sleep, the peer says, without proof, that it does not know this IKE SA. It may have given it up meanwhile. A new one
// beside it costs little, and this one stays until that is there: who forges such a message gains nothing.
func (sa *SA) forgotten() {
	if sa.phase.name() == phaseEstablished && (sa.mobility.moving != 0 || sa.absent()) {
		sa.renew("the peer seems to have given this IKE SA up while it was not reached")
	}
}

// overslept notes that this wake-up comes much too late.
func (sa *SA) overslept() {
	if at, ok := sa.Deadline(); ok && sa.now.Sub(at) > sleptLimit {
		sa.wasAway()
	}
}

// wasAway: this host has slept, or had no network. What the peer did meanwhile is not known.
func (sa *SA) wasAway() { sa.woke, sa.mobility.renewed = sa.now, false }

// absent reports whether the peer was not heard since then.
func (sa *SA) absent() bool { return sa.woke > sa.lastHeard }

// mapped compares how the peer sees us with what it saw before: a NAT on the way may have changed its mapping (section 3.8).
func (sa *SA) mapped(m *message) {
	n, ok := wire.FindNotify(m.payloads, wire.NotifyNATDetectionDestinationIP)
	if !ok || !sa.tellsMapping() || bytes.Equal(n.Data, sa.mobility.seen) {
		return
	}
	sa.mobility.moving = sa.now
	sa.report(Report{Code: CodeMoved, Text: "the NAT has given us another address or port"})
	sa.update()
}

// lastSign is when the peer last showed that it lives. Behind a NAT an answer is no such sign: it goes to where its request came from (RFC 7296 section 2.11), so that our own
// rekeys are answered while all that the peer sends by itself is lost at a mapping that is gone (RFC 4555 section 3.8).
func (sa *SA) lastSign() Time {
	if sa.tellsMapping() {
		return sa.mobility.reached
	}
	return sa.lastHeard
}

// reached notes when something came to where the peer believes us to be.
func (sa *SA) reached(at Time) {
	sa.lastHeard = max(sa.lastHeard, at)
	sa.mobility.reached = max(sa.mobility.reached, at)
}

// tellsMapping: behind a NAT we look how the peer sees us.
func (sa *SA) tellsMapping() bool {
	return sa.mobility.agreed && sa.mobility.begun && sa.nat.local && sa.phase.name() == phaseEstablished
}
