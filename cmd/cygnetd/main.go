// Command cygnetd is the IKEv2 gateway: it keeps the tunnels of its configuration. ikectl speaks to it.
//
// Signals: SIGTERM and SIGINT close all tunnels and end it (a second one ends it at once), SIGHUP reads the configuration again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/sirupsen/logrus"

	"cygnet/ike/control"
	"cygnet/ike/daemon"
	"cygnet/policy"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
)

// options of the command line.
type options struct {
	config, socket, tun, logLevel string
	version, flush, json          bool
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, errOut io.Writer) int {
	o, err := parse(args, errOut)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(errOut, "cygnetd:", err)
		return exitUsage
	case o.version:
		fmt.Fprintln(out, "cygnetd", control.Version())
		return 0
	}
	log, fixed, err := newLog(errOut, o.logLevel)
	if err != nil {
		fmt.Fprintln(errOut, "cygnetd:", err)
		return exitUsage
	}
	if err := harden(); err != nil {
		log.Warn(err)
	}
	if err := checkCapabilities(); err != nil {
		fmt.Fprintln(errOut, "cygnetd:", err)
		return exitFailed
	}
	if o.flush {
		return flush(o, out, errOut)
	}
	d, problems := daemon.New(daemon.Config{
		ConfigDir: o.config, Socket: o.socket, TUNName: o.tun, Version: control.Version(), Log: log, FixedLogLevel: fixed,
		Ready: func(text string) {
			fmt.Fprintln(out, text)
			notifySystemd("READY=1\nSTATUS=" + text)
		},
	})
	printProblems(errOut, problems)
	if d == nil {
		fmt.Fprintf(errOut, "cygnetd: the configuration in %s was not accepted\n", o.config)
		return exitFailed
	}
	if err := d.Run(untilSignal(d, log)); err != nil {
		fmt.Fprintln(errOut, "cygnetd:", err)
		return exitFailed
	}
	return 0
}

func parse(args []string, errOut io.Writer) (o options, err error) {
	f := flag.NewFlagSet("cygnetd", flag.ContinueOnError)
	f.SetOutput(errOut)
	f.StringVar(&o.config, "config", "/etc/cygnet", "`folder` of the configuration")
	f.StringVar(&o.socket, "socket", control.DefaultSocket, "control socket, a `path`")
	f.StringVar(&o.tun, "tun", "cygnet0", "`name` of the TUN interface of the userspace data plane")
	f.StringVar(&o.logLevel, "log-level", "", "`level`: "+levels()+" (default: that of the configuration, else info)")
	f.BoolVar(&o.flush, "flush", false, "with no cygnetd running: remove the blocks, policies, routes and SAs that one left in this network namespace, print them and exit")
	f.BoolVar(&o.json, "json", false, "with --flush: print JSON")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("%q is too much: all is said by flags, see cygnetd --help", f.Args())
	}
	if o.json && !o.flush {
		return o, errors.New("--json goes with --flush alone; ikectl has it for every verb")
	}
	return o, checkTUN(o.tun)
}

// maxTUN is IFNAMSIZ without the octet that ends the name.
const maxTUN = 15

func checkTUN(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "/%: \t\n") || name == "." || name == "..":
		return fmt.Errorf("--tun %q: not a name that an interface can have; write one such as cygnet0", name)
	case len(name) > maxTUN:
		return fmt.Errorf("--tun %s: the name has %d characters, an interface's name at most %d", name, len(name), maxTUN)
	}
	return nil
}

// printProblems prints all that is wrong with the configuration, each with what to change.
func printProblems(w io.Writer, problems []policy.Problem) {
	for _, p := range problems {
		kind := "error"
		if p.Warning {
			kind = "warning"
		}
		place := ""
		switch {
		case p.Line > 0:
			place = fmt.Sprintf("%s:%d: ", p.File, p.Line)
		case p.File != "":
			place = p.File + ": "
		}
		fmt.Fprintf(w, "%s%s: %s\n", place, kind, p.Text)
		if p.Hint != "" {
			fmt.Fprintf(w, "    hint: %s\n", p.Hint)
		}
	}
}

// untilSignal ends with the first SIGTERM or SIGINT; a second one ends the process. SIGHUP reloads.
func untilSignal(d *daemon.Daemon, log *logrus.Logger) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	go func() {
		for s := range signals {
			switch {
			case s == syscall.SIGHUP:
				if ctx.Err() == nil {
					d.Reload()
				}
			case ctx.Err() == nil:
				notifySystemd("STOPPING=1")
				cancel()
			default:
				log.Warn("second signal: ending at once; peers find out by themselves")
				os.Exit(exitFailed)
			}
		}
	}()
	return ctx
}
