package ike

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// way is where the ESP of the children goes, and whether in UDP.
type way struct {
	path Path
	nat  nat
}

// way is that of IKE. As long as the peer has not shown that it receives at an address of its own choice, ESP of all children, new ones too, goes where it went before
// (RFC 4555 section 3.7).
func (sa *SA) way() way {
	if h := sa.mobility.held; h != nil {
		return *h
	}
	return way{sa.path, sa.nat}
}

// hold keeps ESP on a way until the peer has shown that it receives where IKE goes now.
func (m *mobility) hold(w way) { m.held = &w }

// rehost: our end of a way that is held is another.
func (m *mobility) rehost(local netip.AddrPort) {
	if m.held != nil {
		m.hold(way{Path{local, m.held.path.Remote}, m.held.nat})
	}
}

// verifyRoute asks whether the peer receives where it says it is, before anything else; not twice.
func (sa *SA) verifyRoute() {
	dequeue[*routeCheck](sa)
	sa.first(&routeCheck{})
}

// doubtPause is how long after a wrong guess where the peer is none is made.
const doubtPause = time.Minute

// remap: the peer's authentic ESP comes from elsewhere. With MOBIKE that may be followed too (RFC 4555 section 3.8), but the source of a packet says nothing of who
// receives there: a peer that only pretends to be behind a NAT could aim our ESP at anybody.
func (sa *SA) remap(to Path) {
	m, old := &sa.mobility, sa.path
	switch {
	case !m.agreed || slices.Contains(m.proven, to.Remote.Addr()):
		m.held, m.guess = nil, false
		sa.moveTo(to)
	case !m.begun && !sa.now.Before(m.doubt): // else it is we who choose the path, and the peer's addresses are known
		m.hold(sa.way())
		m.guess = true
		sa.path, m.moving = to, sa.now
		sa.out.Add(Moved{From: old, To: to})
		sa.report(Report{Code: CodeMoved, Text: fmt.Sprintf("ESP of the peer comes from %v, no longer from %v: asking whether it receives there", to.Remote, old.Remote)})
		sa.redirect()
		sa.verifyRoute()
	}
}

// doubted: nobody answers where the peer's ESP came from. Anyone on the way can change the source of a packet, so IKE goes back to where the peer has received, and the request that
// is on the wire goes there too.
func (sa *SA) doubted() bool {
	m, wrong := &sa.mobility, sa.path
	if !m.guess || m.held == nil || sa.requests.sent < hopelessAfter || sa.phase.name() != phaseEstablished {
		return false
	}
	sa.path, sa.nat = m.held.path, m.held.nat
	m.held, m.guess, m.moving, m.doubt = nil, false, 0, sa.now.Add(doubtPause)
	sa.out.Add(Moved{From: wrong, To: sa.path})
	sa.report(Report{Code: CodeMoved, Text: fmt.Sprintf("nobody answers at %v: again to %v", wrong.Remote, sa.path.Remote)})
	sa.carry()
	sa.redirect()
	return true
}

// elsewhere: IKE_AUTH came from another address than IKE_SA_INIT, whose answer alone is known to have arrived. ESP goes to that one until the peer has shown that it receives
// at the other too.
func (sa *SA) elsewhere(proved netip.Addr) {
	m := &sa.mobility
	if now := sa.path.Remote; m.agreed && proved != now.Addr() {
		m.proven = []netip.Addr{proved}
		m.hold(way{Path{sa.path.Local, netip.AddrPortFrom(proved, now.Port())}, sa.nat})
	}
}
