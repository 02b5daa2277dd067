package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"cygnet/ike/control"
)

func setupMonitor(c *command) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := c.noArgs(); err != nil {
			return err
		}
		sent := false
		err := c.client().Monitor(ctx, func(l control.Line) {
			sent = sent || l.Done
			if !c.json {
				l.Connection = clock(l.Time) + " " + cmp.Or(l.Connection, "cygnetd")
			}
			c.progress(l)
		})
		var f *control.Failure
		if errors.As(err, &f) && f.Code == control.CodeInterrupted {
			return nil // the way to end it
		}
		return c.ended("", err, sent)
	}
}

// clock is the time of day of a line, or the line's own words when they are no time.
func clock(s string) string {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return printable(s)
	}
	return t.Format("15:04:05.000")
}
