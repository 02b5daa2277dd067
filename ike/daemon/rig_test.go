package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"cygnet/ike/control"
	"cygnet/ike/transport"
	"cygnet/xfrm"
	"cygnet/xfrm/doctor"
	"cygnet/xfrm/xfrmfake"
)

// node is a daemon of a test, with its data plane, log and control client.
type node struct {
	t      *testing.T
	dir    string
	plane  *xfrmfake.Driver
	client *control.Client
	log    *syncBuffer
	cancel context.CancelFunc
	ended  chan error

	peerGone bool // no confirmation is expected when it stops
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}
func (s *syncBuffer) String() string { s.mu.Lock(); defer s.mu.Unlock(); return s.b.String() }

// side is what differs between the two ends of a tunnel.
type side struct {
	name, peer                string
	address, peerAddress      string
	port, natt, peerPort      int // peerPort: an odd remote port is taken for one of NAT traversal
	local, remote, start, psk string
	more                      string // further connections
}

func (s side) config() string {
	return fmt.Sprintf(`[connection.%[2]s]
local  = { address = "%[7]s", id = "%[1]s.example" }
remote = { address = "%[8]s", id = "%[2]s.example", port = %[3]d }
psk    = { file = "secrets/psk" }
start  = "%[4]s"

[connection.%[2]s.child.lan]
local  = ["%[5]s"]
remote = ["%[6]s"]
`, s.name, s.peer, s.peerPort, s.start, s.local, s.remote, s.address, s.peerAddress) + s.more
}

const thePSK = "seventeen swans over the quiet lake 4711"

// pair makes the two sides of a tunnel over loopback.
func pair(t *testing.T) (a, b side) {
	p := freePorts(t, 4)
	a = side{"a", "b", "127.0.0.1", "127.0.0.2", p[0], p[1], p[3], "10.1.0.0/16", "10.2.0.0/16", "manual", thePSK, ""}
	b = side{"b", "a", "127.0.0.2", "127.0.0.1", p[2], p[3], p[1], "10.2.0.0/16", "10.1.0.0/16", "manual", thePSK, ""}
	return a, b
}

func freePorts(t *testing.T, n int) (ports []int) {
	for range n {
		c, err := net.ListenUDP("udp", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ports = append(ports, c.LocalAddr().(*net.UDPAddr).Port)
	}
	return ports
}

// write puts the configuration of a side into dir.
func write(t *testing.T, dir string, s side) {
	t.Helper()
	for name, content := range map[string]string{
		"cygnet.toml":                fmt.Sprintf("[daemon]\nport = %d\nnatt_port = %d\n", s.port, s.natt),
		"conn.d/" + s.peer + ".toml": s.config(),
		"secrets/psk":                s.psk + "\n",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// launch starts a daemon and waits until it is ready. It is stopped with the test, if not before.
func launch(t *testing.T, s side, plane *xfrmfake.Driver, tune ...func(*Daemon)) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), plane: plane, log: &syncBuffer{}, ended: make(chan error, 1)}
	write(t, n.dir, s)
	n.client = &control.Client{Socket: filepath.Join(n.dir, "s")}
	log := logrus.New()
	log.SetOutput(n.log)
	log.SetLevel(logrus.DebugLevel)
	ready := make(chan string, 1)
	d, problems := New(Config{ConfigDir: n.dir, Socket: n.client.Socket, Version: "test", Log: log, FixedLogLevel: true, Ready: func(s string) { ready <- s }})
	if d == nil {
		t.Fatal(problems)
	}
	d.choose = func(context.Context, string, Config) (*dataplane, error) {
		return &dataplane{
			Driver: plane, caps: plane.Capabilities(), receive: func() func(*xfrm.Burst) { return func(*xfrm.Burst) {} }, send: func(*transport.Transport) {},
			sweep: func(context.Context) error { return nil }, close: plane.Close,
		}, nil
	}
	d.host = doctor.Host{Has: func(netip.Addr) bool { return true }, Forwards: func(bool) bool { return true }}
	for _, f := range tune {
		f(d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel = cancel
	go func() { n.ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		n.stop()
		if t.Failed() {
			t.Logf("log of %s:\n%s", s.name, n.log)
		}
		if strings.Contains(n.log.String(), thePSK) {
			t.Error("the secret is in the log")
		}
	})
	select {
	case text := <-ready:
		if !strings.Contains(text, "data plane fake (tests)") {
			t.Errorf("ready: %s", text)
		}
	case err := <-n.ended:
		n.ended <- err
		t.Fatalf("%s ended: %v", s.name, err)
	case <-time.After(10 * time.Second):
		t.Fatal("not ready in 10 s")
	}
	return n
}

// stop ends the daemon as SIGTERM does.
func (n *node) stop() {
	n.t.Helper()
	if n.cancel == nil {
		return
	}
	for _, f := range n.plane.Faults() {
		n.t.Errorf("the data plane was asked for what is wrong: %s", f)
	}
	start := time.Now()
	n.cancel()
	n.cancel = nil
	select {
	case err := <-n.ended:
		if err != nil {
			n.t.Errorf("Run: %v", err)
		}
		if strings.Contains(n.log.String(), "not all peers have confirmed") && !n.peerGone {
			n.t.Errorf("stopping took %s although the peer answers", time.Since(start))
		}
	case <-time.After(10 * time.Second):
		n.t.Error("not stopped in 10 s")
	}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// up is ikectl up: the lines, one under the other, and the failure.
func (n *node) up(name string) (string, *control.Failure) {
	return n.stream(func(line func(control.Line)) error { return n.client.Up(deadline(n.t), name, "", line) })
}

func (n *node) down(name string) (string, *control.Failure) {
	return n.stream(func(line func(control.Line)) error { return n.client.Down(deadline(n.t), name, "", line) })
}

func (n *node) reload() (string, *control.Failure) {
	return n.stream(func(line func(control.Line)) error { return n.client.Reload(deadline(n.t), line) })
}

func (n *node) stream(do func(func(control.Line)) error) (text string, f *control.Failure) {
	n.t.Helper()
	err := do(func(l control.Line) {
		if l.Level != control.LevelDetail {
			text += l.Text + "\n"
		}
	})
	if err != nil && !errors.As(err, &f) {
		n.t.Fatal(err)
	}
	return text, f
}

func (n *node) status() control.Connection {
	n.t.Helper()
	st, err := n.client.Status(deadline(n.t))
	if err != nil {
		n.t.Fatal(err)
	}
	if len(st.Connections) != 1 {
		n.t.Fatalf("%d connections", len(st.Connections))
	}
	return st.Connections[0]
}

// await waits for a state of the connection.
func (n *node) await(what string, ok func(control.Connection) bool) {
	n.t.Helper()
	waitFor(n.t, what, func() bool { return ok(n.status()) })
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not in 10 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func isUp(c control.Connection) bool   { return c.State == "up" && len(c.Missing) == 0 }
func isDown(c control.Connection) bool { return c.State == "down" }

// installed counts what a data plane holds.
func installed(d *xfrmfake.Driver) string {
	s, _ := d.Dump(context.Background())
	n := map[xfrm.PolicyAction]int{}
	for _, p := range s.Policies {
		n[p.Action]++
	}
	return fmt.Sprintf("%d SAs, %d protect, %d block", len(s.SAs), n[xfrm.Protect], n[xfrm.Block])
}

func (n *node) wantInstalled(want string) {
	n.t.Helper()
	waitFor(n.t, want, func() bool { return installed(n.plane) == want })
}

const nothing = "0 SAs, 0 protect, 0 block"

// toB is a packet from A's LAN to B's.
var toB = xfrmfake.Packet{Src: netip.MustParseAddr("10.1.0.5"), Dst: netip.MustParseAddr("10.2.0.5"), Proto: 17, SrcPort: 1000, DstPort: 2000, Octets: 100}
