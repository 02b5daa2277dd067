// Command mutants plants bugs in the pure packages and counts how many the tests notice. All mutants of a package are compiled into one test
// binary by go's -overlay and switched by a number in the environment, so that a mutant costs a run and not a build.
//
//	mutants [-n 200] [-seed HEX] [-min 85] [-v] [PACKAGE...]
//
// Mutations: drop a statement, negate a condition, move a comparison by one, add one, swap two arguments. A mutant that does not
// compile does not count. Noticed means that a test that passes without the mutant fails or hangs with it.
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

// targets are the packages that are mutated by default, each with the packages whose tests must notice.
var targets = []target{
	{"ike/wire", nil},
	{"ike/suite", []string{"ike/auth"}},
	{"ike", []string{"test/script", "test/sim"}},
	{"ike/directory", []string{"test/script", "test/sim"}},
	{"xfrm/esp", nil},
	{"xfrm/ledger", nil},
}

// target is a mutated package and the further packages whose tests run against it.
type target struct {
	dir   string
	tests []string
}

func main() {
	n := flag.Int("n", 200, "mutants in all")
	seed := flag.String("seed", "0", "hexadecimal number that chooses them, such as a commit hash")
	least := flag.Int("min", 85, "percentage that must be noticed")
	verbose := flag.Bool("v", false, "also list the noticed ones")
	flag.Parse()
	chosen := targets
	if flag.NArg() > 0 {
		chosen = nil
		for _, a := range flag.Args() {
			for _, t := range targets {
				if t.dir == strings.Trim(strings.TrimPrefix(a, "./"), "/") {
					chosen = append(chosen, t)
				}
			}
		}
	}
	if len(chosen) == 0 {
		fmt.Fprintln(os.Stderr, "mutants: no such target; there are:")
		for _, t := range targets {
			fmt.Fprintln(os.Stderr, "  ", t.dir)
		}
		os.Exit(2)
	}
	if err := run(chosen, *n, *seed, *least, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ts []target, n int, seed string, least int, verbose bool) error {
	rng := rand.New(rand.NewPCG(number(seed), 1))
	work, err := os.MkdirTemp("", "cygnet-mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	sets := make([]*set, len(ts))
	total := 0
	for i, t := range ts {
		if sets[i], err = find(t); err != nil {
			return err
		}
		total += len(sets[i].sites)
	}
	noticed, counted := 0, 0
	var survivors []string
	for _, s := range sets {
		// Each package gets its share of the mutants, by the number of places where one can be planted.
		share := max(1, n*len(s.sites)/total)
		started := time.Now()
		if err := s.plant(work, share, rng); err != nil {
			return err
		}
		results, err := s.try()
		if err != nil {
			return err
		}
		here := 0
		for i, m := range s.planted {
			counted++
			if results[i] {
				here++
				if verbose {
					fmt.Println("noticed ", m)
				}
			} else {
				survivors = append(survivors, m.String())
			}
		}
		noticed += here
		fmt.Printf("%-14s %3d of %3d noticed (%d places, %.0f s)\n", s.dir, here, len(s.planted), len(s.sites), time.Since(started).Seconds())
	}
	for _, s := range survivors {
		fmt.Println("SURVIVED", s)
	}
	share := 100 * noticed / max(1, counted)
	fmt.Printf("%d of %d mutants noticed: %d %%, at least %d %% wanted\n", noticed, counted, share, least)
	if share < least {
		return fmt.Errorf("the tests notice too few planted bugs")
	}
	return nil
}

// number reads the first 15 digits of a hexadecimal number.
func number(s string) uint64 {
	n, _ := strconv.ParseUint(s[:min(len(s), 15)], 16, 64)
	return n
}
