// Package directory knows what crosses IKE SAs, and is pure: for each connection what is wanted (up, trap, down), which IKE SAs serve it, its
// back-off, and the one rule that ends duplicates.
//
// It sees no packet and no key. Machines tell it what became of them through their actions; it answers by asking shards for new machines and
// by telling machines to raise or lower. What it claims for a connection keeps its traffic from leaving in clear while no Child SA is there.
//
// Sources: RFC 7296 sections 2.4 (INITIAL_CONTACT), 2.8 (duplicates); RFC 4301 section 5.1 (no SA yet: never in clear).
package directory

import (
	"io"

	"cygnet/ike"
	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

// Directory is not safe for concurrent use.
type Directory struct {
	rand  io.Reader
	conns []*connection // in order of their names
	sas   map[wire.SPI]*sa
	seq   uint64 // of the last Claimed: tells older from newer

	changes []Change // of the last Load
}

// New makes an empty directory. rand gives the back-off its jitter.
func New(rand io.Reader) *Directory { return &Directory{rand: rand, sas: make(map[wire.SPI]*sa)} }

// Event for the directory.
type Event interface{ dirEvent() }

type (
	// Load brings a new snapshot: traps and blocks are claimed for drop and traffic connections, boot connections become wanted.
	// Connections that are gone are lowered and released; those that changed are lowered and, when wanted, started anew.
	Load struct{ Snapshot *policy.Snapshot }
	// Up and Down are the operator's wishes. They hold until the opposite wish or a restart. No Children: all of them; no Child: the
	// whole connection.
	Up struct {
		Connection string
		Children   []string
	}
	Down struct{ Connection, Child string }
	// Acquire: a packet for a trapped child, whose lineage the ledger knows.
	Acquire struct {
		Connection, Child string
		Packet            xfrm.Selector
	}
	// Opened, Claimed, ChildUp, ChildDown and Finished come from the machines' actions.
	Opened struct {
		Connection string
		SPI        wire.SPI
	}
	Claimed struct {
		SPI wire.SPI
		ike.Claim
	}
	ChildUp struct {
		SPI               wire.SPI
		Connection, Child string
	}
	ChildDown struct {
		SPI               wire.SPI
		Connection, Child string
	}
	// ChildFailed: an attempt at a child, or at its rekey, failed.
	ChildFailed struct {
		SPI         wire.SPI
		Child, Text string
	}
	// RequestRefused: the peer asked for a child that it cannot have.
	RequestRefused struct {
		SPI  wire.SPI
		Text string
	}
	// CallerRefused: someone wanted to be the peer of a connection and was refused.
	CallerRefused struct {
		Connection string
		Code       ike.Code
		Text       string
	}
	// Adopted: the IKE SA was rekeyed and has another SPI of ours; it is the same to the directory.
	Adopted struct{ SPI, Heir wire.SPI }
	// Reauthenticate: an IKE SA is to be replaced by one that is made from scratch (RFC 7296 section 2.8.3).
	Reauthenticate struct{ SPI wire.SPI }
	// Finished with SPI 0 answers a Start that made no machine.
	Finished struct {
		SPI wire.SPI
		ike.Finish
	}
	Wake struct{}
)

func (Load) dirEvent()      {}
func (Up) dirEvent()        {}
func (Down) dirEvent()      {}
func (Acquire) dirEvent()   {}
func (Opened) dirEvent()    {}
func (Claimed) dirEvent()   {}
func (ChildUp) dirEvent()   {}
func (ChildDown) dirEvent() {}
func (Adopted) dirEvent()   {}
func (Finished) dirEvent()  {}
func (Wake) dirEvent()      {}

func (ChildFailed) dirEvent()    {}
func (CallerRefused) dirEvent()  {}
func (RequestRefused) dirEvent() {}
func (Reauthenticate) dirEvent() {}

// Action of the directory.
type Action interface{ dirAction() }

type (
	// Start asks a shard to open an initiator. It is answered by Opened, or by Finished with SPI 0.
	Start struct {
		Connection string
		Children   []string
		// InitialContact: there is no other IKE SA between the two identities (RFC 7296 section 2.4).
		InitialContact bool
	}
	// Tell delivers an event to a machine (Lower, RaiseChild).
	Tell struct {
		SPI   wire.SPI
		Event ike.Event
	}
	// Claims is a batch of claims owned by Owner (a connection's trap and block).
	Claims struct {
		Owner xfrm.Owner
		Batch xfrm.Batch
	}
	// Release removes everything of an owner.
	Release struct{ Owner xfrm.Owner }
	// Close says that the operator took a connection down, so that shards refuse its peer, or that he does not want that any longer.
	Close struct {
		Connection string
		Closed     bool
	}
	// Report for log and tool, such as "next try in 8 s".
	Report struct{ ike.Report }
)

func (Start) dirAction()   {}
func (Tell) dirAction()    {}
func (Claims) dirAction()  {}
func (Release) dirAction() {}
func (Close) dirAction()   {}
func (Report) dirAction()  {}

// Codes of the directory's own reports.
const (
	CodeRetry     ike.Code = "retry"      // a connection that is wanted is tried again later
	CodeNoAddress ike.Code = "no-address" // only the peer can start: its address is not configured
	CodeUnknown   ike.Code = "unknown"    // no such connection or child
)

// ConnStatus is a connection as the tool shows it.
type ConnStatus struct {
	Name    string
	Wanted  string // "up", "trap", "down"
	Closed  bool   // the operator took it down: the peer is refused until Up
	Serving []wire.SPI
	Peer    auth.Identity
	Tries   int
	NextTry ike.Time // zero: none planned
	LastErr Note     // why the last attempt failed, unless a new one was asked for since
	Last    string   // how the last IKE SA ended, when that was no failure
	// Children that are wanted and not up, or have an error.
	Children []ChildTrouble
	Asked    Note // the last request of the peer for a child that was refused, unless all are up since
	Refused  Note // the last caller who wanted to be the peer; the peer itself, when it was turned away and Up has not come since
}

// Status of all connections, in order of their names.
func (d *Directory) Status() []ConnStatus {
	list := make([]ConnStatus, 0, len(d.conns))
	for _, c := range d.conns {
		s := ConnStatus{Name: c.Name, Wanted: c.wanted().String(), Closed: c.operator == wantDown, Tries: c.tries, LastErr: c.trouble.err,
			Last: c.trouble.last, Children: c.childTroubles(), Asked: c.trouble.asked, Refused: c.trouble.caller()}
		if c.startsAtNextTry() {
			s.NextTry = c.nextTry
		}
		for _, a := range c.serving() {
			s.Serving = append(s.Serving, a.spi)
			s.Peer = a.peer
		}
		if len(s.Serving) > 0 {
			s.Tries = 0
		}
		list = append(list, s)
	}
	return list
}

// Step handles one event and appends to out what is to be done.
func (d *Directory) Step(now ike.Time, ev Event, out *[]Action) {
	t := turn{d, now, out}
	switch ev := ev.(type) {
	case Load:
		d.changes = nil
		t.load(ev.Snapshot)
	case Up:
		t.up(ev)
	case Down:
		t.down(ev)
	case Acquire:
		t.acquire(ev)
	case Opened:
		t.opened(ev)
	case Claimed:
		t.claimed(ev)
	case ChildUp:
		t.childUp(ev)
	case ChildDown:
		t.childDown(ev)
	case Adopted:
		t.adopted(ev)
	case Reauthenticate:
		t.reauthenticate(ev)
	case Moved:
		t.moved(ev)
	case Paths:
		t.paths()
	case ChildFailed:
		t.childFailed(ev)
	case CallerRefused:
		t.callerRefused(ev)
	case RequestRefused:
		t.requestRefused(ev)
	case Finished:
		t.finished(ev)
	case Wake:
		for _, c := range d.conns {
			t.settle(c)
		}
	}
}

// Deadline says when to Step(Wake{}) if nothing else happens.
func (d *Directory) Deadline() (at ike.Time, has bool) {
	for _, c := range d.conns {
		if t := c.deadline(); t != 0 && (!has || t.Before(at)) {
			at, has = t, true
		}
	}
	return at, has
}

// turn is one Step.
type turn struct {
	*Directory
	now ike.Time
	out *[]Action
}

func (t turn) emit(a Action) { *t.out = append(*t.out, a) }

func (t turn) tell(a *sa, ev ike.Event) { t.emit(Tell{a.spi, ev}) }

func (t turn) report(r ike.Report) { t.emit(Report{r}) }

func (d *Directory) find(name string) *connection {
	for _, c := range d.conns {
		if c.Name == name {
			return c
		}
	}
	return nil
}
