// Package shard holds many IKE SAs and is still pure: it finds the SA of a packet, demands cookies, admits, and keeps the deadlines.
//
// It decides nothing that belongs to one IKE SA: of a packet it reads the header and, where a cookie is asked for, COOKIE and Ni. Everything it keeps
// is bounded, whatever arrives; what is dropped is counted under a name.
//
// Sources: RFC 7296 sections 2.1 (repeated IKE_SA_INIT), 2.5 (versions), 2.6 (SPIs, cookies), 2.21.4 (unknown SPIs); RFC 8019 section 4 (half-open SAs).
package shard

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"time"

	"cygnet/ike"
	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

// Config of a shard. Count shards share HashKey; a shard draws SPIs until they hash to Index.
type Config struct {
	Index, Count int
	HashKey      [16]byte
	Rand         io.Reader
	Snapshot     *policy.Snapshot
	Addresses    []netip.Addr // of this host; see ike.Config
	Caps         xfrm.Capabilities
	// Recover makes a panic inside a machine end that machine alone. Off in tests and simulation.
	Recover bool
	// Wall and Staple are for jobs, see ike.Config.
	Wall   func() time.Time
	Staple func(*auth.Credential) []byte
}

// Shard is not safe for concurrent use.
type Shard struct {
	c        Config
	machines map[wire.SPI]*machine // by our SPI
	heirs    map[wire.SPI]wire.SPI // who has inherited from an IKE SA, by our SPI of that; one entry for a machine at most
	inits    map[initID]*machine   // responders by their IKE_SA_INIT request
	sources  sources
	cookies  cookies
	notifies limiter // to requests for which there is no IKE SA
	refusals limiter // of IKE_SA_INIT, to sources that may be forged
	answers  limiter // of IKE_SA_INIT, to sources that have proved themselves
	epitaphs epitaphs
	due      deadlines
	pressed  bool
	closed   map[string]bool // connections that the operator took down
	counters map[string]uint64
	actions  ike.Actions // reused

	// The machines' constructors; the shard's own tests put simpler ones in their place.
	newInitiator func(ike.Config, *policy.Connection) peer
	newResponder func(ike.Config) peer
}

// peer is what a shard needs of *ike.SA.
type peer interface {
	Step(now ike.Time, ev ike.Event, out *ike.Actions)
	Deadline() (ike.Time, bool)
	Status() ike.Status
	PeerSPI() wire.SPI
	Established() bool
	Finished() bool
}

// New makes an empty shard.
func New(c Config) *Shard {
	c.Count = max(c.Count, 1)
	return &Shard{
		c:            c,
		machines:     make(map[wire.SPI]*machine),
		heirs:        make(map[wire.SPI]wire.SPI),
		inits:        make(map[initID]*machine),
		sources:      newSources(),
		cookies:      cookies{rand: c.Rand},
		closed:       make(map[string]bool),
		epitaphs:     epitaphs{bySPI: make(map[wire.SPI]*epitaph)},
		notifies:     newLimiter(notifyRate),
		refusals:     newLimiter(notifyRate),
		answers:      newLimiter(provenRate),
		counters:     make(map[string]uint64),
		newInitiator: func(c ike.Config, conn *policy.Connection) peer { return ike.NewInitiator(c, conn) },
		newResponder: func(c ike.Config) peer { return ike.NewResponder(c) },
	}
}

// Event for a shard: a packet, or an event for one machine, or a new machine.
type Event interface{ shardEvent() }

type (
	Packet struct{ ike.Packet }
	// ForSA delivers an event to the machine with our SPI.
	ForSA struct {
		SPI   wire.SPI
		Event ike.Event
	}
	// Open makes an initiator for a connection and answers with Opened before its other actions. When that cannot be, a Finish of SPI 0
	// names the connection.
	Open struct {
		Connection     string
		Children       []string
		InitialContact bool // see ike.Config
	}
	// Close says that the operator took a connection down, or up again: its peer is refused, or no longer.
	Close struct {
		Connection string
		Closed     bool
	}
	// Reload replaces the snapshot for machines that are made from now on.
	Reload struct{ Snapshot *policy.Snapshot }
	// Pressure says that jobs of the class JobInit wait in a full queue, or no longer: COOKIE is then demanded of everyone.
	Pressure struct{ Full bool }
	// Paths says that links, addresses or routes of the host have changed, and what its addresses are.
	Paths struct{ Own []netip.Addr }
	Wake  struct{}
)

func (Packet) shardEvent()   {}
func (ForSA) shardEvent()    {}
func (Open) shardEvent()     {}
func (Close) shardEvent()    {}
func (Reload) shardEvent()   {}
func (Pressure) shardEvent() {}
func (Paths) shardEvent()    {}
func (Wake) shardEvent()     {}

// Action of a machine, or (SPI 0) of the shard itself. Opened is an Action of the machine that was just made.
type Action struct {
	SPI    wire.SPI
	Action ike.Action
}

// Opened says that Open made a machine; Report.Connection is the connection.
type Opened struct {
	ike.Report // so that it is an ike.Action
}

// Step handles one event and appends to out.
func (s *Shard) Step(now ike.Time, ev Event, out *[]Action) {
	switch ev := ev.(type) {
	case Packet:
		s.packet(now, ev.Packet, out)
	case ForSA:
		if m := s.addressee(ev.SPI, ev.Event); m != nil {
			s.turn(now, m, ev.Event, out)
		} else {
			s.count(LateEvent)
		}
	case Open:
		s.open(now, ev, out)
	case Close:
		if ev.Closed {
			s.closed[ev.Connection] = true
		} else {
			delete(s.closed, ev.Connection)
		}
	case Reload:
		s.c.Snapshot = ev.Snapshot
	case Pressure:
		s.pressed = ev.Full
	case Paths:
		s.c.Addresses = ev.Own
		for _, spi := range slices.Sorted(maps.Keys(s.machines)) {
			if m := s.machines[spi]; m != nil {
				s.turn(now, m, ike.PathChanged{Own: ev.Own}, out)
			}
		}
	case Wake:
		for _, m := range s.due.before(now) {
			s.turn(now, m, ike.Wake{}, out)
		}
	}
}

func (s *Shard) open(now ike.Time, ev Open, out *[]Action) {
	refuse := func(code ike.Code, text string, retry bool) {
		*out = append(*out, Action{0, ike.Finish{Connection: ev.Connection, Code: code, Text: text, Retry: retry}})
	}
	conn := s.c.Snapshot.ByName(ev.Connection)
	if conn == nil {
		refuse(ike.CodeClosed, "the connection is no longer configured", false)
		return
	}
	spi, err := s.drawSPI()
	if err != nil {
		refuse(ike.CodeInternal, err.Error(), true)
		return
	}
	config := s.machineConfig(spi)
	config.InitialContact = ev.InitialContact
	m := &machine{spi: spi, connection: conn.Name, peer: s.newInitiator(config, conn)}
	s.machines[spi] = m
	*out = append(*out, Action{spi, Opened{ike.Report{Connection: conn.Name}}})
	s.turn(now, m, ike.Initiate{Children: ev.Children}, out)
}

func (s *Shard) machineConfig(spi wire.SPI) ike.Config {
	return ike.Config{Rand: s.c.Rand, Snapshot: s.c.Snapshot, Addresses: s.c.Addresses, Caps: s.c.Caps, SPI: spi, DrawSPI: s.drawForRekey, Wall: s.c.Wall, Staple: s.c.Staple,
		Closed: func(connection string) bool { return s.closed[connection] }}
}

// Deadline says when to Step(Wake{}).
func (s *Shard) Deadline() (ike.Time, bool) { return s.due.first() }

// Status of all machines, in order of their SPIs.
func (s *Shard) Status() []ike.Status {
	list := slices.SortedFunc(maps.Values(s.machines), func(a, b *machine) int { return cmp.Compare(a.spi, b.spi) })
	out := make([]ike.Status, len(list))
	for i, m := range list {
		out[i] = m.peer.Status()
	}
	return out
}

// Len counts the machines, HalfOpen those responders whose peer has not proved its identity yet.
func (s *Shard) Len() int      { return len(s.machines) }
func (s *Shard) HalfOpen() int { return s.sources.open }

// Owner is the ledger's name for the machine with our SPI.
func Owner(spi wire.SPI) xfrm.Owner { return xfrm.Owner(fmt.Sprintf("ike:%016x", uint64(spi))) }
