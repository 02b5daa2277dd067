// Package directory knows what crosses IKE SAs, and is pure: for each connection what is wanted (up, trap, down), which IKE SAs serve it, its
// back-off, and the one rule that ends duplicates.
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
type Directory struct{}

func New(rand io.Reader) *Directory { panic("contract") }

// Event for the directory.
type Event interface{ dirEvent() }

type (
	// Load brings a new snapshot: traps and blocks are claimed for drop and traffic connections, boot connections become wanted.
	Load struct{ Snapshot *policy.Snapshot }
	// Up and Down are the operator's wishes.
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
func (Finished) dirEvent()  {}
func (Wake) dirEvent()      {}

// Action of the directory.
type Action interface{ dirAction() }

type (
	// Start asks a shard to open an initiator.
	Start struct {
		Connection string
		Children   []string
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
	// Report for log and tool, such as "next try in 8 s".
	Report struct{ ike.Report }
)

func (Start) dirAction()   {}
func (Tell) dirAction()    {}
func (Claims) dirAction()  {}
func (Release) dirAction() {}
func (Report) dirAction()  {}

func (d *Directory) Step(now ike.Time, ev Event, out *[]Action) { panic("contract") }
func (d *Directory) Deadline() (ike.Time, bool)                 { panic("contract") }

// ConnStatus is a connection as the tool shows it.
type ConnStatus struct {
	Name    string
	Wanted  string // "up", "trap", "down"
	Serving []wire.SPI
	Peer    auth.Identity
	Tries   int
	NextTry ike.Time // zero: none planned
	LastErr string
}

func (d *Directory) Status() []ConnStatus { panic("contract") }
