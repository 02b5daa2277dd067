package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"cygnet/ike/control"
)

func setupUp(c *command) func(context.Context) error {
	child := c.flags.String("child", "", "only this child of the connection")
	timeout := c.timeout(60*time.Second, "how long to wait; cygnetd goes on trying after it")
	return func(ctx context.Context) error {
		name, err := c.oneName("name of a connection")
		if err != nil {
			return err
		}
		return c.waitFor(ctx, name, *timeout, func(ctx context.Context, line func(control.Line)) error {
			return c.client().Up(ctx, name, *child, line)
		})
	}
}

// waitFor runs a verb that waits for a connection, and says what goes on without us when we stop waiting.
func (c *command) waitFor(ctx context.Context, name string, timeout time.Duration, do func(context.Context, func(control.Line)) error) error {
	if timeout <= 0 {
		return usage("--timeout must be longer than nothing, not %s", timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sent := false
	err := do(ctx, func(l control.Line) {
		sent = sent || l.Done
		c.progress(l)
	})
	var f *control.Failure
	if errors.As(err, &f) {
		f = inTime(f, name, timeout)
		err = f
	}
	return c.ended(name, err, sent)
}

// inTime gives the failures of waiting the words of this verb.
func inTime(f *control.Failure, name string, timeout time.Duration) *control.Failure {
	switch f.Code {
	case control.CodeTimeout:
		return control.Fail(f.Code, fmt.Sprintf("gave up waiting after %s: %s", timeout, f.Summary), cmp.Or(f.Hint, "cygnetd goes on; see: ikectl status "+name))
	case control.CodeInterrupted:
		return control.Fail(f.Code, "no longer waiting; cygnetd goes on with it", fmt.Sprintf("see: ikectl status %s; to stop it: ikectl down %s", name, name))
	}
	return f
}
