package shard

import (
	"fmt"
	"net/netip"
	"runtime/debug"

	"cygnet/ike"
	"cygnet/ike/wire"
)

// machine is an IKE SA and what the shard knows about it.
type machine struct {
	spi        wire.SPI
	peer       peer
	connection string // as far as its actions named it
	deadline   ike.Time
	place      int      // in the heap, from 1; 0: not there
	before     wire.SPI // that of the IKE SA that it has inherited from

	first *firstMessage // responders only
}

// firstMessage is what a shard keeps of the IKE_SA_INIT request that made a responder.
type firstMessage struct {
	id     initID
	source netip.Prefix
	proven bool // the source returned a cookie
	open   bool // counted as half-open
	header wire.Header
	cookie []byte
	credit int // octets that came from an unproven source less those that went there
}

// turn gives a machine one event and takes over its actions.
func (s *Shard) turn(now ike.Time, m *machine, ev ike.Event, out *[]Action) {
	s.actions.Reset()
	if fault := s.step(now, m, ev); fault != "" {
		s.count(MachinePanicked)
		s.forget(m)
		*out = append(*out,
			Action{m.spi, ike.Report{Connection: m.connection, Code: ike.CodeInternal, Text: "internal error: this IKE SA is given up, others go on", Detail: fault,
				Hint: "please report this with the detail"}},
			Action{m.spi, ike.Finish{Connection: m.connection, Code: ike.CodeInternal, Text: "internal error", Retry: true}})
		return
	}
	var adopted []*machine
	for _, a := range s.actions.List {
		m.learn(a)
		if f, ok := a.(ike.Finish); ok && f.Code == ike.CodeNoAnswer && m.first != nil && m.first.open {
			s.count(AuthNever)
		}
		if a, ok := a.(ike.Adopt); ok {
			adopted = append(adopted, s.adopt(m, a))
		}
		if send, ok := a.(ike.Send); ok && s.heldBack(now, m, send, out) {
			return
		}
		*out = append(*out, Action{m.spi, a})
	}
	s.bury(now, m, ev)
	s.settle(m)
	for _, heir := range adopted {
		if s.machines[heir.spi] == heir {
			s.turn(now, heir, ike.Wake{}, out)
		}
	}
}

// step runs the machine. A panic comes back as text, its stack with it, when the shard recovers panics.
func (s *Shard) step(now ike.Time, m *machine, ev ike.Event) (fault string) {
	if s.c.Recover {
		defer func() {
			if r := recover(); r != nil {
				fault = fmt.Sprintf("%v\n%s", r, debug.Stack())
				s.actions.Reset()
			}
		}()
	}
	m.peer.Step(now, ev, &s.actions)
	return ""
}

// settle brings the shard's tables up to what the machine became.
func (s *Shard) settle(m *machine) {
	if m.peer.Finished() {
		s.forget(m)
		return
	}
	if f := m.first; f != nil && f.open && m.peer.Established() {
		f.open = false
		s.sources.closed(f.source, f.proven)
	}
	at, has := m.peer.Deadline()
	s.due.set(m, at, has)
}

func (s *Shard) forget(m *machine) {
	delete(s.machines, m.spi)
	delete(s.heirs, m.before)
	s.due.set(m, 0, false)
	if f := m.first; f != nil {
		delete(s.inits, f.id)
		if f.open {
			f.open = false
			s.sources.closed(f.source, f.proven)
		}
	}
}

// learn remembers the connection that a machine speaks for: a responder knows it only after it has read the peer's identity.
func (m *machine) learn(a ike.Action) {
	name := ""
	switch a := a.(type) {
	case ike.Claim:
		name = a.Connection
	case ike.Report:
		name = a.Connection
	case ike.Finish:
		name = a.Connection
	}
	if name != "" {
		m.connection = name
	}
}

// heldBack keeps an IKE_SA_INIT response from a source that may be forged when it has more octets than came from there, or is one refusal too many: the source
// is asked for a COOKIE instead and the machine is given up; the repeat with the cookie makes another. Later messages of a responder answer only requests
// that were encrypted with this IKE SA's keys, and so prove the source.
func (s *Shard) heldBack(now ike.Time, m *machine, send ike.Send, out *[]Action) bool {
	f := m.first
	if f == nil || !isInit(send.Data) {
		return false
	}
	refusal := m.peer.Finished()
	switch {
	case f.proven && refusal && !s.answers.allow(now, f.source):
		s.count(NotifyHeldBack)
		s.giveUp(m, "one refusal too many: not answered", out)
		return true
	case f.proven:
	case f.credit < len(send.Data):
		s.count(Amplification)
		s.giveUp(m, "the answer is larger than the request: COOKIE demanded first", out)
		s.demand(send.Path, f.header, f.cookie, f.credit, out)
		return true
	case refusal && !s.refusals.allow(now, f.source):
		s.count(NotifyHeldBack)
		s.giveUp(m, "one refusal too many: COOKIE demanded first", out)
		s.demand(send.Path, f.header, f.cookie, f.credit, out)
		return true
	}
	f.credit -= len(send.Data)
	if refusal {
		s.count(InitRefused)
	}
	return false
}

// giveUp forgets a machine that was not worth keeping.
func (s *Shard) giveUp(m *machine, why string, out *[]Action) {
	s.forget(m)
	*out = append(*out, Action{m.spi, ike.Finish{Code: ike.CodeIgnored, Text: why}})
}

func isInit(b []byte) bool {
	const exchangeOctet = 18
	return len(b) > exchangeOctet && wire.ExchangeType(b[exchangeOctet]) == wire.IKESAInit
}
