package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"cygnet/ike/control"
	"cygnet/ike/transport"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// memory is a data plane that only remembers. refuse makes an op fail.
type memory struct {
	mu       sync.Mutex
	sas      map[xfrm.SAID]xfrm.SA
	policies map[xfrm.Slot]xfrm.Policy
	usage    map[xfrm.SAID]xfrm.Usage
	applied  []string // in order
	events   chan xfrm.Event
	refuse   func(xfrm.Op) error
}

func newMemory() *memory {
	return &memory{
		sas: make(map[xfrm.SAID]xfrm.SA), policies: make(map[xfrm.Slot]xfrm.Policy), usage: make(map[xfrm.SAID]xfrm.Usage),
		events: make(chan xfrm.Event, 16), refuse: func(xfrm.Op) error { return nil },
	}
}

func (m *memory) Capabilities() xfrm.Capabilities {
	c := xfrm.Capabilities{Name: "memory", Encr: map[alg.Encr]bool{}, Integ: map[alg.Integ]bool{}, ESN: true, PlainESP: true, NATT: true}
	for _, a := range alg.Ciphers() {
		c.Encr[a.ID] = true
	}
	for _, a := range alg.MACs() {
		c.Integ[a.ID] = true
	}
	return c
}

func (m *memory) Apply(_ context.Context, ops []xfrm.Op) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, op := range ops {
		if err := m.refuse(op); err != nil {
			return &xfrm.OpError{Index: i, Op: op, Err: err}
		}
		m.applied = append(m.applied, xfrm.OpName(op))
		switch o := op.(type) {
		case xfrm.AddSA:
			if _, taken := m.sas[o.SA.ID]; taken {
				return &xfrm.OpError{Index: i, Op: op, Err: xfrm.ErrExists}
			}
			m.sas[o.SA.ID] = o.SA
		case xfrm.RemoveSA:
			delete(m.sas, o.ID)
		case xfrm.PutPolicy:
			m.policies[o.Policy.Slot] = o.Policy
		case xfrm.RemovePolicy:
			delete(m.policies, o.Slot)
		}
	}
	return nil
}

func (m *memory) Usage(_ context.Context, id xfrm.SAID) (xfrm.Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.sas[id]; !ok {
		return xfrm.Usage{}, errors.New("no such SA")
	}
	return m.usage[id], nil
}

func (m *memory) UsageAll(_ context.Context, yield func(xfrm.SAID, xfrm.Usage) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.sas {
		if !yield(id, m.usage[id]) {
			break
		}
	}
	return nil
}

func (m *memory) Dump(context.Context) (s xfrm.State, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, sa := range m.sas {
		s.SAs = append(s.SAs, sa)
	}
	for _, p := range m.policies {
		s.Policies = append(s.Policies, p)
	}
	return s, nil
}

func (m *memory) Events() <-chan xfrm.Event { return m.events }
func (m *memory) Close() error              { return nil }

// count says what is installed: SAs, and policies of each action.
func (m *memory) count() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := map[xfrm.PolicyAction]int{}
	for _, p := range m.policies {
		n[p.Action]++
	}
	return fmt.Sprintf("%d SAs, %d protect, %d block", len(m.sas), n[xfrm.Protect], n[xfrm.Block])
}

func (m *memory) set(f func()) { m.mu.Lock(); defer m.mu.Unlock(); f() }

// node is a daemon of a test, with its data plane, log and control client.
type node struct {
	t      *testing.T
	dir    string
	plane  *memory
	client *control.Client
	log    *syncBuffer
	cancel context.CancelFunc
	ended  chan error
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
`, s.name, s.peer, s.peerPort, s.start, s.local, s.remote, s.address, s.peerAddress)
}

const thePSK = "seventeen swans over the quiet lake 4711"

// pair makes the two sides of a tunnel over loopback.
func pair(t *testing.T) (a, b side) {
	p := freePorts(t, 4)
	a = side{"a", "b", "127.0.0.1", "127.0.0.2", p[0], p[1], p[3], "10.1.0.0/16", "10.2.0.0/16", "manual", thePSK}
	b = side{"b", "a", "127.0.0.2", "127.0.0.1", p[2], p[3], p[1], "10.2.0.0/16", "10.1.0.0/16", "manual", thePSK}
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
func launch(t *testing.T, s side, plane *memory) *node {
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
			Driver: plane, caps: plane.Capabilities(), receive: func(*xfrm.Burst) {}, send: func(*transport.Transport) {},
			sweep: func(context.Context) error { return nil }, close: plane.Close,
		}, nil
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
		if !strings.Contains(text, "cygnetd ready: 1 connection, data plane memory") {
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
	if n.cancel == nil {
		return
	}
	n.cancel()
	n.cancel = nil
	select {
	case err := <-n.ended:
		if err != nil {
			n.t.Errorf("Run: %v", err)
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

func (n *node) wantCount(want string) {
	n.t.Helper()
	waitFor(n.t, want, func() bool { return n.plane.count() == want })
}

// TestUpDown is the main way: up says each step, both sides then hold mirrored SAs, and nothing is left after down.
func TestUpDown(t *testing.T) {
	sa, sb := pair(t)
	b := launch(t, sb, newMemory())
	a := launch(t, sa, newMemory())

	text, f := a.up("b")
	if f != nil {
		t.Fatalf("up: %s (%s)\n%s", f.Summary, f.Hint, text)
	}
	for _, want := range []string{"IKE_SA_INIT sent to 127.0.0.2", "peer chose ", "peer proved b.example (PSK)", "up in ", "10.1.0.0/16 <-> 10.2.0.0/16, ESP ", ", memory"} {
		if !strings.Contains(text, want) {
			t.Errorf("up does not say %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "\n"); n != 4 {
		t.Errorf("%d lines, want 4:\n%s", n, text)
	}
	b.await("B up", isUp)
	x, y := a.status().IKE[0], b.status().IKE[0]
	if x.SPIi != y.SPIi || x.SPIr != y.SPIr || !x.Initiator || y.Initiator {
		t.Errorf("IKE SAs differ: %+v %+v", x, y)
	}
	cx, cy := x.Children[0], y.Children[0]
	if cx.SPIIn != cy.SPIOut || cx.SPIOut != cy.SPIIn || !slices.Equal(cx.Local, cy.Remote) || cx.Suite != cy.Suite {
		t.Errorf("children differ: %+v %+v", cx, cy)
	}
	sameKeys(t, a.plane, b.plane)

	if text, f := a.up("b"); f != nil || !strings.HasPrefix(text, "is up already: 10.1.0.0/16") {
		t.Errorf("second up: %v %s", f, text)
	}
	if text, f := a.down("b"); f != nil || !strings.HasPrefix(text, "down") && !strings.Contains(text, "\ndown") {
		t.Errorf("down: %v %s", f, text)
	}
	if got := a.plane.count(); got != "0 SAs, 0 protect, 0 block" {
		t.Errorf("left at A after down: %s", got)
	}
	b.wantCount("0 SAs, 0 protect, 0 block")
	b.await("B down", isDown)
	if text, f := a.down("b"); f != nil || !strings.HasPrefix(text, "is down already") {
		t.Errorf("second down: %v %s", f, text)
	}
}

// sameKeys: each SA of one side is at the other too, with the same keys.
func sameKeys(t *testing.T, a, b *memory) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(a.sas) != 2 || len(b.sas) != 2 {
		t.Fatalf("%d and %d SAs, want 2 each", len(a.sas), len(b.sas))
	}
	for id, x := range a.sas {
		y, ok := b.sas[id]
		if !ok {
			t.Errorf("%s is at one side only", id)
			continue
		}
		if x.Direction == y.Direction || x.Suite != y.Suite {
			t.Errorf("%s: %v %v and %v %v", id, x.Direction, x.Suite, y.Direction, y.Suite)
		}
	}
}

func TestWrongPSK(t *testing.T) {
	sa, sb := pair(t)
	sb.psk = "another secret, not the same 4712"
	b := launch(t, sb, newMemory())
	a := launch(t, sa, newMemory())
	text, f := a.up("b")
	if f == nil || f.Exit != 1 || f.Code != "auth-failed" || !strings.Contains(f.Summary, "AUTHENTICATION_FAILED") {
		t.Fatalf("failure %+v\n%s", f, text)
	}
	if !strings.Contains(f.Hint, "conn.d/b.toml:") {
		t.Errorf("no line to change in the hint: %s", f.Hint)
	}
	if got := a.plane.count() + "; " + b.plane.count(); got != "0 SAs, 0 protect, 0 block; 0 SAs, 0 protect, 0 block" {
		t.Errorf("left: %s", got)
	}
	if a.status().LastErr == "" {
		t.Error("status does not say what went wrong")
	}
}

// TestNoAnswer: a peer that is not there is named when the time is over, and the daemon goes on.
func TestNoAnswer(t *testing.T) {
	sa, _ := pair(t)
	a := launch(t, sa, newMemory())
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	err := a.client.Up(ctx, "b", "", func(control.Line) {})
	var f *control.Failure
	if !errors.As(err, &f) || f.Exit != control.ExitTimeout || !strings.Contains(f.Summary, fmt.Sprintf("no answer from 127.0.0.2:%d", sa.peerPort)) {
		t.Fatalf("got %v", err)
	}
	if c := a.status(); c.State != "connecting" || c.Wanted != "up" {
		t.Errorf("the wait that ended took the tunnel with it: %+v", c)
	}
}

func TestUnknownNames(t *testing.T) {
	sa, _ := pair(t)
	a := launch(t, sa, newMemory())
	if _, f := a.up("bb"); f == nil || f.Code != control.CodeUnknownConnection || !strings.Contains(f.Hint, "did you mean b?") {
		t.Errorf("got %+v", f)
	}
	err := a.client.Up(deadline(t), "b", "wan", func(control.Line) {})
	var f *control.Failure
	if !errors.As(err, &f) || f.Code != control.CodeUnknownChild || !strings.Contains(f.Hint, "lan") {
		t.Errorf("got %v", err)
	}
}

// TestDataplaneRefuses: the failure is told, and the part that was done is undone.
func TestDataplaneRefuses(t *testing.T) {
	sa, sb := pair(t)
	launch(t, sb, newMemory())
	plane := newMemory()
	plane.refuse = func(op xfrm.Op) error {
		if o, ok := op.(xfrm.PutPolicy); ok && o.Policy.Slot.Direction == xfrm.Out {
			return errors.New("no room for policies")
		}
		return nil
	}
	a := launch(t, sa, plane)
	text, f := a.up("b")
	if f == nil || f.Code != "dataplane" || !strings.Contains(f.Summary, "no room for policies") {
		t.Fatalf("failure %+v\n%s", f, text)
	}
	a.wantCount("0 SAs, 0 protect, 0 block")
}

// TestStopFailsClosed: what a boot connection protects stays blocked when the daemon stops, SAs go, and the peer is told.
func TestStopFailsClosed(t *testing.T) {
	sa, sb := pair(t)
	sa.start = "boot"
	b := launch(t, sb, newMemory())
	plane := newMemory()
	a := launch(t, sa, plane)
	a.await("boot connection up", isUp)
	b.await("B up", isUp)
	a.stop()
	if got := plane.count(); got != "0 SAs, 0 protect, 2 block" {
		t.Errorf("after stop: %s", got)
	}
	b.await("the peer knows", isDown)
	b.wantCount("0 SAs, 0 protect, 0 block")

	// The next start finds the blocks and never removes them: from one second to the next the selector has a policy.
	plane.set(func() { plane.applied = nil })
	a = launch(t, sa, plane)
	a.await("up again", isUp)
	plane.set(func() {
		for _, op := range plane.applied {
			if strings.HasPrefix(op, "remove policy") {
				t.Errorf("at the start: %s", op)
			}
		}
	})
}

// TestStaleStateGoes: SAs of ours that a killed process left are removed at the start.
func TestStaleStateGoes(t *testing.T) {
	sa, sb := pair(t)
	sa.start = "boot"
	b := launch(t, sb, newMemory())
	first := newMemory()
	a := launch(t, sa, first)
	a.await("up", isUp)
	left := newMemory() // what SIGKILL would leave
	first.set(func() {
		for id, s := range first.sas {
			left.sas[id] = s
		}
		for slot, p := range first.policies {
			left.policies[slot] = p
		}
	})
	a.stop()
	b.await("down at B", isDown)
	old := left.sas
	a = launch(t, sa, left)
	a.await("up again", isUp)
	left.set(func() {
		n := 0
		for id := range left.sas {
			if _, stale := old[id]; stale {
				n++
			}
		}
		if len(left.sas) != 2 {
			t.Errorf("%d SAs, want the 2 new ones", len(left.sas))
		}
	})
}

// TestAcquire: a packet for a trap brings the child up.
func TestAcquire(t *testing.T) {
	sa, sb := pair(t)
	sa.start = "traffic"
	launch(t, sb, newMemory())
	plane := newMemory()
	a := launch(t, sa, plane)
	if c := a.status(); c.State != "trap" {
		t.Fatalf("state %s, want trap", c.State)
	}
	var trap xfrm.Policy
	plane.set(func() {
		for _, p := range plane.policies {
			if p.Action == xfrm.Protect {
				trap = p
			}
		}
	})
	if trap.Template.ReqID == 0 {
		t.Fatalf("no trap among %s", plane.count())
	}
	plane.events <- xfrm.Acquire{ReqID: trap.Template.ReqID, Selector: trap.Slot.Selector}
	a.await("up by a packet", isUp)
}

// TestGap: an SA that vanished from the data plane ends its machine, and the wanted connection comes up anew.
func TestGap(t *testing.T) {
	sa, sb := pair(t)
	sa.start = "boot"
	launch(t, sb, newMemory())
	plane := newMemory()
	a := launch(t, sa, plane)
	a.await("up", isUp)
	before := a.status().IKE[0].Children[0].SPIIn
	plane.set(func() { clear(plane.sas) })
	plane.events <- xfrm.Gap{}
	a.await("up with a new SA", func(c control.Connection) bool {
		return isUp(c) && len(c.IKE) == 1 && len(c.IKE[0].Children) == 1 && c.IKE[0].Children[0].SPIIn != before
	})
}

func TestReload(t *testing.T) {
	sa, sb := pair(t)
	launch(t, sb, newMemory())
	a := launch(t, sa, newMemory())
	if text, f := a.reload(); f != nil || !strings.Contains(text, "nothing changed") {
		t.Errorf("%v %s", f, text)
	}
	// A mistake changes nothing and is told with its line.
	path := filepath.Join(a.dir, "conn.d/b.toml")
	if err := os.WriteFile(path, []byte(strings.Replace(sa.config(), "start", "strat", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, f := a.reload(); f == nil || f.Code != "configuration" || !strings.Contains(text, "conn.d/b.toml:5: ") {
		t.Errorf("%v %s", f, text)
	}
	if _, f := a.up("b"); f != nil {
		t.Errorf("the old configuration is gone: %v", f)
	}
	// A change that starts a connection.
	a.down("b")
	sa.start = "boot"
	write(t, a.dir, sa)
	if text, f := a.reload(); f != nil || !strings.Contains(text, "changed: b") {
		t.Errorf("%v %s", f, text)
	}
	// A connection that goes takes its SAs and policies with it.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if text, f := a.reload(); f != nil || !strings.Contains(text, "removed: b") {
		t.Errorf("%v %s", f, text)
	}
	a.wantCount("0 SAs, 0 protect, 0 block")
}

// TestMonitor sees what another client does.
func TestMonitor(t *testing.T) {
	sa, sb := pair(t)
	launch(t, sb, newMemory())
	a := launch(t, sa, newMemory())
	ctx, cancel := context.WithCancel(deadline(t))
	seen := make(chan string, 64)
	over := make(chan error, 1)
	go func() { over <- a.client.Monitor(ctx, func(l control.Line) { seen <- l.Code }) }()
	var codes []string
	for !slices.Contains(codes, "child-up") {
		if len(codes) == 0 { // until the monitor is surely there
			a.down("b")
			a.up("b")
		}
		select {
		case c := <-seen:
			codes = append(codes, c)
		case <-time.After(50 * time.Millisecond):
			if ctx.Err() != nil {
				t.Fatalf("saw only %v", codes)
			}
		}
	}
	cancel()
	<-over
}

// TestSecondDaemon is refused before it touches the data plane.
func TestSecondDaemon(t *testing.T) {
	sa, _ := pair(t)
	a := launch(t, sa, newMemory())
	log := logrus.New()
	log.SetOutput(a.log)
	d, _ := New(Config{ConfigDir: a.dir, Socket: a.client.Socket, Log: log})
	d.choose = func(context.Context, string, Config) (*dataplane, error) {
		t.Error("the second daemon opened a data plane")
		return nil, errors.New("no")
	}
	if err := d.Run(deadline(t)); err == nil || !strings.Contains(err.Error(), "is running") {
		t.Errorf("got %v", err)
	}
}
