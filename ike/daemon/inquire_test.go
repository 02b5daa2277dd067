package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"

	"cygnet/ike/auth"
	"cygnet/ike/fetch"
	"cygnet/policy"
)

// TestFailureWords: whom we asked in vain and why, without the layers in between, on one line of printable text.
func TestFailureWords(t *testing.T) {
	const at = "http://ocsp.example/"
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&url.Error{Op: "Post", URL: at, Err: refused}, at + " did not help: connection refused"},
		{&url.Error{Op: "Post", URL: at, Err: fmt.Errorf("slow: %w", context.DeadlineExceeded)}, at + " did not help: no answer within 5s"},
		{errors.New("it answers 404 Not\x1b[2J Found\nand more"), at + ` did not help: it answers 404 Not\x1b[2J Found`},
	} {
		if got := failure(fetch.Result{Source: auth.Source{URL: at}, Err: c.err}); got != c.want {
			t.Errorf("%v: %s, wanted %s", c.err, got, c.want)
		}
	}
}

// TestStaplesFollowTheConfiguration: responses for certificates that are ours no more are forgotten, so that renewals leave nothing behind.
func TestStaplesFollowTheConfiguration(t *testing.T) {
	q := newInquirer(t.Logf)
	defer q.stop()
	q.staples[[32]byte{1}] = new(staple)
	q.warm(&policy.Snapshot{})
	if len(q.staples) != 0 {
		t.Errorf("%d responses are kept for certificates that nobody has", len(q.staples))
	}
}
