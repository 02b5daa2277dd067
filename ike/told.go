package ike

import (
	"fmt"
	"slices"

	"cygnet/ike/wire"
)

// The exchanges of a move: what the initiator says of its path, whether the peer receives at another address, and which addresses an end has (RFC 4555
// sections 3.5, 3.7 and 3.6).

// maxUnexpected bounds what is done about UNEXPECTED_NAT_DETECTED (section 3.9: several times).
const maxUnexpected = 3

// first lets x be our next request.
func (sa *SA) first(x exchange) { sa.queue = slices.Insert(sa.queue, 0, x) }

// dequeue takes out the requests of a kind that wait for the window.
func dequeue[X exchange](sa *SA) {
	sa.queue = slices.DeleteFunc(sa.queue, func(x exchange) bool { _, is := x.(X); return is })
}

// update tells the peer of the path, before anything else; not twice.
func (sa *SA) update() {
	dequeue[*updateExchange](sa)
	sa.first(&updateExchange{})
}

// updateExchange is our UPDATE_SA_ADDRESSES (section 3.5).
type updateExchange struct {
	path       Path   // along which it is sent
	cookie     []byte // where the peer has not yet shown that it receives
	scattered  bool   // it went along several paths: its answer counts for none
	unexpected int    // UNEXPECTED_NAT_DETECTED so far
}

func (*updateExchange) name() string { return "INFORMATIONAL (UPDATE_SA_ADDRESSES)" }
func (x *updateExchange) spread()    { x.scattered = true }
func (x *updateExchange) start(sa *SA) {
	m := &sa.mobility
	x.path = sa.path
	i, r := sa.spis()
	ps := append([]wire.Payload{wire.NewNotify(wire.NotifyUpdateSAAddresses, nil)}, natPayloads(i, r, sa.path, sa.nat.faked)...)
	if !slices.Contains(m.proven, sa.path.Remote.Addr()) {
		x.cookie = sa.draw(cookie2Len)
		ps = append(ps, wire.NewNotify(wire.NotifyCookie2, x.cookie))
	}
	if sa.untold() {
		ps = append(ps, sa.tell()...)
	}
	dequeue[*announceExchange](sa)
	sa.request(wire.Informational, sa.schedule(), ps...)
}

func (x *updateExchange) onResponse(sa *SA, m *message) {
	if !returned(m.payloads, x.cookie) {
		sa.wrongCookie(x)
		return
	}
	sa.done(x)
	n := errorNotify(m.payloads)
	switch {
	case sa.phase.name() != phaseEstablished:
	case x.scattered: // another is on its way, or waits
	case n != nil && n.Kind == wire.NotifyUnexpectedNATDetected && x.unexpected < maxUnexpected:
		sa.first(&updateExchange{unexpected: x.unexpected + 1})
	case n != nil:
		sa.mobility.moving = 0
		sa.renew(fmt.Sprintf("the peer does not accept the path from %v to %v (%v)", x.path.Local.Addr(), x.path.Remote.Addr(), n.Kind))
	default:
		sa.arrived(m)
	}
}

func (x *updateExchange) onFailure(sa *SA, r *Refusal) { sa.lost(x, r) }

// wrongCookie: who answers has not seen the request (section 3.7: the IKE SA MUST be closed).
func (sa *SA) wrongCookie(x exchange) {
	sa.bad(x, &Refusal{Stage: x.name(), Code: CodeProtocol, Why: "the peer answers without the COOKIE2 that it was sent: it does not receive where it says it is"})
}

// arrived: the peer has confirmed the path.
func (sa *SA) arrived(m *message) {
	mob := &sa.mobility
	before := sa.nat
	sa.detectAgain(m)
	mob.prove(sa.path.Remote.Addr())
	mob.held = nil
	sa.reached(sa.now)
	if n, ok := wire.FindNotify(m.payloads, wire.NotifyNATDetectionDestinationIP); ok {
		mob.seen = slices.Clone(n.Data)
	}
	sa.carry()
	if mob.moving != 0 {
		sa.report(Report{Code: CodeMoved, Text: fmt.Sprintf("moved in %s: now from %v to %v; %s", duration(sa.now.Sub(mob.moving)), sa.path.Local.Addr(), sa.path.Remote, sa.natText())})
	} else if sa.nat != before {
		sa.report(Report{Code: CodeMoved, Text: sa.natText()})
	}
	mob.moving = 0
}

// detectAgain looks for NATs on the path of a message (section 3.5).
func (sa *SA) detectAgain(m *message) {
	found, supported := detectNAT(m.Header, m.payloads, m.path)
	if !supported {
		return
	}
	found.faked = sa.nat.faked
	sa.nat = found
}

// follows: the peer, which chooses the path, says that it is the one of this request.
func (sa *SA) follows(m *message) {
	mob, old, before := &sa.mobility, sa.path, sa.way()
	mob.taken, mob.guess = true, false
	if sa.finished {
		return
	}
	sa.detectAgain(m)
	if sa.path = m.path; sa.path != old {
		mob.moving = sa.now
		sa.report(Report{Code: CodeMoved, Text: fmt.Sprintf("the peer moves from %s to %s; %s", old.peerEnds(sa.path), sa.path.peerEnds(old), sa.natText())})
		sa.redirect()
	}
	if slices.Contains(mob.proven, sa.path.Remote.Addr()) {
		mob.held = nil
		sa.carry()
		mob.moving = 0
		return
	}
	mob.hold(before)
	sa.verifyRoute()
}

func (p Path) peerEnds(other Path) string {
	if p.Local == other.Local {
		return p.Remote.String()
	}
	return fmt.Sprintf("%v (here %v)", p.Remote, p.Local.Addr())
}

// routeCheck asks whether the peer receives where it says it is (section 3.7).
type routeCheck struct {
	cookie    []byte
	scattered bool
}

func (*routeCheck) name() string { return "INFORMATIONAL (return routability)" }
func (x *routeCheck) spread()    { x.scattered = true }
func (x *routeCheck) start(sa *SA) {
	x.cookie = sa.draw(cookie2Len)
	sa.request(wire.Informational, sa.schedule(), wire.NewNotify(wire.NotifyCookie2, x.cookie))
}

func (x *routeCheck) onResponse(sa *SA, m *message) {
	if !returned(m.payloads, x.cookie) {
		sa.wrongCookie(x)
		return
	}
	sa.done(x)
	mob := &sa.mobility
	switch {
	case sa.next.replaced != nil: // the children are the heir's by now
		if !x.scattered {
			sa.leave(sa.next.replaced, receives{sa.path.Remote.Addr()})
		}
		return
	case sa.phase.name() != phaseEstablished, slices.Contains(mob.proven, sa.path.Remote.Addr()):
	case x.scattered: // section 3.7: which of the paths works is not known
		sa.verifyRoute()
		return
	default:
		sa.receives()
		return
	}
	mob.moving = 0
	sa.carry()
}

// receives: the peer has shown that it receives where it is now.
func (sa *SA) receives() {
	mob := &sa.mobility
	mob.prove(sa.path.Remote.Addr())
	mob.held, mob.guess = nil, false
	sa.report(Report{Code: CodeMoved, Text: fmt.Sprintf("the peer receives at %v: the children follow after %s", sa.path.Remote, duration(sa.now.Sub(mob.moving)))})
	mob.moving = 0
	sa.carry()
}

func (x *routeCheck) onFailure(sa *SA, r *Refusal) { sa.lost(x, r) }

// announce tells the peer our further addresses, if it does not know them (section 3.6).
func (sa *SA) announce() {
	if sa.mobility.agreed && sa.phase.name() == phaseEstablished && sa.untold() {
		dequeue[*announceExchange](sa)
		sa.enqueue(&announceExchange{})
	}
}

// untold reports whether the peer may not know our further addresses.
func (sa *SA) untold() bool {
	return sa.mobility.unsure || !slices.Equal(sa.furtherAddresses(), sa.mobility.told)
}

// tell is their whole list, for a request that is sent now.
func (sa *SA) tell() []wire.Payload {
	sa.mobility.told, sa.mobility.unsure = sa.furtherAddresses(), false
	return addressNotifies(sa.mobility.told)
}

// announceExchange brings the whole list of our addresses.
type announceExchange struct{}

func (*announceExchange) name() string { return "INFORMATIONAL (addresses)" }
func (*announceExchange) spread()      {}
func (x *announceExchange) start(sa *SA) {
	sa.request(wire.Informational, sa.schedule(), sa.tell()...)
}

func (x *announceExchange) onResponse(sa *SA, _ *message) {
	sa.done(x)
	sa.announce()
}

func (x *announceExchange) onFailure(sa *SA, r *Refusal) { sa.lost(x, r) }
