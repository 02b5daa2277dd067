// Command soak runs tunnels for a long time over a bad WAN, with data of all kinds in them and rekeys all the time, and accounts for every packet: what
// is missing at the end is what the WAN has dropped, one by one, or something is wrong.
//
//	soak [-bin DIR] [-seconds N] [-seed N] [-row NAME] [-plant NAME]
//
// There are two rows: cygnet against cygnet and cygnet against strongSwan, which initiates when the seed is even, both in userspace. Each prints its figures every ten seconds and a table at
// the end. With -plant something is made wrong on purpose, and the soak must fail; see plants.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"cygnet/test/rig"
)

// options of a run.
type options struct {
	bin     string
	seconds int
	seed    uint64
	ike     float64
	plant   string
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "folder of cygnetd and ikectl")
	flag.IntVar(&o.seconds, "seconds", 3600, "how long each row lasts")
	flag.Uint64Var(&o.seed, "seed", 1, "decides which packets are lost, delayed, repeated and reordered")
	flag.Float64Var(&o.ike, "ike", 0.05, "share of IKE messages that are lost, held, and repeated; with more than 0.1 a request may now and then have no answer to its last try")
	flag.StringVar(&o.plant, "plant", "", "what to make wrong: "+strings.Join(plantNames(), ", "))
	only := flag.String("row", "", "only the row of this name: own, swan")
	flag.Parse()
	if err := o.check(); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends it at once
	if !soak(ctx, o, *only) {
		os.Exit(1)
	}
}

func (o *options) check() (err error) {
	switch {
	case os.Geteuid() != 0:
		return rig.ErrNotRoot
	case o.seconds < 30:
		return fmt.Errorf("-seconds %d: at least 30 are wanted, so that keys are renewed", o.seconds)
	case o.plant != "" && !slices.Contains(plantNames(), o.plant):
		return fmt.Errorf("-plant %q: wanted one of %s", o.plant, strings.Join(plantNames(), ", "))
	}
	o.bin, err = filepath.Abs(o.bin)
	return err
}

// soak runs the rows beside each other and reports whether all is right.
func soak(ctx context.Context, o options, only string) bool {
	var rows []*row
	for _, r := range []*row{ownRow(), swanRow()} {
		if only == "" || r.name == only {
			rows = append(rows, r)
		}
	}
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		return false
	}
	fmt.Printf("%d s, seed %d: %s\n", o.seconds, o.seed, badWAN(o))
	begun := time.Now()
	var all sync.WaitGroup
	for _, r := range rows {
		all.Go(func() { r.err = r.run(ctx, o, filepath.Join(dir, r.name)) })
	}
	all.Wait()
	good := len(rows) > 0
	for _, r := range rows {
		fmt.Print("\n" + r.table())
		good = good && r.err == nil && len(r.findings) == 0
	}
	if good {
		os.RemoveAll(dir)
		fmt.Printf("\nOK (%.0f s)\n", time.Since(begun).Seconds())
		return true
	}
	fmt.Printf("\nFAILED (%.0f s); logs of the gateways: %s\n", time.Since(begun).Seconds(), dir)
	return false
}
