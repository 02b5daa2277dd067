package main

import (
	"context"
	"time"

	"cygnet/ike/control"
)

func setupRekey(c *command) func(context.Context) error {
	child := c.flags.String("child", "", "only this child of the connection")
	ike := c.flags.Bool("ike", false, "the IKE SA instead of the children")
	timeout := c.timeout(30*time.Second, "how long to wait; cygnetd goes on after it")
	return func(ctx context.Context) error {
		name, err := c.oneName("name of a connection")
		if err != nil {
			return err
		}
		if *ike && *child != "" {
			return usage("--ike and --child cannot go together: the one is for the IKE SA, the other for a child")
		}
		return c.waitFor(ctx, name, *timeout, func(ctx context.Context, line func(control.Line)) error {
			return c.client().Rekey(ctx, name, *child, *ike, line)
		})
	}
}
