package main

import (
	"context"
	"flag"
	"fmt"
)

func setupHelp(c *command) func(context.Context) error {
	return func(context.Context) error {
		if len(c.args) == 0 {
			c.help()
			return nil
		}
		name, err := c.oneName("verb")
		if err != nil {
			return err
		}
		for _, v := range verbs() {
			if v.name == name {
				v.setup(c)
				c.verbHelp(v)
				return nil
			}
		}
		return noVerb(name)
	}
}

func (c *command) help() {
	if c.json {
		type entry struct {
			Verb string `json:"verb"`
			Args string `json:"args,omitempty"`
			Text string `json:"text"`
		}
		var list []entry
		for _, v := range verbs() {
			list = append(list, entry{v.name, v.args, v.short})
		}
		c.printJSON(list)
		return
	}
	fmt.Fprintln(c.out, "usage: ikectl VERB [ARGUMENTS] [FLAGS]")
	fmt.Fprintln(c.out)
	for _, v := range verbs() {
		fmt.Fprintf(c.out, "  %-15s %s\n", v.name+" "+v.args, v.short)
	}
	fmt.Fprint(c.out, `
flags of every verb:
  --socket PATH   control socket of cygnetd (default /run/cygnet/control.sock)
  --json          print JSON, of wrong usage too; streams are newline-delimited
  -v              print details

exit codes: 0 done, 1 failed, 2 wrong usage, 3 cygnetd is not running, 4 not done in time, 130 interrupted
`)
}

func (c *command) verbHelp(v verb) {
	fmt.Fprintf(c.out, "usage: ikectl %s %s\n  %s\n\nflags:\n", v.name, v.args, v.short)
	c.flags.VisitAll(func(f *flag.Flag) {
		dash := "--"
		if len(f.Name) == 1 {
			dash = "-"
		}
		fmt.Fprintf(c.out, "  %-12s %s", dash+f.Name, f.Usage)
		if f.DefValue != "" && f.DefValue != "false" {
			fmt.Fprintf(c.out, " (default %s)", f.DefValue)
		}
		fmt.Fprintln(c.out)
	})
}
