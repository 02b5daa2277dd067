package sim

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	seeds    = flag.Int("seeds", 300, "how many seeds TestSim plays")
	first    = flag.Uint64("first", 1, "the first seed of TestSim")
	seed     = flag.Uint64("seed", 0, "the seed that TestSeed plays and tells")
	most     = flag.Int("failures", 20, "after so many failures TestSim ends")
	rekey    = flag.Bool("rekey", true, "short lifetimes in some runs")
	liars    = flag.Uint64("liars", 250, "how many seeds TestImpairedPeers plays at most; 1500 tell every lie")
	impaired = flag.Bool("impaired", false, "a peer that holds keys and lies in each run")
)

// replay is the command that plays a seed again.
func replay(seed uint64) string {
	return fmt.Sprintf("go test ./test/sim -run TestSeed -seed %d -v", seed)
}

// TestSim plays many seeds and tells how often each circumstance occurred.
func TestSim(t *testing.T) {
	began := cpu()
	start, occurred, failed, events := time.Now(), make(map[string]int), 0, 0
	for i := range *seeds {
		s := *first + uint64(i)
		r := Run(Options{Seed: s, Rekey: *rekey, Impaired: *impaired})
		events += r.Events
		for k := range r.Kinds {
			occurred[k]++
		}
		if r.Violation != nil {
			failed++
			t.Errorf("seed %d: %v\nreplay: %s", s, r.Violation, replay(s))
			if failed <= 3 {
				t.Log(Run(Options{Seed: s, Rekey: *rekey, Impaired: *impaired, Tap: true}).Diagram)
			}
		}
		if failed >= *most {
			t.Fatal("too many failures")
		}
	}
	took := time.Since(start)
	t.Logf("%d runs in %.1f s, %.0f a minute on one core, %d events a run, %d failures", *seeds, took.Seconds(), float64(*seeds)/(cpu()-began).Minutes(), events / *seeds, failed)
	for _, k := range slices.Sorted(maps.Keys(occurred)) {
		t.Logf("%6.1f %% of runs: %s", 100*float64(occurred[k])/float64(*seeds), k)
	}
}

// cpu is the time that this process has computed, which a busy machine does not stretch.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestSeed plays one seed and shows what happened.
func TestSeed(t *testing.T) {
	if *seed == 0 {
		t.Skip("no -seed was given")
	}
	r := Run(Options{Seed: *seed, Rekey: *rekey, Impaired: *impaired, Tap: true})
	if testing.Verbose() {
		t.Logf("story:\n%s", strings.Join(r.Story, "\n"))
	}
	t.Logf("seed %d: %d events, %v virtual, trace %016x; %s", *seed, r.Events, r.Virtual, r.Hash, strings.Join(slices.Sorted(maps.Keys(r.Kinds)), ", "))
	if r.Violation != nil {
		t.Fatalf("%v\nreplay: %s\n%s", r.Violation, replay(*seed), r.Diagram)
	}
}

// TestDeterministic: the same seed gives the same trace, also with the tap on.
func TestDeterministic(t *testing.T) {
	for s := range uint64(20) {
		a, b, c := Run(Options{Seed: 1000 + s, Rekey: true}), Run(Options{Seed: 1000 + s, Rekey: true}), Run(Options{Seed: 1000 + s, Rekey: true, Tap: true})
		if a.Hash != b.Hash || a.Events != b.Events || a.Hash != c.Hash {
			t.Errorf("%s: seed %d gives traces %016x (%d events), %016x (%d) and %016x", Repeat, 1000+s, a.Hash, a.Events, b.Hash, b.Events, c.Hash)
		}
	}
}

// TestKeptSeeds plays the seeds that once found something.
func TestKeptSeeds(t *testing.T) {
	f, err := os.Open("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		number, what, _ := strings.Cut(lines.Text(), " ")
		if number == "" || number[0] == '#' {
			continue
		}
		s, err := strconv.ParseUint(number, 10, 64)
		if err != nil || what == "" {
			t.Fatalf("testdata/seeds.txt: %q is not a seed and what it found", lines.Text())
		}
		if r := Run(Options{Seed: s, Rekey: true}); r.Violation != nil {
			t.Errorf("seed %d, which once found %q: %v\nreplay: %s", s, what, r.Violation, replay(s))
		}
	}
}
