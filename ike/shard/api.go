// Package shard holds many IKE SAs and is still pure: it finds the SA of a packet, demands cookies, admits, and keeps the deadlines.
package shard

import (
	"io"

	"cygnet/ike"
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
	Caps         xfrm.Capabilities
	// Recover makes a panic inside a machine end that machine alone. Off in tests and simulation.
	Recover bool
}

// Shard is not safe for concurrent use.
type Shard struct{}

func New(c Config) *Shard { panic("contract") }

// Route returns the shard that a datagram belongs to, by header alone.
func Route(h wire.Header, remote string, count int, key [16]byte) int { panic("contract") }

// Event for a shard: a packet, or an event for one machine, or a new machine.
type Event interface{ shardEvent() }

type (
	Packet struct{ ike.Packet }
	// ForSA delivers an event to the machine with our SPI.
	ForSA struct {
		SPI   wire.SPI
		Event ike.Event
	}
	// Open makes an initiator for a connection and answers with Opened before its other actions.
	Open struct {
		Connection string
		Children   []string
	}
	// Reload replaces the snapshot for machines that are made from now on.
	Reload struct{ Snapshot *policy.Snapshot }
	Wake   struct{}
)

func (Packet) shardEvent() {}
func (ForSA) shardEvent()  {}
func (Open) shardEvent()   {}
func (Reload) shardEvent() {}
func (Wake) shardEvent()   {}

// Action of a machine, or (SPI 0) of the shard itself. Opened is an Action of the machine that was just made.
type Action struct {
	SPI    wire.SPI
	Action ike.Action
}

// Opened says that Open made a machine.
type Opened struct {
	ike.Report // so that it is an ike.Action
}

// Step handles one event and appends to out.
func (s *Shard) Step(now ike.Time, ev Event, out *[]Action) { panic("contract") }

// Deadline says when to Step(Wake{}).
func (s *Shard) Deadline() (ike.Time, bool) { panic("contract") }

// Status of all machines, in order of their SPIs.
func (s *Shard) Status() []ike.Status { panic("contract") }

// Owner is the ledger's name for the machine with our SPI.
func Owner(spi wire.SPI) xfrm.Owner { panic("contract") }
