// Command bench compares cygnet's userspace data plane with its peers on this machine: wireguard-go, strongSwan's kernel-libipsec, OpenVPN and plain
// forwarding, all measured in turn in each round of one run, in namespaces of its own. It fails when a ratio that gates is below what must be reached.
//
//	bench [-rounds N] [-smoke]
//
// CPU seconds are what both gateways' processes computed: ratios of octets per CPU second hold on a busy machine, those of octets per second do not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"cygnet/xfrm/bench"
)

// innerMTU is that of every tunnel, in octets: cygnet's and kernel-libipsec's default.
const innerMTU = 1400

// options of a run.
type options struct {
	rounds  int
	smoke   bool
	each    time.Duration // of one measurement
	cache   string        // folder of the programs that are built
	only    string
	verbose bool
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 0, "how often everything is measured; medians are shown (5, with -smoke 2)")
	flag.BoolVar(&o.smoke, "smoke", false, "short: fail only at worse than half of what must be reached")
	flag.DurationVar(&o.each, "each", 0, "length of one measurement (1s, with -smoke 500ms)")
	flag.StringVar(&o.only, "only", "", "contestants, separated by commas (all)")
	flag.BoolVar(&o.verbose, "v", false, "print every measurement")
	flag.Parse()
	if o.rounds == 0 {
		o.rounds = 5
		if o.smoke {
			o.rounds = 2
		}
	}
	if o.each == 0 {
		o.each = time.Second
		if o.smoke {
			o.each = 500 * time.Millisecond
		}
	}
	if flag.NArg() > 0 || o.rounds < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if os.Geteuid() != 0 {
		return bench.ErrNotRoot
	}
	if err := errors.Join(bench.CheckTUN(), bench.Sweep()); err != nil {
		return err
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	o.cache = filepath.Join(dir, "cygnet-bench")
	allocates := transforms(o)
	ns, err := lookups(o)
	if err != nil {
		return err
	}
	all := contestants(o)
	defer func() {
		for _, c := range all {
			c.stop()
		}
	}()
	for _, c := range all {
		if err := c.start(ctx, o); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("%-34s %s\n", c.name, c.version)
	}
	fmt.Printf("\n%d rounds of %s a measurement; inner MTU %d; load average at the beginning %s\n", o.rounds, o.each, innerMTU, bench.Load())
	r, err := measure(ctx, o, all)
	if err != nil {
		return err
	}
	r[lookupNs] = make(map[string][]float64)
	for n, v := range ns {
		r[lookupNs][lookupCase(n)] = []float64{v}
	}
	fmt.Printf("load average at the end %s\n\n", bench.Load())
	return errors.Join(allocates, report(o, r))
}

// build builds a command of this module, or with a version one of another, into the cache and returns its path.
func build(o options, name, pkg string, flags ...string) (string, error) {
	path := filepath.Join(o.cache, name)
	cmd := exec.Command("go", append(append([]string{"build", "-trimpath", "-buildvcs=false", "-o", path}, flags...), pkg)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return path, nil
}
