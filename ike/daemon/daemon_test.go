package daemon

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"cygnet/ike/control"
	"cygnet/xfrm"
	"cygnet/xfrm/xfrmfake"
)

// TestUpDown is the main way: up says each step, both sides then hold mirrored SAs, and nothing is left after down.
func TestUpDown(t *testing.T) {
	sa, sb := pair(t)
	b := launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())

	text, f := a.up("b")
	if f != nil {
		t.Fatalf("up: %s (%s)\n%s", f.Summary, f.Hint, text)
	}
	for _, want := range []string{"IKE_SA_INIT sent to 127.0.0.2", "peer chose ", "peer proved b.example (PSK)", "up in ", "10.1.0.0/16 <-> 10.2.0.0/16, ESP ", ", fake"} {
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
	if text, f := b.up("a"); f != nil || !strings.HasPrefix(text, "is up already: 10.2.0.0/16") {
		t.Errorf("up of what the peer has brought up: %v %s", f, text)
	}
	b.await("wanted at B too", func(c control.Connection) bool { return c.Wanted == "up" && isUp(c) })
	b.down("a")
	a.await("A has heard", func(c control.Connection) bool { return !isUp(c) })
	_, f = a.up("b")
	if f == nil || f.Code != "auth-failed" || !strings.Contains(f.Hint, "or that the connection was taken down there") {
		t.Errorf("up of what is down at the other end: %+v", f)
	}
	if text, f := b.up("a"); f != nil {
		t.Fatalf("up again: %v %s", f, text)
	}
	b.await("B up again", isUp)
	if text, f := a.down("b"); f != nil || !strings.HasPrefix(text, "down") && !strings.Contains(text, "\ndown") {
		t.Errorf("down: %v %s", f, text)
	}
	if got := installed(a.plane); got != nothing {
		t.Errorf("left at A after down: %s", got)
	}
	b.down("a") // it was wanted there too, and tried on
	b.wantInstalled(nothing)
	b.await("B down", isDown)
	if text, f := a.down("b"); f != nil || !strings.HasPrefix(text, "is down already") {
		t.Errorf("second down: %v %s", f, text)
	}
}

// sameKeys: each SA of one side is at the other too, with the same keys.
func sameKeys(t *testing.T, a, b *xfrmfake.Driver) {
	t.Helper()
	s, _ := a.Dump(context.Background())
	if len(s.SAs) != 2 {
		t.Fatalf("%d SAs, want 2", len(s.SAs))
	}
	for _, x := range s.SAs {
		mine, _ := a.Keys(x.ID)
		if theirs, ok := b.Keys(x.ID); !ok || mine != theirs {
			t.Errorf("%s: keys differ, or the peer has none (%v)", x.ID, ok)
		}
	}
}

func TestWrongPSK(t *testing.T) {
	sa, sb := pair(t)
	sb.psk = "another secret, not the same 4712"
	b := launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
	text, f := a.up("b")
	if f == nil || f.Exit != 1 || f.Code != "auth-failed" || !strings.Contains(f.Summary, "AUTHENTICATION_FAILED") {
		t.Fatalf("failure %+v\n%s", f, text)
	}
	if !strings.Contains(f.Hint, "conn.d/b.toml:") {
		t.Errorf("no line to change in the hint: %s", f.Hint)
	}
	if got := installed(a.plane) + "; " + installed(b.plane); got != "0 SAs, 0 protect, 0 block; 0 SAs, 0 protect, 0 block" {
		t.Errorf("left: %s", got)
	}
	if a.status().LastErr == "" {
		t.Error("status does not say what went wrong")
	}
}

// TestNoAnswer: a peer that is not there is named when the time is over, and the daemon goes on.
func TestNoAnswer(t *testing.T) {
	sa, _ := pair(t)
	a := launch(t, sa, xfrmfake.New())
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
	a := launch(t, sa, xfrmfake.New())
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
	launch(t, sb, xfrmfake.New())
	plane := xfrmfake.New()
	plane.Fail(1, errors.New("no room for policies"), func(op xfrm.Op) bool {
		o, ok := op.(xfrm.PutPolicy)
		return ok && o.Policy.Slot.Direction == xfrm.Out
	})
	a := launch(t, sa, plane)
	text, f := a.up("b")
	if f == nil || f.Code != "dataplane" || !strings.Contains(f.Summary, "no room for policies") {
		t.Fatalf("failure %+v\n%s", f, text)
	}
	waitFor(t, "all of the failed child gone, or a second attempt up", func() bool {
		s := installed(plane)
		return s == nothing || s == "2 SAs, 2 protect, 0 block"
	})
}

// TestStopFailsClosed: what a boot connection protects stays blocked when the daemon stops, SAs go, and the peer is told.
func TestStopFailsClosed(t *testing.T) {
	sa, sb := pair(t)
	sa.start = "boot"
	b := launch(t, sb, xfrmfake.New())
	plane := xfrmfake.New()
	a := launch(t, sa, plane)
	a.await("boot connection up", isUp)
	b.await("B up", isUp)
	if fate, _ := plane.Outbound(toB); fate != xfrmfake.Protected {
		t.Errorf("up: a packet is %s", fate)
	}
	a.stop()
	plane = plane.Reopen()
	if got := installed(plane); got != "0 SAs, 0 protect, 2 block" {
		t.Errorf("after stop: %s", got)
	}
	if fate, _ := plane.Outbound(toB); fate != xfrmfake.Dropped {
		t.Errorf("stopped: a packet is %s", fate)
	}
	b.await("the peer knows", isDown)
	b.wantInstalled(nothing)

	// The next start finds the blocks and never removes them: at no instant is the selector without a policy.
	a = launch(t, sa, plane)
	a.await("up again", isUp)
	for _, op := range plane.Log() {
		if strings.HasPrefix(op, "remove policy") {
			t.Errorf("at the start: %s", op)
		}
	}
}

// TestStopLeavesNothingOfPass: a connection whose traffic may pass in clear is not in the way of a host without daemon.
func TestStopLeavesNothingOfPass(t *testing.T) {
	sa, sb := pair(t)
	sa.start = "boot\"\nwhen_down = \"pass"
	launch(t, sb, xfrmfake.New())
	plane := xfrmfake.New()
	a := launch(t, sa, plane)
	a.await("up", isUp)
	a.stop()
	if got := installed(plane.Reopen()); got != nothing {
		t.Errorf("after stop: %s", got)
	}
}

// TestKilled: the next start removes SAs that a killed process left, and no packet leaves in clear between.
func TestKilled(t *testing.T) {
	sa, sb := pair(t)
	sa.start = "boot"
	b := launch(t, sb, xfrmfake.New())
	first := xfrmfake.New()
	a := launch(t, sa, first)
	a.await("up", isUp)
	left := first.Reopen() // what SIGKILL would leave
	a.stop()
	b.await("down at B", isDown)
	old, _ := left.Dump(context.Background())
	a = launch(t, sa, left)
	a.await("up again", isUp)
	now, _ := left.Dump(context.Background())
	if len(old.SAs) != 2 || len(now.SAs) != 2 {
		t.Fatalf("%d SAs were left, %d are there now; want 2 and 2", len(old.SAs), len(now.SAs))
	}
	for _, s := range old.SAs {
		if slices.ContainsFunc(now.SAs, func(n xfrm.SA) bool { return n.ID == s.ID }) {
			t.Errorf("%s of the killed process is still there", s.ID)
		}
	}
}

// TestAcquire: a packet for a trap is dropped and brings the child up.
func TestAcquire(t *testing.T) {
	sa, sb := pair(t)
	sa.start = "traffic"
	launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
	if c := a.status(); c.State != "trap" {
		t.Fatalf("state %s, want trap", c.State)
	}
	if fate, _ := a.plane.Outbound(toB); fate != xfrmfake.Dropped {
		t.Errorf("the packet is %s", fate)
	}
	a.await("up by a packet", isUp)
	if fate, _ := a.plane.Outbound(toB); fate != xfrmfake.Protected {
		t.Errorf("the next packet is %s", fate)
	}
	if c := a.status().IKE[0].Children[0]; c.PacketsOut != 1 || c.BytesOut != 100 {
		t.Errorf("status counts %d packets, %d octets", c.PacketsOut, c.BytesOut)
	}
}

// TestGap: an SA that vanished from the data plane while events were lost is noticed, and its child made anew.
func TestGap(t *testing.T) {
	sa, sb := pair(t)
	sa.start = "boot"
	b := launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
	a.await("up", isUp)
	b.await("B up", isUp)
	s, _ := a.plane.Dump(context.Background())
	a.plane.LoseEvents(true)
	a.plane.Lose(s.SAs[0].ID)
	a.plane.Raise(xfrm.Expire{ID: s.SAs[0].ID, Hard: true})
	a.plane.LoseEvents(false)
	waitFor(t, "the half that is left goes at both sides", func() bool {
		return !strings.HasPrefix(installed(a.plane), "2 SAs, 2 protect") && installed(b.plane) == nothing
	})
	if fate, _ := a.plane.Outbound(toB); fate != xfrmfake.Dropped {
		t.Errorf("between: a packet is %s", fate)
	}
}

func TestReload(t *testing.T) {
	sa, sb := pair(t)
	launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
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
	a.wantInstalled(nothing)
}

// TestMonitor sees what another client does.
func TestMonitor(t *testing.T) {
	sa, sb := pair(t)
	launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
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
	a := launch(t, sa, xfrmfake.New())
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

// TestManyConnections brings up more connections at once than there are shards and workers; each finds its peer.
func TestManyConnections(t *testing.T) {
	const n = 40
	sa, sb := pair(t)
	for i := range n {
		connection := func(s side, mine, theirs int) string {
			return fmt.Sprintf(`
[connection.c%[1]d]
local  = { address = "%[2]s", id = "%[3]s%[1]d.example" }
remote = { address = "%[4]s", id = "%[5]s%[1]d.example", port = %[6]d }
psk    = { file = "secrets/psk" }
start  = "%[7]s"
[connection.c%[1]d.child.lan]
local  = ["10.%[8]d.%[1]d.0/24"]
remote = ["10.%[9]d.%[1]d.0/24"]
`, i, s.address, s.name, s.peerAddress, s.peer, s.peerPort, s.start, mine, theirs)
		}
		sb.more += connection(sb, 101, 100)
		sa.start = "boot"
		sa.more += connection(sa, 100, 101)
	}
	b := launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
	up := func(n *node) (up int) {
		st, err := n.client.Status(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range st.Connections {
			if isUp(c) {
				up++
			}
		}
		return up
	}
	waitFor(t, "all are up at both sides", func() bool { return up(a) == n+1 && up(b) == n+1 })
	state, _ := a.plane.Dump(context.Background())
	if len(state.SAs) != 2*(n+1) {
		t.Errorf("%d SAs, want %d", len(state.SAs), 2*(n+1))
	}
	reqids := map[uint32]int{}
	for _, s := range state.SAs {
		reqids[s.ReqID]++
	}
	if len(reqids) != n+1 {
		t.Errorf("%d reqids for %d children", len(reqids), n+1)
	}
	a.stop()
	waitFor(t, "the peer has nothing left", func() bool { return installed(b.plane) == nothing })
}

// TestJunk: what is no IKE is counted and changes nothing.
func TestJunk(t *testing.T) {
	sa, sb := pair(t)
	launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
	conn, err := net.Dial("udp", fmt.Sprintf("127.0.0.1:%d", sa.port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		junk := make([]byte, random.IntN(200))
		for k := range junk {
			junk[k] = byte(random.Uint32())
		}
		if i%2 == 0 && len(junk) >= 28 { // a header that passes
			binary.BigEndian.PutUint32(junk[24:], uint32(len(junk)))
			junk[17], junk[18], junk[19] = 0x20, byte(34+random.IntN(4)), byte(random.IntN(2))*8
		}
		conn.Write(junk)
	}
	if text, f := a.up("b"); f != nil {
		t.Fatalf("%v\n%s", f, text)
	}
	st, err := a.client.Status(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if st.Counters["malformed"] == 0 || st.Counters["unknown-spi"] == 0 {
		t.Errorf("counters: %v", st.Counters)
	}
	if n := st.Counters["goroutines"]; n < 5 {
		t.Errorf("%d goroutines", n)
	}
	if n := st.Counters["ike-sas"]; n != 1 {
		t.Errorf("%d IKE SAs, want 1", n)
	}
}

// TestDownStopsTrying: down of a connection that is tried in vain ends the attempts.
func TestDownStopsTrying(t *testing.T) {
	sa, _ := pair(t)
	sa.start = "boot"
	a := launch(t, sa, xfrmfake.New())
	a.await("it is tried", func(c control.Connection) bool { return c.State == "connecting" && len(c.IKE) == 1 })
	if text, f := a.down("b"); f != nil || text != "down; packets for it are dropped, not sent in clear\n" {
		t.Errorf("%v %q", f, text)
	}
	if c := a.status(); c.State != "down" || len(c.IKE) != 0 || c.NextTry != "" {
		t.Errorf("%+v", c)
	}
	if fate, _ := a.plane.Outbound(toB); fate != xfrmfake.Dropped {
		t.Errorf("a packet is %s", fate)
	}
}

// TestBothUp: when both sides begin at the same moment, both operators read of success.
func TestBothUp(t *testing.T) {
	sa, sb := pair(t)
	b := launch(t, sb, xfrmfake.New())
	a := launch(t, sa, xfrmfake.New())
	failed := make(chan *control.Failure, 2)
	go func() { _, f := a.up("b"); failed <- f }()
	go func() { _, f := b.up("a"); failed <- f }()
	for range 2 {
		if f := <-failed; f != nil {
			t.Errorf("%s: %s", f.Code, f.Summary)
		}
	}
	a.await("A up", isUp)
	b.await("B up", isUp)
}

// TestNoSuchLocalAddress: a message that the host cannot send is not told as sent, and the attempt fails at once with the line to change.
func TestNoSuchLocalAddress(t *testing.T) {
	sa, _ := pair(t)
	sa.address = "203.0.113.77"
	a := launch(t, sa, xfrmfake.New())
	text, f := a.up("b")
	if f == nil || f.Code != "not-sent" || !strings.Contains(f.Summary, "cannot send from 203.0.113.77: it is no address of this host (conn.d/b.toml:2: local.address)") || !strings.Contains(f.Hint, "next try in") {
		t.Errorf("%+v", f)
	}
	if strings.Contains(text, "sent to") {
		t.Errorf("told as sent:\n%s", text)
	}
	if c := a.status(); !strings.Contains(c.LastErr, "no address of this host") || c.NextTry == "" {
		t.Errorf("status: %+v", c)
	}
	a.down("b")
}
