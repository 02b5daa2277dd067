package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a Backend made of functions; those not set fail the call.
type fake struct {
	up      func(ctx context.Context, name, child string, emit func(Line) error) *Failure
	monitor func(ctx context.Context, emit func(Line) error) *Failure
	status  *Status
	down    func(name, child string) *Failure
	reload  func() *Failure
	rekey   func(name, child string, ike bool) *Failure
}

func (f *fake) Up(ctx context.Context, name, child string, emit func(Line) error) *Failure {
	return f.up(ctx, name, child, emit)
}
func (f *fake) Down(_ context.Context, name, child string, _ func(Line) error) *Failure {
	return f.down(name, child)
}
func (f *fake) Rekey(_ context.Context, name, child string, ike bool, _ func(Line) error) *Failure {
	return f.rekey(name, child, ike)
}
func (f *fake) Status(context.Context) (*Status, *Failure) { return f.status, nil }
func (f *fake) Monitor(ctx context.Context, emit func(Line) error) *Failure {
	return f.monitor(ctx, emit)
}
func (f *fake) Reload(context.Context, func(Line) error) *Failure { return f.reload() }

// looker is a user that may only look.
var looker = uint32(os.Geteuid() + 1000)

func asUID(uid uint32) func(*net.UnixConn) (cred, error) {
	return func(*net.UnixConn) (cred, error) { return cred{uid: uid, pid: 1}, nil }
}

// serve starts a server that ends with the test.
func serve(t *testing.T, b Backend, creds func(*net.UnixConn) (cred, error)) (*Server, *Client) {
	t.Helper()
	return serveWith(t, b, creds, noGroup)
}

// serveWith is serve with a group whose members may change.
func serveWith(t *testing.T, b Backend, creds func(*net.UnixConn) (cred, error), admins int) (*Server, *Client) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	s, err := listen(path, b, creds)
	if err != nil {
		t.Fatal(err)
	}
	s.listener.admins = admins
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	t.Cleanup(func() {
		s.Close()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Error("the socket outlives its server")
		}
	})
	return s, &Client{Socket: path}
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func wantFailure(t *testing.T, err error, code string, exit int) *Failure {
	t.Helper()
	var f *Failure
	if !errors.As(err, &f) {
		t.Fatalf("got %v, want a *Failure %q", err, code)
	}
	if f.Code != code || f.Exit != exit {
		t.Fatalf("got code %q exit %d (%s), want %q exit %d", f.Code, f.Exit, f.Summary, code, exit)
	}
	return f
}

func TestUpStreams(t *testing.T) {
	b := &fake{up: func(_ context.Context, name, child string, emit func(Line) error) *Failure {
		for i := range 3 {
			if err := emit(Line{Connection: name, Child: child, Code: "sent", Text: fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		}
		emit(Line{Connection: name, Code: "up", Text: "up", Done: true})
		return nil
	}}
	_, c := serve(t, b, asUID(0))
	var got []string
	err := c.Up(deadline(t), "site-b", "lan", func(l Line) {
		if l.Time == "" || l.Connection != "site-b" {
			t.Errorf("line without time or connection: %+v", l)
		}
		got = append(got, fmt.Sprintf("%s/%s/%v/%v", l.Child, l.Text, l.Done, l.OK))
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "lan/0/false/false lan/1/false/false lan/2/false/false /up/true/true"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func TestFailureTravels(t *testing.T) {
	b := &fake{
		up: func(context.Context, string, string, func(Line) error) *Failure {
			return Fail("auth-failed", "the peer refused us", "compare the keys")
		},
		down:   func(string, string) *Failure { return Fail(CodeUnknownConnection, "no connection", "") },
		reload: func() *Failure { return Fail(CodeTimeout, "took too long", "") },
	}
	_, c := serve(t, b, asUID(0))
	f := wantFailure(t, c.Up(deadline(t), "x", "", func(Line) {}), "auth-failed", ExitFailed)
	if f.Summary != "the peer refused us" || f.Hint != "compare the keys" {
		t.Errorf("words were lost: %+v", f)
	}
	wantFailure(t, c.Down(deadline(t), "x", "", func(Line) {}), CodeUnknownConnection, ExitFailed)
	wantFailure(t, c.Reload(deadline(t), func(Line) {}), CodeTimeout, ExitTimeout)
}

func TestStatus(t *testing.T) {
	want := &Status{Version: "1", Dataplane: "userspace", Why: "no ESP here", Connections: []Connection{{Name: "a<b", State: "up"}}}
	_, c := serve(t, &fake{status: want}, asUID(looker))
	got, err := c.Status(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(*got) != fmt.Sprint(*want) {
		t.Errorf("got %+v want %+v", got, want)
	}
}

// TestLookersMayNotChange: every changing verb is refused before the backend hears of it.
func TestLookersMayNotChange(t *testing.T) {
	b := &fake{
		up: func(context.Context, string, string, func(Line) error) *Failure {
			t.Error("Up reached the backend")
			return nil
		},
		down:    func(string, string) *Failure { t.Error("Down reached the backend"); return nil },
		reload:  func() *Failure { t.Error("Reload reached the backend"); return nil },
		rekey:   func(string, string, bool) *Failure { t.Error("Rekey reached the backend"); return nil },
		status:  &Status{},
		monitor: func(context.Context, func(Line) error) *Failure { return nil },
	}
	_, c := serve(t, b, asUID(looker))
	ctx := deadline(t)
	for verb, err := range map[string]error{
		"up":     c.Up(ctx, "x", "", func(Line) {}),
		"down":   c.Down(ctx, "x", "", func(Line) {}),
		"reload": c.Reload(ctx, func(Line) {}),
		"rekey":  c.Rekey(ctx, "x", "", true, func(Line) {}),
	} {
		f := wantFailure(t, err, CodePermission, ExitFailed)
		if !strings.Contains(f.Summary, "no permission") || !strings.Contains(f.Summary, verb) {
			t.Errorf("%s: %s", verb, f.Summary)
		}
	}
	if _, err := c.Status(ctx); err != nil {
		t.Errorf("status: %v", err)
	}
	if err := c.Monitor(ctx, func(Line) {}); err != nil {
		t.Errorf("monitor: %v", err)
	}
}

func TestUnknownPeerIsRefused(t *testing.T) {
	_, c := serve(t, &fake{status: &Status{}}, func(*net.UnixConn) (cred, error) { return cred{}, errors.New("no credentials") })
	if _, err := c.Status(deadline(t)); err == nil {
		t.Error("a peer without credentials got the status")
	}
}

func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	_, err := (&Client{Socket: dir + "/none"}).Status(deadline(t))
	wantFailure(t, err, CodeNoDaemon, ExitNoDaemon)

	stale(t, dir+"/stale")
	_, err = (&Client{Socket: dir + "/stale"}).Status(deadline(t))
	f := wantFailure(t, err, CodeNoDaemon, ExitNoDaemon)
	if !strings.Contains(f.Hint, "start it: ") {
		t.Errorf("hint does not say how to start: %s", f.Hint)
	}
}

// stale leaves a socket file that nobody listens on.
func stale(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	stale(t, path)
	s, err := Listen(path, &fake{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o660 {
		t.Errorf("mode %v, err %v; want 0660", st.Mode(), err)
	}
	s.Close()
}

func TestLiveSocketIsRefused(t *testing.T) {
	_, c := serve(t, &fake{status: &Status{}}, asUID(0))
	_, err := Listen(c.Socket, &fake{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("another cygnetd (pid %d) is running", os.Getpid())) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Status(deadline(t)); err != nil {
		t.Errorf("the first daemon lost its socket: %v", err)
	}
}

func TestOtherFileIsNotRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, &fake{}); err == nil {
		t.Error("a file that is no socket was accepted")
	}
	if b, _ := os.ReadFile(path); string(b) != "precious" {
		t.Error("the file is gone")
	}
}

// TestGap: a client that does not read loses lines, is told so, and still hears the end.
func TestGap(t *testing.T) {
	const lines = 20000
	long := strings.Repeat("x", 1000) // so that the socket's own buffer does not hold them all
	emitted := make(chan struct{})
	b := &fake{monitor: func(_ context.Context, emit func(Line) error) *Failure {
		defer close(emitted)
		for i := range lines {
			if err := emit(Line{Code: "n", Text: fmt.Sprint(i), Detail: long}); err != nil {
				t.Error(err)
			}
		}
		return nil
	}}
	_, c := serve(t, b, asUID(0))
	var got, gaps, lost int
	var done bool
	err := c.Monitor(deadline(t), func(l Line) {
		<-emitted // read nothing before all was emitted
		switch {
		case l.Code == CodeGap:
			var n int
			fmt.Sscanf(l.Text, "%d", &n)
			gaps, lost = gaps+1, lost+n
		case l.Done:
			done = true
		default:
			got++
		}
	})
	if err != nil || !done {
		t.Fatalf("err %v, done %v", err, done)
	}
	if gaps == 0 || got+lost != lines {
		t.Errorf("%d lines came, %d gaps told of %d; together they must be %d", got, gaps, lost, lines)
	}
}

// TestClientGone: the backend's context ends and emit fails when the client leaves.
func TestClientGone(t *testing.T) {
	started, ended := make(chan struct{}), make(chan error, 1)
	b := &fake{up: func(ctx context.Context, _, _ string, emit func(Line) error) *Failure {
		close(started)
		<-ctx.Done()
		ended <- emit(Line{})
		return nil
	}}
	_, c := serve(t, b, asUID(0))
	ctx, cancel := context.WithCancel(deadline(t))
	go func() { <-started; cancel() }()
	wantFailure(t, c.Up(ctx, "x", "", func(Line) {}), CodeInterrupted, ExitInterrupted)
	select {
	case err := <-ended:
		if err == nil {
			t.Error("emit succeeded without a client")
		}
	case <-time.After(5 * time.Second):
		t.Error("the backend was not told that the client left")
	}
}

func TestTimeout(t *testing.T) {
	b := &fake{up: func(ctx context.Context, _, _ string, _ func(Line) error) *Failure { <-ctx.Done(); return nil }}
	_, c := serve(t, b, asUID(0))
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	wantFailure(t, c.Up(ctx, "x", "", func(Line) {}), CodeTimeout, ExitTimeout)

	// A daemon that can say how far it came has the word.
	b.up = func(ctx context.Context, _, _ string, _ func(Line) error) *Failure {
		<-ctx.Done()
		return Fail(CodeTimeout, "no answer from 192.0.2.1:500", "")
	}
	ctx, cancel = context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	if f := wantFailure(t, c.Up(ctx, "x", "", func(Line) {}), CodeTimeout, ExitTimeout); f.Summary != "no answer from 192.0.2.1:500" {
		t.Errorf("the daemon's words were lost: %s", f.Summary)
	}
}

// TestTimeoutOfADeadDaemon: one that accepts and says nothing is not waited for much longer than asked.
func TestTimeoutOfADeadDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	wantFailure(t, (&Client{Socket: path}).Up(ctx, "x", "", func(Line) {}), CodeTimeout, ExitTimeout)
}

func TestCloseEndsStreams(t *testing.T) {
	started := make(chan struct{})
	b := &fake{monitor: func(ctx context.Context, _ func(Line) error) *Failure {
		close(started)
		<-ctx.Done()
		return Fail("stopping", "cygnetd stops", "")
	}}
	s, c := serve(t, b, asUID(0))
	go func() { <-started; s.Close() }()
	wantFailure(t, c.Monitor(deadline(t), func(Line) {}), "stopping", ExitFailed)
}

func TestBackendPanicEndsTheStream(t *testing.T) {
	b := &fake{up: func(context.Context, string, string, func(Line) error) *Failure { panic("bug") }}
	s, c := serve(t, b, asUID(0))
	s.http.ErrorLog = nil
	wantFailure(t, c.Up(deadline(t), "x", "", func(Line) {}), CodeInternal, ExitFailed)
}

func TestRequests(t *testing.T) {
	called := false
	b := &fake{down: func(string, string) *Failure { called = true; return nil }}
	_, c := serve(t, b, asUID(0))
	for _, r := range []struct {
		name, method, path, body string
		status                   int
		code                     string
	}{
		{"unknown version", "POST", "/v2/down", "{}", 404, CodeVersion},
		{"wrong method", "GET", "/v1/down", "", 404, CodeVersion},
		{"not JSON", "POST", "/v1/down", "hello", 400, CodeUsage},
		{"unknown field", "POST", "/v1/down", `{"conection":"x"}`, 400, CodeUsage},
		{"two values", "POST", "/v1/down", `{} {}`, 400, CodeUsage},
		{"too long", "POST", "/v1/down", `{"connection":"` + strings.Repeat("x", maxBody) + `"}`, 400, CodeUsage},
	} {
		t.Run(r.name, func(t *testing.T) {
			req, _ := http.NewRequestWithContext(deadline(t), r.method, unixURLPrefix+r.path, strings.NewReader(r.body))
			resp, err := c.roundTrip(req.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != r.status || !strings.Contains(string(body), `"code":"`+r.code+`"`) {
				t.Errorf("got %d %s, want %d with code %s", resp.StatusCode, body, r.status, r.code)
			}
		})
	}
	if called {
		t.Error("a bad request reached the backend")
	}
}

// TestClientLimit: lookers cannot take root's places, and a place comes back when its client leaves.
func TestClientLimit(t *testing.T) {
	var mu sync.Mutex
	uid := looker
	as := func(u uint32) { mu.Lock(); uid = u; mu.Unlock() }
	creds := func(*net.UnixConn) (cred, error) { mu.Lock(); defer mu.Unlock(); return cred{uid: uid}, nil }
	s, c := serve(t, &fake{status: &Status{}}, creds)
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for range maxLookers {
		conn, err := net.Dial("unix", c.Socket)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	waitFor(t, "all lookers are in", func() bool { return s.listener.lookers.Load() == maxLookers })
	_, err := c.Status(deadline(t))
	wantFailure(t, err, CodeBusy, ExitFailed)
	as(0)
	if _, err := c.Status(deadline(t)); err != nil {
		t.Errorf("root was kept out by lookers: %v", err)
	}
	as(looker)
	conns[0].Close()
	waitFor(t, "a place is free", func() bool { return s.listener.lookers.Load() < maxLookers })
	if _, err := c.Status(deadline(t)); err != nil {
		t.Errorf("after one left: %v", err)
	}
}

// TestAnswerBeforeRequest: who is turned away is told so even when the answer is there, and its sender gone, before the request is written.
func TestAnswerBeforeRequest(t *testing.T) {
	for _, order := range []struct {
		name string
		gone bool // the server has closed the connection, so that the request cannot be written
	}{{"the server listens on", false}, {"the server has gone", true}} {
		t.Run(order.name, func(t *testing.T) {
			ours, theirs := streamPair(t)
			body := `{"code":"busy","summary":"cygnetd has too many control clients"}`
			fmt.Fprintf(theirs, "HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
			if order.gone {
				theirs.Close()
			}
			ctx := deadline(t)
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, unixURLPrefix+"/v1/status", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := (&Client{}).exchange(ours, req)
			if err != nil {
				t.Fatalf("the answer that was there is lost: %v", err)
			}
			if got, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusServiceUnavailable || string(got) != body {
				t.Errorf("status %s, body %q, %v", resp.Status, got, err)
			}
		})
	}
}

// streamPair is a connection of two unix sockets.
func streamPair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "pair"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(5 * time.Second)
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("not in 5 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestRealCredentials reads SO_PEERCRED of this very process.
func TestRealCredentials(t *testing.T) {
	seen := make(chan cred, 1)
	_, c := serve(t, &fake{status: &Status{}}, func(u *net.UnixConn) (cred, error) {
		who, err := peerCred(u)
		seen <- who
		return who, err
	})
	if _, err := c.Status(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if who := <-seen; int(who.uid) != os.Getuid() || int(who.pid) != os.Getpid() {
		t.Errorf("got %+v, want uid %d pid %d", who, os.Getuid(), os.Getpid())
	}
}

// TestForeignServer: what is not cygnetd, or dies in mid-stream, is an error and not a success.
func TestForeignServer(t *testing.T) {
	for name, reply := range map[string]string{
		"cut short": "HTTP/1.1 200 OK\r\n\r\n{\"code\":\"sent\",\"text\":\"a\"}\n",
		"no JSON":   "HTTP/1.1 200 OK\r\n\r\nhello\n",
		"502":       "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
		"nothing":   "",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s")
			l, err := net.Listen("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				http.ReadRequest(bufio.NewReader(conn))
				io.WriteString(conn, reply)
				conn.Close()
			}()
			var f *Failure
			if err := (&Client{Socket: path}).Up(deadline(t), "x", "", func(Line) {}); !errors.As(err, &f) || f.Exit == 0 {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestSlowHeader: a client that does not finish its request loses its place.
func TestSlowHeader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s, err := listen(path, &fake{}, asUID(0))
	if err != nil {
		t.Fatal(err)
	}
	if s.http.ReadHeaderTimeout != 10*time.Second {
		t.Errorf("header timeout %s, want 10 s", s.http.ReadHeaderTimeout)
	}
	s.http.ReadHeaderTimeout = 30 * time.Millisecond
	go s.Serve()
	defer s.Close()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: x\r\n")
	conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.ReadAll(conn); err != nil {
		t.Errorf("not closed: %v", err)
	}
}
