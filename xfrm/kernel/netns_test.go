package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"cygnet/xfrm"

	"golang.org/x/sys/unix"
)

// patience is the deadline of everything that a test waits for.
const patience = 10 * time.Second

// namespace is a network namespace with a thread of its own; it ends with the test.
type namespace struct {
	name string // in messages
	tid  int
	jobs chan func()
}

func newNamespace(t testing.TB, name string) *namespace {
	t.Helper()
	n := &namespace{name: name, jobs: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its goroutine, and the namespace with it
		n.tid = unix.Gettid()
		err := unix.Unshare(unix.CLONE_NEWNET)
		ready <- err
		for job := range n.jobs {
			job()
		}
	}()
	if err := <-ready; err != nil {
		close(n.jobs)
		if strings.Contains(os.Getenv("REQUIRE"), "root") {
			t.Fatalf("REQUIRE has root, but unshare: %v", err)
		}
		t.Skipf("unshare a network namespace: %v", err)
	}
	t.Cleanup(func() { close(n.jobs) })
	n.ip(t, "link set lo up")
	return n
}

// in runs f in the namespace and returns its error.
func (n *namespace) in(f func() error) error {
	done := make(chan error, 1)
	n.jobs <- func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v", p)
			}
		}()
		done <- f()
	}
	return <-done
}

func (n *namespace) must(t testing.TB, f func() error) {
	t.Helper()
	if err := n.in(f); err != nil {
		t.Fatalf("%s: %v", n.name, err)
	}
}

// command runs a program in the namespace.
func (n *namespace) command(t testing.TB, args ...string) string {
	t.Helper()
	var out []byte
	err := n.in(func() (err error) {
		out, err = exec.Command(args[0], args[1:]...).CombinedOutput()
		return err
	})
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", n.name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// ip runs iproute2 in the namespace.
func (n *namespace) ip(t testing.TB, args string) string {
	t.Helper()
	return n.command(t, append([]string{"ip"}, strings.Fields(args)...)...)
}

// driver opens a driver in the namespace, without the probe: the tests that need ESP have asked for it.
func (n *namespace) driver(t testing.TB, c Config) *Driver {
	t.Helper()
	if c.Warn == nil {
		c.Warn = func(err error) { t.Errorf("%s: warning: %v", n.name, err) }
	}
	var d *Driver
	n.must(t, func() (err error) {
		d, err = open(c)
		return err
	})
	t.Cleanup(func() { d.Close() })
	return d
}

// espHere is asked once: what the probe says in a namespace of its own.
var espHere = sync.OnceValues(func() (xfrm.Capabilities, error) {
	type result struct {
		caps xfrm.Capabilities
		err  error
	}
	answer := make(chan result)
	go func() {
		runtime.LockOSThread()
		var r result
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			r.err = fmt.Errorf("unshare a network namespace: the kernel says: %w", err)
		} else {
			r.caps, r.err = Probe(context.Background())
		}
		answer <- r
	}()
	r := <-answer
	return r.caps, r.err
})

// needESP skips the test where the kernel has no ESP, with the probe's words; REQUIRE=kernel-esp makes that a failure.
func needESP(t testing.TB) xfrm.Capabilities {
	t.Helper()
	caps, err := espHere()
	if err == nil {
		return caps
	}
	if strings.Contains(os.Getenv("REQUIRE"), "kernel-esp") {
		t.Fatalf("REQUIRE has kernel-esp, but: %v", err)
	}
	t.Skip(err)
	return caps
}

func apply(t testing.TB, d *Driver, ops ...xfrm.Op) {
	t.Helper()
	if err := d.Apply(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
}

func dump(t testing.TB, d *Driver) xfrm.State {
	t.Helper()
	s, err := d.Dump(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// event waits for the next event that want accepts; others are passed over.
func event[E xfrm.Event](t testing.TB, d *Driver, want func(E) bool) E {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case e, ok := <-d.Events():
			if !ok {
				t.Fatal("the events have ended")
			}
			if e, ok := e.(E); ok && want(e) {
				return e
			}
		case <-deadline:
			t.Fatalf("no %T within %v", *new(E), patience)
		}
	}
}

func opError(t *testing.T, err error) *xfrm.OpError {
	t.Helper()
	var e *xfrm.OpError
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want an OpError", err)
	}
	return e
}
