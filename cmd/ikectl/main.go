// Command ikectl asks cygnetd to bring tunnels up and down and shows what happens. Each verb has its file.
//
// Exit codes: 0 done, 1 failed, 2 wrong usage, 3 cygnetd is not running, 4 not done in time, 130 interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"cygnet/ike/control"
	"cygnet/policy"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// command is one invocation.
type command struct {
	out, err io.Writer
	flags    *flag.FlagSet
	socket   string
	json     bool
	verbose  bool
	args     []string // without flags
}

// verb is a word of the command line. setup declares its flags and returns what does the work.
type verb struct {
	name, args, short string
	setup             func(*command) func(context.Context) error
}

// verbs in the order of the help.
func verbs() []verb {
	return []verb{
		{"up", "NAME", "bring a connection up and say step by step what happens", setupUp},
		{"down", "NAME", "take a connection down", setupDown},
		{"rekey", "NAME", "give a connection new keys now", setupRekey},
		{"status", "[NAME]", "show connections, their SAs and traffic", setupStatus},
		{"monitor", "", "show all that happens until interrupted", setupMonitor},
		{"reload", "", "make cygnetd read its configuration again", setupReload},
		{"check", "[DIR]", "check a configuration; needs no cygnetd", setupCheck},
		{"bench", "", "measure tunnels on this machine, in network namespaces of its own", setupBench},
		{"version", "", "show versions", setupVersion},
		{"help", "[VERB]", "show this help", setupHelp},
	}
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	c := &command{out: out, err: errOut, json: has(args, "json")} // known before all else, so that also wrong usage is told in JSON
	name, rest, early := splitVerb(args)
	switch {
	case name != "":
	case has(args, "version"):
		name, early = "version", slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "--version" || a == "-version" })
	case len(args) == 0, has(args, "help"), has(args, "h"), has(args, "json") && len(args) == 1:
		name, early = "help", nil
	default:
		return c.report(usage("no verb in %q", strings.Join(args, " ")))
	}
	for _, v := range verbs() {
		if v.name != name {
			continue
		}
		c.flags = flag.NewFlagSet("ikectl "+v.name, flag.ContinueOnError)
		c.flags.SetOutput(io.Discard)
		c.flags.StringVar(&c.socket, "socket", control.DefaultSocket, "control socket of cygnetd")
		c.flags.BoolVar(&c.json, "json", c.json, "print JSON; streams are newline-delimited")
		c.flags.BoolVar(&c.verbose, "v", false, "print details")
		do := v.setup(c)
		if err := c.parse(append(early, rest...)); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				c.verbHelp(v)
				return 0
			}
			return c.report(usage("%v", err))
		}
		return c.report(do(ctx))
	}
	return c.report(noVerb(name))
}

// noVerb names the verbs that name resembles.
func noVerb(name string) *control.Failure {
	f := usage("there is no verb %q", name)
	var names []string
	for _, v := range verbs() {
		names = append(names, v.name)
	}
	switch near := policy.Near(name, names); {
	case name == "flush":
		f.Hint = "it is done without a daemon: cygnetd --flush"
	case len(near) > 0:
		f.Hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return f
}

// splitVerb finds the verb among the flags that may stand before it.
func splitVerb(args []string) (name string, rest, early []string) {
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			return args[i], args[i+1:], args[:i:i]
		}
		if args[i] == "--socket" || args[i] == "-socket" { // the one flag here whose value stands by itself
			i++
		}
	}
	return "", nil, args
}

// has says whether the flag stands among args.
func has(args []string, name string) bool {
	return slices.Contains(args, "--"+name) || slices.Contains(args, "-"+name)
}

// parse allows flags between and after the arguments, as people type them.
func (c *command) parse(args []string) error {
	for {
		if err := c.flags.Parse(args); err != nil {
			return err
		}
		if c.flags.NArg() == 0 {
			return nil
		}
		c.args = append(c.args, c.flags.Arg(0))
		args = c.flags.Args()[1:]
	}
}

func (c *command) client() *control.Client { return &control.Client{Socket: c.socket} }

func usage(format string, a ...any) *control.Failure {
	return control.Fail(control.CodeUsage, fmt.Sprintf(format, a...), "see: ikectl help")
}

// noArgs refuses arguments that would be ignored.
func (c *command) noArgs() error {
	if len(c.args) > 0 {
		return usage("%q is too much here", strings.Join(c.args, " "))
	}
	return nil
}

// oneName wants exactly one argument.
func (c *command) oneName(what string) (string, error) {
	switch len(c.args) {
	case 0:
		return "", usage("the %s is missing", what)
	case 1:
		return c.args[0], nil
	}
	return "", usage("one %s at a time, not %q", what, strings.Join(c.args, " "))
}
