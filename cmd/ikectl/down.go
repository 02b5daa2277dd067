package main

import (
	"context"
	"time"

	"cygnet/ike/control"
)

func setupDown(c *command) func(context.Context) error {
	child := c.flags.String("child", "", "only this child of the connection")
	timeout := c.timeout(30*time.Second, "how long to wait")
	return func(ctx context.Context) error {
		name, err := c.oneName("name of a connection")
		if err != nil {
			return err
		}
		return c.waitFor(ctx, name, *timeout, func(ctx context.Context, line func(control.Line)) error {
			return c.client().Down(ctx, name, *child, line)
		})
	}
}
