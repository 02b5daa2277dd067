// Package policy turns TOML into a validated immutable Snapshot and answers the questions that the machines ask of it: which
// connection, which proposal, which selectors. It is pure: files and secrets are read by policy/load.
package policy

import (
	"net/netip"
	"time"

	"cygnet/ike/auth"
	"cygnet/ike/suite"
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
	LogLevel  string
	Port      uint16 // 500
	NATTPort  uint16 // 4500
	// CookieThreshold is the number of half-open IKE SAs from which on COOKIE is demanded.
	CookieThreshold int
}

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
	PSK          alg.Secret
	PSKFile      string
	IKE          []wire.Proposal // in order of preference; each transform type may list several
	Start        Start
	Drop         bool // when_down = "drop"
	Encap        bool // encapsulation = "always": UDP even without NAT
	Children     []*Child
	Liveness     Liveness
	NATKeepalive time.Duration // 20 s; RFC 3948 section 4
}

// End is one side of a connection.
type End struct {
	Address netip.Addr // invalid: "%any" or a name
	Name    string     // DNS name of the peer, when Address is not given
	ID      auth.Identity
	Port    uint16 // remote UDP port, default 500
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
	Local, Remote []TS
	ESP           []wire.Proposal // without PFS groups in the first exchange; PFS lists the groups for CREATE_CHILD_SA
	PFS           []wire.GroupID
	Replay        uint32
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

// Problem is one thing wrong with a configuration.
type Problem struct {
	File    string
	Line    int
	Code    string // stable: "unknown-key", "wrong-type", "overlap", "never-matches", "secret-readable", ...
	Text    string // what was found and what was wanted
	Hint    string // what to change
	Warning bool   // does not refuse the configuration
}

// Parse reads all sources as one configuration. secret reads the file behind a psk. When any Problem is not a Warning the Snapshot is nil.
func Parse(sources []Source, secret func(path string) (alg.Secret, error)) (*Snapshot, []Problem) {
	panic("contract")
}

// ByName returns a connection or nil.
func (s *Snapshot) ByName(name string) *Connection { panic("contract") }

// Near returns names that resemble name, for "did you mean".
func (s *Snapshot) Near(name string) []string { panic("contract") }

// Candidates are the connections that an IKE_SA_INIT from remote to local may belong to, most specific addresses first.
func (s *Snapshot) Candidates(local, remote netip.Addr) []*Connection { panic("contract") }

// Mismatch is a negotiation that failed, in both sides' words.
type Mismatch struct {
	Notify wire.NotifyType
	Text   string // one sentence: what was found and what was wanted
	Ours   string
	Theirs string
	Hint   string // the line to change: "conn.d/site-b.toml:7: ike = ..."
}

func (m *Mismatch) Error() string { return m.Text }

// ForIdentities picks the connection of a responder: peer is the authenticated-to-be IDi, asked the IDr of the request or nil.
func ForIdentities(cands []*Connection, peer auth.Identity, asked *auth.Identity) (*Connection, *Mismatch) {
	panic("contract")
}

// ChooseIKE picks the responder's answer from offered: the first of ours in order of preference that they offer. The candidates' proposals are
// tried in order. The result has one transform per type and the number of their proposal; our.Group decides about INVALID_KE_PAYLOAD.
func ChooseIKE(cands []*Connection, offered []wire.Proposal) (wire.Proposal, suite.IKE, *Mismatch) {
	panic("contract")
}

// CheckIKE checks a responder's answer against what we offered (RFC 7296 section 3.3.6).
func CheckIKE(offered []wire.Proposal, answer []wire.Proposal) (suite.IKE, *Mismatch) {
	panic("contract")
}

// OfferIKE numbers the proposals of c for sending. OfferESP likewise for a child, with spi; pfs is false in IKE_AUTH. caps removes what the data plane lacks.
func OfferIKE(c *Connection) []wire.Proposal { panic("contract") }

func OfferESP(ch *Child, spi uint32, pfs bool, caps xfrm.Capabilities) []wire.Proposal {
	panic("contract")
}

// ESPChoice is a chosen ESP proposal.
type ESPChoice struct {
	Proposal wire.Proposal // one transform per type; SPI is the offerer's
	Suite    xfrm.Suite
	Group    wire.GroupID // 0: no PFS
	SPI      uint32       // the offerer's SPI
}

// ChooseESP is the responder's choice for a child; ke is the group of the KE payload that came, 0 when none.
func ChooseESP(ch *Child, offered []wire.Proposal, pfs bool, ke wire.GroupID, caps xfrm.Capabilities) (ESPChoice, *Mismatch) {
	panic("contract")
}

// CheckESP checks the answer of a responder.
func CheckESP(offered []wire.Proposal, answer []wire.Proposal) (ESPChoice, *Mismatch) {
	panic("contract")
}

// SuiteLens returns the octets of KEYMAT that each direction of s needs.
func SuiteLens(s xfrm.Suite) (encr, integ int) { panic("contract") }

// Narrow answers a request for a child as responder (RFC 7296 section 2.9): tsi and tsr are the peer's and ours as offered. It finds the child of c
// whose selectors meet the offer best and returns the intersection, never wider than either.
func Narrow(c *Connection, tsi, tsr []wire.TrafficSelector) (ch *Child, i, r []TS, m *Mismatch) {
	panic("contract")
}

// CheckNarrowed checks, as initiator, that the answer lies inside what ch offers (RFC 7296 section 2.9).
func CheckNarrowed(ch *Child, tsi, tsr []wire.TrafficSelector) (i, r []TS, m *Mismatch) {
	panic("contract")
}

// Selectors splits ranges into prefixes and pairs them: packets from src to dst.
func Selectors(src, dst []TS) []xfrm.Selector { panic("contract") }

// WireTS converts for a TSi or TSr payload.
func WireTS(ts []TS) []wire.TrafficSelector { panic("contract") }

// String is like "10.1.0.0/16" or "10.1.0.0-10.1.0.9 tcp/443".
func (t TS) String() string { panic("contract") }
