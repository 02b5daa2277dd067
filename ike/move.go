package ike

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"cygnet/ike/wire"
	"cygnet/policy"
)

// An IKE SA with MOBIKE moves when the initiator says so (RFC 4555 section 3.5). Its own SAs move at once, when it is only its own address that
// changes; the responder sends ESP to a new address as soon as the peer has shown, by COOKIE2, that it receives there (section 3.7). Until then ESP
// goes where it went: so an authenticated peer can aim nothing but a few IKE messages at a third party.

const (
	// strandedLimit is how long an initiator waits for an address of its host before it gives the IKE SA up: longer than a peer is patient.
	strandedLimit = 30 * time.Minute
	// strandedLook is the pause between looks for one.
	strandedLook = 5 * time.Second
	// sleptLimit: who wakes so much too late has slept, as a laptop does; nothing that was due meanwhile has been waited for.
	sleptLimit = 10 * time.Second
	// silentAfter sendings of the first request after a sleep the peer may have given the IKE SA up: many say nothing to what they do not know.
	silentAfter = 2
	// hopelessAfter sendings of a request the peer may no longer be where it was (section 3.5).
	hopelessAfter = 3
	// maxUnexpected bounds what is done about UNEXPECTED_NAT_DETECTED (section 3.9: several times).
	maxUnexpected = 3
)

// PathChanged says that links, addresses or routes of this host have changed. Own are its addresses.
type PathChanged struct{ Own []netip.Addr }

func (PathChanged) event() {}

// onPathChanged looks whether the way to the peer is another now.
func (sa *SA) onPathChanged(e PathChanged) {
	sa.config.Addresses = e.Own
	sa.overslept() // the network may be back before anything else is due
	if sa.phase.name() != phaseEstablished || sa.next.pending != 0 {
		return
	}
	if sa.life.initiated || sa.mobility.agreed && !slices.Contains(e.Own, sa.path.Local.Addr()) {
		sa.seek("the addresses or routes of this host changed", false)
	} else {
		sa.announce()
	}
}

// seek asks the host how to reach the peer now. When no answer comes from where the peer was, its other addresses come first.
func (sa *SA) seek(why string, dead bool) {
	m := &sa.mobility
	list := sa.candidates(dead)
	if len(list) == 0 {
		return
	}
	local := sa.conn.Local.Address
	if local.IsValid() && len(sa.config.Addresses) > 0 && !slices.Contains(sa.config.Addresses, local.Unmap()) {
		sa.strand("")
		return
	}
	m.seeking = sa.wait(func(ev Event) {
		d, ok := ev.(ResolveDone)
		switch {
		case !ok || d.Token != m.seeking || sa.phase.name() != phaseEstablished:
		case dead && unfound(d): // no way leads to the peer's other addresses: what was sent to this one is waited for to its end
			m.tried = append(m.tried, list...)
		default:
			sa.found(d, why)
		}
	})
	sa.out.Add(Resolve{Token: m.seeking, Local: local, Remote: list[0], Others: list[1:]})
}

// candidates are the peer's addresses, the best first: the one in use as long as the peer claims it, its others, and the configured one.
func (sa *SA) candidates(dead bool) (list []netip.Addr) {
	m := &sa.mobility
	now := sa.path.Remote.Addr()
	switch {
	case !m.agreed:
		return []netip.Addr{now}
	case !m.begun: // its own address is gone; only then does a responder use what it was told (section 3.6)
		list = []netip.Addr{now}
		for _, a := range m.peer {
			if a != now && sa.reachable(a) {
				list = append(list, a)
			}
		}
		return list
	}
	if !dead {
		m.tried = nil
	} else if !slices.Contains(m.tried, now) {
		m.tried = append(m.tried, now)
	}
	add := func(a netip.Addr) {
		if a.IsValid() && !slices.Contains(list, a) && !slices.Contains(m.tried, a) && (a == now || sa.reachable(a)) {
			list = append(list, a)
		}
	}
	if len(m.peer) == 0 || slices.Contains(m.peer, now) {
		add(now)
	}
	for _, a := range m.peer {
		add(a)
	}
	add(sa.conn.Remote.Address.Unmap())
	add(now)
	return list
}

// reachable: an address of the peer may lie on a path. One of another family than our configured address does not, nor does one behind the tunnel
// itself: gateways tell all addresses that they have.
func (sa *SA) reachable(a netip.Addr) bool {
	if local := sa.conn.Local.Address; local.IsValid() && local.Unmap().Is4() != a.Is4() {
		return false
	}
	return !slices.ContainsFunc(sa.conn.Children, func(c *policy.Child) bool { return covers(c.Remote, a) })
}

// unfound: the host has no way to any of the addresses.
func unfound(d ResolveDone) bool { return d.Err != nil || !d.Local.IsValid() || len(d.Remote) == 0 }

// found is the answer to seek.
func (sa *SA) found(d ResolveDone, why string) {
	if unfound(d) {
		text := ""
		if d.Err != nil {
			text = ": " + strings.ReplaceAll(d.Err.Error(), "\n", "; ") // one for each address of the peer
		}
		sa.strand(text)
		return
	}
	m := &sa.mobility
	was := m.stranded
	if m.stranded, m.lookAgain = 0, 0; was != 0 {
		sa.wasAway()
	}
	to := Path{netip.AddrPortFrom(d.Local.Unmap(), sa.path.Local.Port()), netip.AddrPortFrom(d.Remote[0].Unmap(), sa.path.Remote.Port())}
	switch {
	case to == sa.path:
		if sa.announce(); was != 0 {
			sa.resend()
		}
		if was != 0 || sa.tellsMapping() && !sa.now.Before(m.looked.Add(quietLimit)) { // the same address, perhaps in another network: behind another NAT
			m.looked = sa.now
			sa.probe()
		}
	case !m.agreed:
		sa.renew(fmt.Sprintf("%s, from %v to %v, and the peer does not do MOBIKE", why, sa.path.Local.Addr(), to.Local.Addr()))
	case !m.begun: // section 3.5: the one case in which the responder moves by itself
		from := sa.way()
		sa.path.Local = to.Local
		m.rehost(to.Local)
		text := fmt.Sprintf("%s: from now on at %v", why, to.Local.Addr())
		if to.Remote != sa.path.Remote {
			text += fmt.Sprintf(", from where no way leads to %v, but to %v", sa.path.Remote.Addr(), to.Remote.Addr())
			sa.path, m.moving = to, sa.now
		}
		sa.report(Report{Code: CodeMoved, Text: text})
		if m.held == nil && !slices.Contains(m.proven, sa.path.Remote.Addr()) {
			m.hold(from)
			sa.verifyRoute()
		}
		sa.carry()
		sa.redirect()
		m.unsure = true
		sa.announce()
	default:
		sa.move(to, why)
	}
}

// strand: no address of this host leads to the peer, as with the cable out. Requests wait for one.
func (sa *SA) strand(why string) {
	m := &sa.mobility
	m.lookAgain = sa.now.Add(strandedLook)
	if m.stranded != 0 || !m.agreed || !m.begun {
		return
	}
	m.stranded = sa.now
	sa.report(Report{Code: CodeMoved, Text: fmt.Sprintf("this host has no address from which to reach %v%s; waiting for one, for %s at most", sa.path.Remote.Addr(), why, duration(strandedLimit))})
}

// strandedDue: the host is asked again now and then, as nobody may tell when an address is there.
func (sa *SA) strandedDue() (Time, bool) {
	return sa.mobility.lookAgain, sa.mobility.stranded != 0 && sa.phase.name() == phaseEstablished && sa.next.pending == 0
}

func (sa *SA) wakeStranded() {
	if sa.due(sa.strandedDue()) {
		sa.mobility.lookAgain = sa.now.Add(strandedLook)
		sa.seek("the addresses or routes of this host changed", false)
	}
}

// waitsForAddress: the request on the wire is not sent often in vain while there is no address to send it from.
func (sa *SA) waitsForAddress() bool {
	m := &sa.mobility
	return m.stranded != 0 && sa.now.Before(m.stranded.Add(strandedLimit)) && sa.phase.name() == phaseEstablished
}

// move changes the path of an IKE SA whose path we choose.
func (sa *SA) move(to Path, why string) {
	m, old := &sa.mobility, sa.path
	if m.rehost(to.Local); old.Remote.Addr() != to.Remote.Addr() {
		m.hold(sa.way())
	}
	sa.path = to
	if m.moving == 0 {
		m.moving = sa.now
	}
	m.renewed = false
	sa.report(Report{Code: CodeMoved, Text: fmt.Sprintf("moving from %s to %s: %s", old.ends(to), to.ends(old), why)})
	if old.Remote.Addr() == to.Remote.Addr() {
		sa.carry()
	}
	sa.redirect()
	sa.update()
}

// ends names what of a path is not as in another.
func (p Path) ends(other Path) string {
	switch {
	case p.Remote == other.Remote:
		return p.Local.Addr().String()
	case p.Local.Addr() == other.Local.Addr():
		return p.Remote.String()
	}
	return fmt.Sprintf("%v (peer %v)", p.Local.Addr(), p.Remote)
}

// redirect sends the request that is on the wire again on the new path, unchanged and with its message ID (section 3.5). What its answer says of a path
// is void then.
func (sa *SA) redirect() {
	r := &sa.requests
	if x, ok := r.current.(interface{ spread() }); ok {
		x.spread()
		sa.mobility.unsure = sa.mobility.unsure || r.waiting() // section 3.6: a list that comes from several addresses is told anew
	}
	sa.resend()
}

// resend: the request that is on the wire has not been waited for so far.
func (sa *SA) resend() {
	if r := &sa.requests; r.waiting() {
		r.afresh(sa.now)
		sa.transmit(sa.path, r.message)
	}
}

// carry takes the children's SAs to the way of ESP.
func (sa *SA) carry() {
	for _, c := range sa.children {
		switch {
		case c.in == installing || c.out == installing: // it follows when the data plane has answered: half of it is not there yet
		case (c.in == installed || c.out == installed) && sa.strays(c):
			sa.moveChild(c, c.path)
		}
	}
}

// strays reports whether a child's SAs lie elsewhere than on the way of ESP, or begin or end to travel in UDP.
func (sa *SA) strays(c *child) bool {
	w := sa.way()
	return c.path != w.path || c.encap != w.nat.encap()
}

// first lets x be our next request.
func (sa *SA) first(x exchange) { sa.queue = slices.Insert(sa.queue, 0, x) }

// queued takes out the requests of a kind that wait for the window.
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
	case sa.phase.name() != phaseEstablished, slices.Contains(mob.proven, sa.path.Remote.Addr()):
	case x.scattered: // section 3.7: which of the paths works is not known
		sa.verifyRoute()
		return
	default:
		mob.prove(sa.path.Remote.Addr())
		mob.held, mob.guess = nil, false
		sa.report(Report{Code: CodeMoved, Text: fmt.Sprintf("the peer receives at %v: the children follow after %s", sa.path.Remote, duration(sa.now.Sub(mob.moving)))})
	}
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

// hopeless: requests stay unanswered. A peer that may have given this IKE SA up while we were away is asked for another; else its other addresses are tried.
func (sa *SA) hopeless() {
	m := &sa.mobility
	if sa.absent() && sa.requests.sent >= silentAfter && sa.phase.name() == phaseEstablished && m.stranded == 0 {
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
