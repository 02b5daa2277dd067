// Package control is the control API: HTTP and JSON on a unix socket, version /v1/, with streamed progress. Types, client and server.
package control

import (
	"context"
	"io"
)

// DefaultSocket is where cygnetd listens.
const DefaultSocket = "/run/cygnet/control.sock"

// Line is one line of a stream (newline-delimited JSON).
type Line struct {
	Time       string `json:"time"` // RFC 3339 with milliseconds
	Connection string `json:"connection,omitempty"`
	Child      string `json:"child,omitempty"`
	Code       string `json:"code"` // stable vocabulary; "gap" when lines were lost
	Text       string `json:"text"`
	Detail     string `json:"detail,omitempty"`
	Hint       string `json:"hint,omitempty"`
	// Done ends a stream; OK says how.
	Done bool `json:"done,omitempty"`
	OK   bool `json:"ok,omitempty"`
}

// Failure is an error as the tool prints it and as JSON carries it.
type Failure struct {
	Code    string `json:"code"`
	Summary string `json:"summary"`
	Hint    string `json:"hint,omitempty"`
	Exit    int    `json:"-"` // 1 failed, 2 usage, 3 no daemon, 4 timeout
}

func (f *Failure) Error() string { return f.Summary }

// Status of the daemon.
type Status struct {
	Version     string            `json:"version"`
	Dataplane   string            `json:"dataplane"`     // "kernel" or "userspace"
	Why         string            `json:"dataplane_why"` // reason of the choice
	Connections []Connection      `json:"connections"`
	Counters    map[string]uint64 `json:"counters,omitempty"`
}

type Connection struct {
	Name    string  `json:"name"`
	State   string  `json:"state"` // "up", "connecting", "trap", "down"
	Wanted  string  `json:"wanted"`
	Start   string  `json:"start"`
	LastErr string  `json:"last_error,omitempty"`
	NextTry string  `json:"next_try,omitempty"` // "in 8s"
	IKE     []IKESA `json:"ike,omitempty"`
}

type IKESA struct {
	SPIi      string  `json:"spi_i"` // 16 hex digits
	SPIr      string  `json:"spi_r"`
	Phase     string  `json:"phase"`
	Initiator bool    `json:"initiator"`
	Local     string  `json:"local"` // address:port
	Remote    string  `json:"remote"`
	LocalID   string  `json:"local_id"`
	RemoteID  string  `json:"remote_id"`
	Suite     string  `json:"suite"`
	NAT       string  `json:"nat"` // "none", "local", "remote", "both"
	Seconds   int64   `json:"seconds"`
	Children  []Child `json:"children,omitempty"`
}

type Child struct {
	Name           string   `json:"name"`
	State          string   `json:"state"`
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
	Seconds        int64    `json:"seconds"`
}

// Backend is what the server calls; the daemon implements it. emit may be called from the goroutine of the call alone; it fails when the client is gone.
type Backend interface {
	Up(ctx context.Context, name, child string, emit func(Line) error) *Failure
	Down(ctx context.Context, name, child string, emit func(Line) error) *Failure
	Status(ctx context.Context) (*Status, *Failure)
	Monitor(ctx context.Context, emit func(Line) error) *Failure
	Reload(ctx context.Context, emit func(Line) error) *Failure
}

// Client talks to a daemon. All errors are *Failure.
type Client struct{ Socket string }

// Up streams progress to w-like callback until the connection is up or failed.
func (c *Client) Up(ctx context.Context, name, child string, line func(Line)) error {
	panic("contract")
}
func (c *Client) Down(ctx context.Context, name, child string, line func(Line)) error {
	panic("contract")
}
func (c *Client) Status(ctx context.Context) (*Status, error)        { panic("contract") }
func (c *Client) Monitor(ctx context.Context, line func(Line)) error { panic("contract") }

// Server serves a Backend on a unix socket of mode 0660. Root may change; group members may look.
type Server struct{}

func Listen(socket string, b Backend) (*Server, error) { panic("contract") }
func (s *Server) Serve() error                         { panic("contract") }
func (s *Server) Close() error                         { panic("contract") }

var _ io.Reader
