package control

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
	"time"
)

const (
	dialTimeout   = 5 * time.Second
	silenceLimit  = 10 * time.Second // until the daemon begins its answer, which it does at once
	grace         = time.Second      // what the daemon's last line may be late
	maxLine       = 1 << 20
	maxStatus     = 256 << 20
	permitHint    = "root may do everything (sudo); members of the group " + AdminGroup + " may change things, those of " + Group + " may look"
	detachedHint  = "cygnetd goes on with it; see: ikectl status"
	timedOutHint  = "cygnetd goes on trying; see: ikectl status"
	silentHint    = "it may be stopped or overloaded; see: systemctl status cygnetd, or its log"
	goneHint      = "see the log of cygnetd"
	versionsHint  = "ikectl and cygnetd may be of different versions"
	unixURLPrefix = "http://cygnetd"
)

// Client talks to a daemon. All its errors are *Failure.
type Client struct {
	Socket string // DefaultSocket when empty

	silence time.Duration // silenceLimit when zero
}

// Up brings a connection (or one child of it) up and calls line for each step, the last included, until it is up or the attempt has failed.
// When ctx ends first the daemon goes on.
func (c *Client) Up(ctx context.Context, name, child string, line func(Line)) error {
	return c.stream(ctx, http.MethodPost, "/v1/up", &target{Connection: name, Child: child}, line)
}

// Down takes a connection (or one child of it) down and waits until it is.
func (c *Client) Down(ctx context.Context, name, child string, line func(Line)) error {
	return c.stream(ctx, http.MethodPost, "/v1/down", &target{Connection: name, Child: child}, line)
}

// Rekey gives the children (or the one named) new keys, or with ike the IKE SA, and waits until they are in use.
func (c *Client) Rekey(ctx context.Context, name, child string, ike bool, line func(Line)) error {
	return c.stream(ctx, http.MethodPost, "/v1/rekey", &target{Connection: name, Child: child, IKE: ike}, line)
}

// Reload makes the daemon read its configuration again.
func (c *Client) Reload(ctx context.Context, line func(Line)) error {
	return c.stream(ctx, http.MethodPost, "/v1/reload", &target{}, line)
}

// Monitor calls line for all that happens, until ctx ends or the daemon does.
func (c *Client) Monitor(ctx context.Context, line func(Line)) error {
	return c.stream(ctx, http.MethodGet, "/v1/monitor", nil, line)
}

// Status asks for the state of everything.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	resp, f := c.do(ctx, http.MethodGet, "/v1/status", nil)
	if f != nil {
		return nil, f
	}
	defer resp.Body.Close()
	var st Status
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxStatus)).Decode(&st); err != nil {
		return nil, c.failure(ctx, err)
	}
	return &st, nil
}

func (c *Client) stream(ctx context.Context, method, path string, body *target, line func(Line)) error {
	if at, ok := ctx.Deadline(); ok && body != nil {
		// The daemon ends the stream in time, with words of its own; we wait a little longer for them.
		body.Timeout = max(time.Until(at).Milliseconds(), 1)
		caller := ctx
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(context.WithoutCancel(caller), at.Add(grace))
		defer cancel()
		defer context.AfterFunc(caller, func() {
			if caller.Err() == context.Canceled {
				cancel()
			}
		})()
	}
	resp, f := c.do(ctx, method, path, body)
	if f != nil {
		return f
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	in.Buffer(nil, maxLine)
	for in.Scan() {
		var l Line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return Fail(CodeVersion, "cygnetd sent a line that cannot be read: "+err.Error(), versionsHint)
		}
		line(l)
		if l.Done && l.OK {
			return nil
		}
		if l.Done {
			return Fail(l.Code, l.Text, l.Hint)
		}
	}
	err := in.Err()
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	return c.failure(ctx, err)
}

// do sends a request. An answer other than 200 is the Failure in its body.
func (c *Client) do(ctx context.Context, method, path string, body *target) (*http.Response, *Failure) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, Fail(CodeUsage, err.Error(), "")
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, unixURLPrefix+path, content)
	if err != nil {
		return nil, Fail(CodeInternal, err.Error(), "")
	}
	resp, err := c.roundTrip(ctx, req)
	if err != nil {
		return nil, c.failure(ctx, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	var f Failure
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&f); err != nil || f.Code == "" {
		return nil, Fail(CodeVersion, "cygnetd answered "+resp.Status, versionsHint)
	}
	f.Exit = ExitOf(f.Code)
	return nil, &f
}

func (c *Client) path() string {
	if c.Socket == "" {
		return DefaultSocket
	}
	return c.Socket
}

// failure turns what can go wrong on the way into words.
func (c *Client) failure(ctx context.Context, err error) *Failure {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return Fail(CodeTimeout, "not done in the time given", timedOutHint)
	case ctx.Err() != nil:
		return Fail(CodeInterrupted, "stopped waiting", detachedHint)
	case errors.Is(err, fs.ErrNotExist):
		return Fail(CodeNoDaemon, fmt.Sprintf("cygnetd is not running: there is no socket %s", c.path()), startHint("/"))
	case errors.Is(err, syscall.ECONNREFUSED):
		return Fail(CodeNoDaemon, fmt.Sprintf("cygnetd is not running: nobody listens on %s", c.path()), startHint("/"))
	case errors.Is(err, fs.ErrPermission):
		return Fail(CodePermission, fmt.Sprintf("no permission to use %s", c.path()), permitHint)
	case errors.Is(err, syscall.EAGAIN):
		return Fail(CodeBusy, "cygnetd has too many control clients", "")
	}
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return Fail(CodeDaemonSilent, fmt.Sprintf("cygnetd does not answer: nothing came in %s", cmp.Or(c.silence, silenceLimit)), silentHint)
	}
	return Fail(CodeDaemonGone, "the connection to cygnetd broke: "+err.Error(), goneHint)
}
