package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cygnet/ike/control"
	"cygnet/policy"
	"cygnet/xfrm/alg"
	"cygnet/xfrm/bench"
)

// benchFlags as they were written.
type benchFlags struct {
	cygnetd, dataplane, suite, mtu *string
	each                           *time.Duration
}

func setupBench(c *command) func(context.Context) error {
	f := benchFlags{
		cygnetd:   c.flags.String("cygnetd", "", "program to measure (the one beside ikectl, in ../sbin or on the PATH)"),
		dataplane: c.flags.String("dataplane", "userspace,kernel", "data planes"),
		suite:     c.flags.String("suite", "aes256gcm16,chacha20poly1305,aes256-sha256", "ESP suites"),
		mtu:       c.flags.String("mtu", "1400,7000", "octets of the packets in the tunnel"),
		each:      c.flags.Duration("each", time.Second, "length of one measurement"),
	}
	return func(ctx context.Context) error {
		if err := c.noArgs(); err != nil {
			return err
		}
		r, err := f.request()
		if err != nil {
			return err
		}
		t := benchTable{c: c}
		err = bench.Run(ctx, r, t.line, t.skipped)
		switch {
		case errors.Is(err, context.Canceled):
			return silent{control.ExitInterrupted}
		case errors.Is(err, bench.ErrNotRoot):
			return control.Fail(control.CodePermission, "ikectl bench makes network namespaces, for which it must be root", "sudo ikectl bench")
		case err != nil:
			return err
		case !t.measured:
			return silent{control.ExitFailed} // why stands in the table
		}
		return nil
	}
}

// request checks the flags; what is wrong is told with what could stand there.
func (f *benchFlags) request() (r bench.Request, err error) {
	r.Dataplanes, r.Suites, r.Each = strings.Split(*f.dataplane, ","), strings.Split(*f.suite, ","), *f.each
	for _, d := range r.Dataplanes {
		if d != "userspace" && d != "kernel" {
			return r, usage("--dataplane %q: there are userspace and kernel", d)
		}
	}
	for _, s := range r.Suites {
		if problem := suiteProblem(s); problem != nil {
			return r, control.Fail(control.CodeUsage, fmt.Sprintf("--suite %q: %s", s, problem.Text), problem.Hint)
		}
	}
	for _, m := range strings.Split(*f.mtu, ",") {
		n, err := strconv.Atoi(m)
		if err != nil || n < 1280 || n > 9000 {
			return r, usage("--mtu %q: wanted numbers from 1280 to 9000, separated by commas", m)
		}
		r.MTUs = append(r.MTUs, n)
	}
	if r.Each < 100*time.Millisecond || r.Each > time.Minute {
		return r, usage("--each %s: wanted 100ms to 1m", r.Each)
	}
	if r.Cygnetd, err = findCygnetd(*f.cygnetd); err != nil {
		return r, err
	}
	if slices.Contains(r.Dataplanes, "userspace") && os.Geteuid() == 0 {
		if err := bench.CheckTUN(); err != nil {
			return r, control.Fail(control.CodeInternal, err.Error(), "or measure the kernel's data plane alone: --dataplane kernel")
		}
	}
	return r, nil
}

// suiteProblem reads an ESP suite as the configuration would, and returns why it would refuse it.
func suiteProblem(esp string) *policy.Problem {
	_, problems := policy.Parse([]policy.Source{{Name: "suite", Data: []byte(fmt.Sprintf(`[connection.bench]
local = { address = "192.0.2.1", id = "a.bench" }
remote = { address = "192.0.2.2", id = "b.bench" }
psk = { file = "secret" }
[connection.bench.child.lan]
local = ["10.71.1.0/24"]
remote = ["10.71.2.0/24"]
esp = %q
`, esp))}}, policy.Files{Secret: func(string) (alg.Secret, error) {
		return alg.NewSecret([]byte(strings.Repeat("0123456789abcdef", 4))), nil
	}})
	for _, p := range problems {
		if !p.Warning {
			return &p
		}
	}
	return nil
}

// findCygnetd looks for the program where an installation has it.
func findCygnetd(given string) (string, error) {
	if given != "" {
		if _, err := exec.LookPath(given); err != nil {
			return "", usage("--cygnetd: %v", err)
		}
		return filepath.Abs(given)
	}
	if self, err := os.Executable(); err == nil {
		for _, p := range []string{"cygnetd", "../sbin/cygnetd"} {
			if found, err := exec.LookPath(filepath.Join(filepath.Dir(self), p)); err == nil {
				return found, nil
			}
		}
	}
	found, err := exec.LookPath("cygnetd")
	if err != nil {
		return "", control.Fail(control.CodeUsage, "cygnetd was found neither beside ikectl nor on the PATH", "say where it is: ikectl bench --cygnetd PATH")
	}
	return found, nil
}

// benchTable prints results as they come: a heading for each tunnel, a line for each test.
type benchTable struct {
	c        *command
	heading  string
	measured bool // a tunnel was
}

func (t *benchTable) line(r bench.Result) {
	t.measured = t.measured || r.Suite != ""
	if t.c.json {
		t.c.printJSON(r)
		return
	}
	heading := fmt.Sprintf("%s, %s, MTU %d", r.Dataplane, r.Suite, r.MTU)
	if r.Suite == "" {
		heading = fmt.Sprintf("the same links without encryption, MTU %d", r.MTU)
	}
	if heading != t.heading {
		t.heading = heading
		fmt.Fprintf(t.c.out, "\n%-44s %18s  %7s  %12s  %8s  %7s\n", heading, "", "lost", "generator", "gateways", "machine")
	}
	value := fmt.Sprintf("%s %s", figure(r.Value), r.Unit)
	lost, generator := "", ""
	if r.Lost != nil {
		lost = fmt.Sprintf("%.1f %%", *r.Lost)
	}
	if r.Generator > 0 {
		generator = figure(r.Generator)
	}
	fmt.Fprintf(t.c.out, "  %-42s %18s  %7s  %12s  %8s  %7s", r.Test, value, lost, generator, share(r.CPU), share(r.Machine))
	if r.LimitedByGenerator {
		fmt.Fprint(t.c.out, "  limited by the generator")
	}
	fmt.Fprintln(t.c.out)
}

func (t *benchTable) skipped(what string, why error) {
	if t.c.json {
		t.c.printJSON(struct {
			Skipped string `json:"skipped"`
			Why     string `json:"why"`
		}{what, why.Error()})
		return
	}
	t.heading = ""
	fmt.Fprintf(t.c.out, "\n%s: not measured: %v\n", what, why)
}

// share prints percents of one processor.
func share(v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("%.0f %%", *v)
}

// figure prints three digits, or all before the point.
func figure(v float64) string {
	switch {
	case v >= 100 || v <= -100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10 || v <= -10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
