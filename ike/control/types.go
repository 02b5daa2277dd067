// Package control is the control API of cygnetd: HTTP and JSON on a unix socket, version /v1/, with streamed progress
// as newline-delimited JSON. It holds the types, the client and the server, and knows nothing of IKE: the daemon stands behind Backend.
//
// Who may do what: the kernel lets only root and the socket's groups connect (mode 0660 and an access control list). Of those, root, the user
// that runs cygnetd and the members of AdminGroup may change; the others may look.
package control

import "context"

// DefaultSocket is where cygnetd listens.
const DefaultSocket = "/run/cygnet/control.sock"

// Groups of the host, where it has them: the socket is given to both.
const (
	Group      = "cygnet"       // its members may look
	AdminGroup = "cygnet-admin" // its members may look and change
)

// Line is one line of a stream.
type Line struct {
	Time       string `json:"time"` // RFC 3339 with milliseconds; the server fills it when empty
	Connection string `json:"connection,omitempty"`
	Child      string `json:"child,omitempty"`
	SPI        string `json:"spi,omitempty"` // of the IKE SA here that it is about: the one of spi_i and spi_r that is ours
	Code       string `json:"code"`          // stable vocabulary; CodeGap when lines were lost
	Text       string `json:"text"`
	Detail     string `json:"detail,omitempty"`
	Hint       string `json:"hint,omitempty"`
	Level      string `json:"level,omitempty"` // "detail": of interest with -v; "error"; else empty
	// Done ends a stream; OK says how.
	Done bool `json:"done,omitempty"`
	OK   bool `json:"ok,omitempty"`
}

// Levels of a Line.
const (
	LevelDetail = "detail"
	LevelError  = "error"
)

// Status of the daemon.
type Status struct {
	Version     string            `json:"version"`
	Dataplane   string            `json:"dataplane"`        // "kernel" or "userspace"
	Why         string            `json:"dataplane_why"`    // reason of the choice
	Config      string            `json:"config,omitempty"` // how the configuration on disk differs from the one in force
	Connections []Connection      `json:"connections"`
	Counters    map[string]uint64 `json:"counters,omitempty"`
}

// Connection is one configured connection.
type Connection struct {
	Name     string   `json:"name"`
	State    string   `json:"state"`  // "up", "connecting", "trap", "down"
	Wanted   string   `json:"wanted"` // "up", "trap", "down"
	Start    string   `json:"start"`  // "boot", "traffic", "manual"
	Peer     string   `json:"peer,omitempty"`
	WhenDown string   `json:"when_down,omitempty"` // "drop" or "pass"
	Missing  []string `json:"missing,omitempty"`   // children of the configuration that are not up
	LastErr  string   `json:"last_error,omitempty"`
	ErrAge   int64    `json:"last_error_seconds,omitempty"` // since it
	NextTry  string   `json:"next_try,omitempty"`           // "in 8s"
	LastEnd  string   `json:"last_end,omitempty"`           // of a connection that is down: how it ended, when that was no failure
	IKE      []IKESA  `json:"ike,omitempty"`
	// Traffic of all Child SAs since the daemon began, those that are gone included.
	Traffic Traffic `json:"traffic,omitzero"`
	// NotUp are those of Missing that have an error or are tried again, when there is an IKE SA.
	NotUp   []ChildDown     `json:"not_up,omitempty"`
	Refused []RefusedCaller `json:"refused,omitempty"` // the last one
	// RefusedChild is the last request of the peer for a child that was refused, while one is missing.
	RefusedChild []RefusedCaller `json:"refused_child,omitempty"`
	// Closed: it was taken down here, and the peer is refused until it is brought up.
	Closed bool `json:"closed,omitempty"`
}

// Traffic that Child SAs carried.
type Traffic struct {
	BytesIn    uint64 `json:"bytes_in"`
	BytesOut   uint64 `json:"bytes_out"`
	PacketsIn  uint64 `json:"packets_in"`
	PacketsOut uint64 `json:"packets_out"`
}

// ChildDown is a child that is not up.
type ChildDown struct {
	Name    string `json:"name"`
	LastErr string `json:"last_error,omitempty"`
	ErrAge  int64  `json:"last_error_seconds,omitempty"` // since it
	NextTry string `json:"next_try,omitempty"`           // "in 8s"
}

// RefusedCaller wanted to be the peer of a connection, or as the peer asked for what it cannot have.
type RefusedCaller struct {
	Seconds int64  `json:"seconds"` // ago
	Text    string `json:"text"`    // who, and why it was refused
}

// IKESA is one IKE SA of a connection.
type IKESA struct {
	SPIi      string `json:"spi_i"` // 16 hex digits
	SPIr      string `json:"spi_r"`
	Phase     string `json:"phase"` // "opening", "authenticating", "established", "closing"
	Initiator bool   `json:"initiator"`
	Local     string `json:"local"` // address:port
	Remote    string `json:"remote"`
	LocalID   string `json:"local_id"`
	RemoteID  string `json:"remote_id"`
	Proof     string `json:"proof,omitempty"` // how the peer proved RemoteID: "PSK", or its certificate or key and the signature
	Suite     string `json:"suite"`
	NAT       string `json:"nat"` // "none", "local", "remote", "both"; "unknown": at the peer, or it only asks for ESP in UDP
	// Fragmentation of IKE messages (RFC 7383): "none": not agreed; "agreed"; "used": a message went or came in fragments. FragmentSize is the largest
	// IP datagram in octets that cygnet makes of a message.
	Fragmentation string  `json:"fragmentation,omitempty"`
	FragmentSize  int     `json:"fragment_size,omitempty"`
	MOBIKE        bool    `json:"mobike,omitempty"` // RFC 4555: the tunnel goes along when an address changes
	Seconds       int64   `json:"seconds"`
	Sent          int     `json:"sent,omitempty"`      // a request waits for its answer and was sent so often
	Tries         int     `json:"tries,omitempty"`     // so often it is sent at most
	RekeyIn       int64   `json:"rekey_in,omitempty"`  // seconds until this side renews the keys; 0: it does not
	ReauthIn      int64   `json:"reauth_in,omitempty"` // seconds until this side authenticates anew; 0: it does not
	Children      []Child `json:"children,omitempty"`
}

// Child is one Child SA pair.
type Child struct {
	Name           string   `json:"name"`
	State          string   `json:"state"`  // "up" or "opening"
	SPIIn          string   `json:"spi_in"` // 8 hex digits
	SPIOut         string   `json:"spi_out"`
	Suite          string   `json:"suite"`
	Encap          string   `json:"encap"` // "none" or "udp"
	Local          []string `json:"local"`
	Remote         []string `json:"remote"`
	BytesIn        uint64   `json:"bytes_in"`
	BytesOut       uint64   `json:"bytes_out"`
	PacketsIn      uint64   `json:"packets_in"`
	PacketsOut     uint64   `json:"packets_out"`
	ReplayDrops    uint64   `json:"replay_drops"`
	IntegrityDrops uint64   `json:"integrity_drops"`
	LastIn         int64    `json:"last_in"` // seconds since the last packet came in; -1: none has
	Seconds        int64    `json:"seconds"`
	RekeyIn        int64    `json:"rekey_in,omitempty"`   // seconds until this side renews the keys, if no limit of octets comes first; 0: it does not
	LastErr        string   `json:"last_error,omitempty"` // of the last rekey
}

// Backend is what the server calls; the daemon implements it. Its methods run concurrently, each in a goroutine of its client.
// emit may be called from the goroutine of the call alone, never blocks, and fails when the client is gone. ctx ends when the client goes away
// (that must not undo what was asked) and when it has waited as long as it wants to (DeadlineExceeded: the Failure then says how far it came).
type Backend interface {
	Up(ctx context.Context, name, child string, emit func(Line) error) *Failure
	Down(ctx context.Context, name, child string, emit func(Line) error) *Failure
	// Rekey replaces the keys of the children (of the one named), or with ike those of the IKE SA.
	Rekey(ctx context.Context, name, child string, ike bool, emit func(Line) error) *Failure
	Status(ctx context.Context) (*Status, *Failure)
	Monitor(ctx context.Context, emit func(Line) error) *Failure
	Reload(ctx context.Context, emit func(Line) error) *Failure
}

// target is the body of the requests that name a connection.
type target struct {
	Connection string `json:"connection"`
	Child      string `json:"child,omitempty"`
	IKE        bool   `json:"ike,omitempty"`        // of rekey: the IKE SA, not its children
	Timeout    int64  `json:"timeout_ms,omitempty"` // how long the client waits: the daemon then says how far it came
}
