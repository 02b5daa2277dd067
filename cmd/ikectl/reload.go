package main

import (
	"context"

	"cygnet/ike/control"
)

func setupReload(c *command) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := c.noArgs(); err != nil {
			return err
		}
		sent := false
		err := c.client().Reload(ctx, func(l control.Line) {
			sent = sent || l.Done
			c.progress(l)
		})
		return c.ended("", err, sent)
	}
}
