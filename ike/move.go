package ike

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

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
