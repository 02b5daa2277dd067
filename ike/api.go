// Package ike is one IKE SA and its Child SAs as a pure state machine (RFC 7296). Events go in, actions come out; every slow thing is
// an action with a token that an event answers. It never blocks, reads no clock, draws randomness only from Config.Rand, and is not safe
// for concurrent use.
package ike

import (
	"io"
	"net/netip"
	"time"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

// Time is CLOCK_BOOTTIME in nanoseconds.
type Time int64

func (t Time) Add(d time.Duration) Time { return t + Time(d) }
func (t Time) Sub(o Time) time.Duration { return time.Duration(t - o) }
func (t Time) Before(o Time) bool       { return t < o }

// Token ties an action to the event that answers it. Late answers are dropped.
type Token uint64

// Config is what a machine is made of.
type Config struct {
	Rand     io.Reader
	Snapshot *policy.Snapshot
	Caps     xfrm.Capabilities
	SPI      wire.SPI // our SPI, drawn by the shard
	// DrawSPI draws our SPI of an IKE SA that replaces this one; 0: none can be had. Without it the IKE SA is not rekeyed.
	DrawSPI func() wire.SPI
	// Closed says whether the operator took a connection down, so that its peer is refused; nil: none is.
	Closed func(connection string) bool
	// InitialContact: no other IKE SA of this connection was tried since boot, so that INITIAL_CONTACT is true (RFC 7296 section 2.4).
	InitialContact bool
	// Addresses are this host's own, that a peer may be told (RFC 4555 section 3.4); PathChanged brings others.
	Addresses []netip.Addr
	// Wall is the time by which certificates are judged, Staple an OCSP response for our own certificate, or nil (RFC 4806). Jobs call them, and only
	// jobs: they must be safe for concurrent use.
	Wall   func() time.Time
	Staple func(*auth.Credential) []byte
}

// Peers of a path: our address and port, the peer's.
type Path struct{ Local, Remote netip.AddrPort }

// Event is what happened.
type Event interface{ event() }

type (
	// Packet is an IKE message without non-ESP marker. Local.Port tells whether it came on the NAT traversal port.
	Packet struct {
		Path
		Data []byte
	}
	Wake struct{}
	// Initiate starts IKE_SA_INIT, with the children named (none: all of the connection).
	Initiate struct{ Children []string }
	// RaiseChild asks for a further child (by the tool, or by a packet: Packet is then its selector).
	RaiseChild struct {
		Child  string
		Packet *xfrm.Selector
	}
	// Lower closes the IKE SA, or only the named child. Silent: no Delete is sent (the peer is known to be gone). Carried: another IKE SA carries the
	// traffic of all its children, so that these end sending at once, and the Delete follows when what they have sent is there.
	Lower struct {
		Child   string
		Why     string
		Silent  bool
		Carried bool
	}
	// Rekey asks for new keys now: of the IKE SA, or of the named child (none: of all children).
	Rekey struct {
		Child string
		IKE   bool
	}
	// Reconfigure tells of further children, or of other certificates and keys; nothing else may differ from the configuration in force.
	Reconfigure struct{ Connection *policy.Connection }
	// Probe asks an established peer now whether it lives. Carried: another IKE SA carries the traffic of all its children, so that a few seconds must do for an
	// answer; not where liveness is off.
	Probe struct{ Carried bool }
	// SendFailed: the host did not send a message of this machine.
	SendFailed struct {
		Path
		Fault SendFault
		Err   error
	}
	Expire struct {
		ID   xfrm.SAID
		Hard bool
	}
	FirstUse struct{ ID xfrm.SAID }
	Mapping  struct {
		ID   xfrm.SAID
		From netip.AddrPort
	}
	JobDone struct {
		Token  Token
		Result any
	}
	ResolveDone struct {
		Token  Token
		Local  netip.Addr // source address that the host would use
		Remote []netip.Addr
		Err    error
	}
	SADBDone struct {
		Token Token
		Err   error // *xfrm.OpError
		ReqID uint32
	}
	// InquiryDone brings what was found of revocations; Failed says for people of each source that could not be had what was asked and why it failed.
	InquiryDone struct {
		Token  Token
		Found  auth.Revocations
		Failed []string
	}
	UsageDone struct {
		Token    Token
		Inbound  uint64 // packets received on all children since the last answer
		Outbound uint64 // packets sent since then
		LastIn   Time   // zero: never
	}
)

func (Packet) event()      {}
func (Wake) event()        {}
func (Initiate) event()    {}
func (RaiseChild) event()  {}
func (Lower) event()       {}
func (Rekey) event()       {}
func (Reconfigure) event() {}
func (Probe) event()       {}
func (SendFailed) event()  {}
func (Expire) event()      {}
func (FirstUse) event()    {}
func (Mapping) event()     {}
func (JobDone) event()     {}
func (ResolveDone) event() {}
func (SADBDone) event()    {}
func (InquiryDone) event() {}
func (UsageDone) event()   {}

// Action is what the machine wants done.
type Action interface{ action() }

// Actions collects, in order, what one Step wants done. The caller owns and reuses it.
type Actions struct{ List []Action }

// Add appends an action.
func (a *Actions) Add(x Action) { a.List = append(a.List, x) }

// Reset empties the list.
func (a *Actions) Reset() { clear(a.List); a.List = a.List[:0] }

// JobClass orders the job pool: established SAs first.
type JobClass uint8

const (
	JobEstablished JobClass = iota
	JobAuth
	JobInit
)

type (
	// Send sends a message; the transport adds the non-ESP marker when Local.Port is the NAT traversal port.
	Send struct {
		Path
		Data []byte
	}
	// Keepalive sends the one octet of RFC 3948 section 2.3.
	Keepalive struct{ Path }
	// Job runs outside; Run touches nothing but what it captured.
	Job struct {
		Token Token
		Class JobClass
		Run   func() any
	}
	// Resolve asks for the peer's addresses and for our source address towards the first of them to which there is a route.
	Resolve struct {
		Token  Token
		Local  netip.Addr   // invalid: choose
		Remote netip.Addr   // invalid: use Name
		Others []netip.Addr // further ones beside Remote, in order of preference
		Name   string
	}
	// Inquiry asks whether certificates are revoked, of those whom the certificates name. Their chain leads to a configured CA.
	Inquiry struct {
		Token   Token
		Sources []auth.Source
	}
	// SADB applies a batch. The ledger knows the machine as its owner.
	SADB struct {
		Token Token
		Batch xfrm.Batch
	}
	// Usage asks for the traffic of the children, answered by UsageDone.
	UsageQuery struct {
		Token   Token
		In, Out []xfrm.SAID
	}
	// Claim states that an authenticated identity is now served by this IKE SA. Not answered.
	Claim struct {
		Connection     string
		Config         *policy.Connection // that was in force when the machine began
		Peer           auth.Identity
		Initiated      bool
		InitialContact bool
	}
	// Adopt has the shard take in the machine of an IKE SA that replaces this one, under our SPI there, and give it a turn of its own (an event such as
	// Wake) when this one's is over. It may come several times for one successor. With Inherits all that the ledger books under this machine
	// is the successor's from now on, and so are events that are no answers.
	Adopt struct {
		SPI       wire.SPI
		Successor *SA
		Inherits  bool
	}
	// Reauthenticate asks for a new IKE SA of the connection beside this one, which is lowered once its children are up there. Not answered.
	Reauthenticate struct{ Connection, Why string }
	// Report is a line of the story, for the log, the monitor and the waiting tool.
	Report struct {
		Connection string     // empty: not known yet
		Caller     string     // the connection whose peer a refused caller wanted to be
		From       netip.Addr // of a peer that has not proved its identity: anyone can cause this; else invalid
		Child      string
		Code       Code
		Text       string // one line, without the connection's name
		Detail     string // for -v
		Hint       string // what to change
	}
	// Finish is the last action of a machine; everything that its owner still holds is removed by the ledger. CodeIgnored means that a stranger's
	// request was not worth keeping (dropped, or answered without keeping state): nothing to log above detail level.
	Finish struct {
		Connection string
		Code       Code // why
		Text       string
		Retry      bool // the failure may pass: a wanted connection is tried again after back-off
	}
)

func (Send) action()       {}
func (Keepalive) action()  {}
func (Job) action()        {}
func (Resolve) action()    {}
func (Inquiry) action()    {}
func (SADB) action()       {}
func (UsageQuery) action() {}
func (Claim) action()      {}
func (Adopt) action()      {}
func (Report) action()     {}
func (Finish) action()     {}

func (Reauthenticate) action() {}

// Status describes a machine for the tool. It holds no secret.
type Status struct {
	Connection          string
	Phase               string // "opening", "authenticating", "established", "closing"
	Initiated           bool
	SPIi, SPIr          wire.SPI
	Path                Path
	LocalID, RemoteID   string
	Proof               string // how the peer proved its identity: "PSK", or its certificate and the signature
	Suite               string
	NATLocal, NATRemote bool   // who is behind NAT, or pretends to be
	NAT                 string // who surely is: "none", "local", "remote", "both"; "unknown": the peer is, or only asks for ESP in UDP
	Fragmentation       string // RFC 7383: "none": not agreed; "agreed", "used"
	FragmentSize        int    // octets of the largest IP datagram that this side makes of an IKE message; 0: any
	MOBIKE              bool   // agreed
	Since               Time
	LastHeard           Time // fresh authentic message of the peer, or packet on a child; zero: never
	Sent, Tries         int  // how often the request that waits for an answer was sent, and how often it is at most; zero: none waits
	RekeyAt, ReauthAt   Time // when this side renews it; zero: never
	Children            []ChildStatus
}

// ChildStatus describes a Child SA pair.
type ChildStatus struct {
	Name          string
	Up            bool
	SPIIn, SPIOut uint32
	Suite         string // "AES-GCM-256"
	Mode          string
	Encap         bool
	Local, Remote []string // selectors
	Narrowed      string   // how the peer's answer is smaller than our offer, for people; empty: it is not
	In, Out       xfrm.SAID
	ReqID         uint32
	Since         Time
	RekeyAt       Time // when this side rekeys it, if no limit of octets or packets comes first; zero: never
}
