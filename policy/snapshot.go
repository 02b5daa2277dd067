// Package policy turns TOML into a validated immutable Snapshot and answers the questions that the machines ask of it: which
// connection, which proposal, which selectors. It is pure: files and secrets are read by policy/load.
//
// Sources: RFC 7296 sections 2.7 (algorithms), 2.9 (selectors), 2.15 (identities), 3.3 (proposals), 3.13 (selectors on the wire).
package policy

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// Snapshot is one loaded configuration. It is never changed after Parse returns it.
type Snapshot struct {
	Daemon      Daemon
	Connections []*Connection // by name
}

// Daemon is the [daemon] table of cygnet.toml.
type Daemon struct {
	Dataplane string // "auto", "kernel", "userspace"
	LogLevel  string // "error", "warn", "info", "debug", "trace"
	Port      uint16 // 500
	NATTPort  uint16 // 4500
	MTU       int    // of packets inside userspace tunnels, octets
	// CookieThreshold is the number of half-open IKE SAs from which on COOKIE is demanded.
	CookieThreshold int
}

// Encapsulation says when ESP travels in UDP (RFC 3948).
type Encapsulation string

const (
	EncapAuto   Encapsulation = "auto"   // where a NAT is, and where the data plane does better with it
	EncapAlways Encapsulation = "always" // a NAT is pretended
	EncapNever  Encapsulation = "never"  // none is pretended: for peers that send plain ESP whatever they are told
)

// Start says when a connection comes up.
type Start string

const (
	StartBoot    Start = "boot"
	StartTraffic Start = "traffic"
	StartManual  Start = "manual"
)

// Connection is one [connection.NAME] table. All fields carry their defaults (defaults.go).
type Connection struct {
	Name         string
	File         string // where it stands, for messages: "conn.d/site-b.toml"
	Line         int
	Lines        map[string]int // line of each key that was given, by dotted path inside the connection: "remote.id", "psk.file"
	Local        End
	Remote       End
	PSK          alg.Secret      // empty when both ends have another Proof
	PSKFile      string          // as it was written
	IKE          []wire.Proposal // in order of preference; each transform type may list several
	Start        Start
	Drop         bool // when_down = "drop"
	Encap        Encapsulation
	Fragments    Fragmentation
	MOBIKE       bool // RFC 4555
	Signatures   Signatures
	Children     []*Child
	Liveness     Liveness
	NATKeepalive time.Duration // 20 s; RFC 3948 section 4
	Lifetime     IKELifetime
	anywhere     bool // remote address = "%any"
	several      bool // remote id is a pattern
}

// Where names the line of the first of the keys that was given, or of the connection, for the one who is to change it:
// "conn.d/site-b.toml:5: ike". Without a connection it is empty.
func (c *Connection) Where(keys ...string) string {
	if c == nil {
		return ""
	}
	line := c.Line
	key := strings.Join(keys, ", ")
	for _, k := range keys {
		if n, ok := c.Lines[k]; ok {
			line, key = n, k
			break
		}
	}
	if c.File == "" {
		return key
	}
	return fmt.Sprintf("%s:%d: %s", c.File, line, key)
}

// End is one side of a connection.
type End struct {
	Address netip.Addr    // invalid: "%any" or a name
	Name    string        // DNS name of the peer, when Address is not given
	ID      auth.Identity // of the remote end zero when it is for several, see Match
	Match   auth.Pattern  // of the remote end: which identities are meant when ID is zero
	Port    uint16        // remote UDP port, default 500
	Proof   Proof
}

// Liveness: idle time before a check, tries, first timeout and factor.
type Liveness struct {
	Idle    time.Duration
	Tries   int
	Timeout time.Duration
	Factor  float64
}

// Child is one [connection.NAME.child.NAME] table.
type Child struct {
	Name          string
	File          string // where it stands, for messages
	Line          int
	Lines         map[string]int // line of each key that was given: "remote", "esp"
	Local, Remote []TS
	ESP           []wire.Proposal // without PFS groups in the first exchange; PFS lists the groups for CREATE_CHILD_SA
	// PFS lists the key exchange methods of CREATE_CHILD_SA in order of preference. 0 (NONE) in it says that a child without is accepted
	// too. Empty: none is offered; a peer that demands one of the default groups still gets it.
	PFS      []wire.GroupID
	Replay   uint32
	HideDSCP bool // the outer header of ESP tells nothing of the inner DSCP (RFC 4301 section 5.1.2.1)
	Lifetime ChildLifetime
}

// TS is one side's traffic selector (RFC 7296 section 3.13.1): an inclusive address range of one family.
type TS struct {
	Start, End netip.Addr
	Proto      uint8
	Ports      xfrm.Ports // normalised: "any" is {0, 65535}
}

// Source is a configuration file.
type Source struct {
	Name string // path as the operator knows it
	Data []byte
}
