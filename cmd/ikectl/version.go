package main

import (
	"context"
	"fmt"

	"cygnet/ike/control"
)

func setupVersion(c *command) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := c.noArgs(); err != nil {
			return err
		}
		daemon := "" // stays so when none runs: the version of ikectl is known all the same
		if st, err := c.client().Status(ctx); err == nil {
			daemon = st.Version
		}
		if c.json {
			c.printJSON(struct {
				Ikectl  string `json:"ikectl"`
				Cygnetd string `json:"cygnetd,omitempty"`
			}{control.Version(), daemon})
			return nil
		}
		fmt.Fprintf(c.out, "ikectl %s\n", control.Version())
		if daemon != "" {
			fmt.Fprintf(c.out, "cygnetd %s\n", printable(daemon))
		}
		return nil
	}
}
