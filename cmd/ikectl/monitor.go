package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"cygnet/ike/control"
)

// bearsSPIs are the codes of lines whose detail is the SPIs by which kernel and peer know what came up.
var bearsSPIs = []string{"child-up", "child-rekeyed", "ike-rekeyed"}

func setupMonitor(c *command) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := c.noArgs(); err != nil {
			return err
		}
		sent := false
		err := c.client().Monitor(ctx, func(l control.Line) {
			sent = sent || l.Done
			if !c.json {
				if l.Detail != "" && slices.Contains(bearsSPIs, l.Code) {
					l.Text, l.Detail = l.Text+"; "+l.Detail, ""
				}
				l.Connection = strings.TrimRight(clock(l.Time)+" "+cmp.Or(l.Connection, "cygnetd")+" "+l.SPI, " ")
			}
			c.progress(l)
		})
		var f *control.Failure
		if errors.As(err, &f) && f.Code == control.CodeInterrupted {
			return silent{control.ExitInterrupted} // the way to end it needs no words
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
