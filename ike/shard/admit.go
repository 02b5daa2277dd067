package shard

import (
	"net/netip"

	"cygnet/ike"
	"cygnet/ike/wire"
)

const (
	// halfOpenMax bounds the half-open IKE SAs of a shard. Beyond the cookie threshold all of them have proved their address.
	halfOpenMax = 4096
	// sourceUnproven is how many half-open IKE SAs one source may have without cookie, sourceMax how many with one: a
	// company's people who reconnect at once from behind one NAT stay below.
	sourceUnproven = 16
	sourceMax      = 256
)

// initID tells repeats of one IKE_SA_INIT request from requests of two clients behind one NAT that chose the same SPI: by a hash of the
// whole packet (RFC 7296 section 2.1).
type initID struct {
	addr netip.Addr
	spi  wire.SPI
	hash uint64
}

// sources counts half-open IKE SAs, in all and per source: an IPv4 address, or an IPv6 /64, which is what one subscriber has.
type sources struct {
	open   int
	proven map[netip.Prefix]int
	forged map[netip.Prefix]int // may be forged: counted apart, so that forged packets cannot shut out a real client
}

func newSources() sources {
	return sources{proven: make(map[netip.Prefix]int), forged: make(map[netip.Prefix]int)}
}

func sourceOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	if a.Is4() {
		return netip.PrefixFrom(a, 32)
	}
	p, _ := a.Prefix(64)
	return p
}

func (s *sources) table(proven bool) map[netip.Prefix]int {
	if proven {
		return s.proven
	}
	return s.forged
}

func (s *sources) opened(p netip.Prefix, proven bool) {
	s.open++
	s.table(proven)[p]++
}

func (s *sources) closed(p netip.Prefix, proven bool) {
	s.open--
	t := s.table(proven)
	if t[p]--; t[p] == 0 {
		delete(t, p)
	}
}

// initRequest handles a request with SPIr 0: it belongs to the machine that it made before, or is admitted, or is asked for a cookie.
func (s *Shard) initRequest(now ike.Time, h wire.Header, p ike.Packet, out *[]Action) {
	id := initID{p.Remote.Addr(), h.SPIi, sipHash(s.c.HashKey, p.Data)}
	if m := s.inits[id]; m != nil {
		s.count(InitRepeated)
		m.first.credit += len(p.Data)
		s.turn(now, m, p, out)
		return
	}
	first := &firstMessage{id: id, source: sourceOf(p.Remote.Addr()), header: h, credit: len(p.Data)}
	if !s.admit(now, first, p, out) {
		return
	}
	spi, err := s.drawSPI()
	if err != nil {
		s.count(InitNoSPI)
		return
	}
	s.count(InitAdmitted)
	m := &machine{spi: spi, first: first, peer: s.newResponder(s.machineConfig(spi))}
	s.machines[spi], s.inits[id] = m, m
	first.open = true
	s.sources.opened(first.source, first.proven)
	s.turn(now, m, p, out)
}

// admit decides about a new IKE_SA_INIT request and answers with a COOKIE where one is needed.
func (s *Shard) admit(now ike.Time, first *firstMessage, p ike.Packet, out *[]Action) bool {
	came, nonce := cookieAndNonce(p.Data)
	if nonce == nil {
		// Without Ni there is neither a cookie nor a session: it is dropped before it costs anything (RFC 7296 section 2.21).
		s.count(InitMalformed)
		return false
	}
	first.proven = came != nil && s.cookies.valid(now, came, first, nonce)
	if first.proven {
		s.count(CookieGood)
	} else {
		first.cookie = s.cookies.mint(now, first, nonce)
	}
	switch {
	case !first.proven && s.cookieNeeded(now, first.source):
		if came != nil {
			s.count(CookieBad)
		}
		s.demand(p.Path, first.header, first.cookie, len(p.Data), out)
		return false
	case s.sources.open >= halfOpenMax:
		s.count(InitFull)
		return false
	case first.proven && s.sources.proven[first.source] >= sourceMax:
		s.count(InitSourceFull)
		return false
	}
	return true
}

// cookieNeeded: the daemon's threshold is for all shards together. Where so many are refused that no more of them may hear it, they
// prove their address before anything is read.
func (s *Shard) cookieNeeded(now ike.Time, source netip.Prefix) bool {
	threshold := (s.c.Snapshot.Daemon.CookieThreshold + s.c.Count - 1) / s.c.Count
	return s.pressed || s.refusals.exhausted(now) || s.sources.open >= threshold || s.sources.forged[source] >= sourceUnproven
}
