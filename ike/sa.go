package ike

import (
	"cygnet/ike/wire"
	"cygnet/policy"
)

// SA is one IKE SA with its Child SAs.
type SA struct {
	config Config
	conn   *policy.Connection
}

// NewInitiator makes a machine that waits for Initiate.
func NewInitiator(c Config, conn *policy.Connection) *SA { return &SA{config: c, conn: conn} }

// NewResponder makes a machine that gets its first Packet, an admitted IKE_SA_INIT request, by Step.
func NewResponder(c Config) *SA { return &SA{config: c} }

// Step handles one event and appends to out what is to be done.
func (sa *SA) Step(now Time, ev Event, out *Actions) {}

// Deadline says when to Step(Wake{}) if nothing else happens.
func (sa *SA) Deadline() (Time, bool) { return 0, false }

// Status describes the machine; it holds no secret.
func (sa *SA) Status() Status { return Status{} }

// PeerSPI is the peer's SPI, 0 as long as it is not known.
func (sa *SA) PeerSPI() wire.SPI { return 0 }

// Established reports whether the peer has proved its identity.
func (sa *SA) Established() bool { return false }

// Finished reports whether Finish was emitted: the machine is to be forgotten.
func (sa *SA) Finished() bool { return false }
