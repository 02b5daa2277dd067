package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// variable names the mutant that is switched on.
const variable = "CYGNET_MUTANT"

// support goes into each mutated package.
const support = `package %s

import (
	"os"
	"strconv"
)

var mutantOn, _ = strconv.Atoi(os.Getenv("` + variable + `"))

func mutantIs(n int) bool { return n == mutantOn }

func mutantEither[T any](n int, yes, no T) T {
	if n == mutantOn {
		return yes
	}
	return no
}
`

// plant draws n sites that compile together and builds the test binaries with all of them.
func (s *set) plant(work string, n int, rng *rand.Rand) error {
	order := rng.Perm(len(s.sites))
	var chosen []numbered
	taken := map[string][]site{}
	for _, i := range order {
		c := s.sites[i]
		if len(chosen) == 2*n { // some will not compile
			break
		}
		if slices.ContainsFunc(taken[c.file], func(o site) bool { return c.from < o.to && o.from < c.to }) {
			continue
		}
		taken[c.file] = append(taken[c.file], c)
		chosen = append(chosen, numbered{c, len(chosen) + 1})
	}
	dir := filepath.Join(work, strings.ReplaceAll(s.dir, "/", "-"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for {
		overlay, lines, err := s.overlay(dir, chosen)
		if err != nil {
			return err
		}
		out, err := exec.Command("go", "build", "-overlay", overlay, "-gcflags=-e", "./"+s.dir).CombinedOutput()
		if err == nil {
			break
		}
		bad := map[int]bool{}
		for _, m := range regexp.MustCompile(`(?m)^(\S+\.go):(\d+):`).FindAllSubmatch(out, -1) {
			line, _ := strconv.Atoi(string(m[2]))
			for _, number := range lines[filepath.Base(string(m[1]))][line] {
				bad[number] = true
			}
		}
		if len(bad) == 0 {
			return fmt.Errorf("%s does not build, and not because of a mutant:\n%s", s.dir, out)
		}
		chosen = slices.DeleteFunc(chosen, func(c numbered) bool { return bad[c.number] })
	}
	// The numbers of those that remain are given anew, so that the binaries hold exactly the mutants that are counted.
	chosen = chosen[:min(n, len(chosen))]
	s.planted = nil
	for i := range chosen {
		chosen[i].number = i + 1
		s.planted = append(s.planted, chosen[i].site)
	}
	overlay, _, err := s.overlay(dir, chosen)
	if err != nil {
		return err
	}
	for _, p := range s.packages() {
		bin := filepath.Join(dir, strings.ReplaceAll(p, "/", "-")+".test")
		if out, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", bin, "./"+p).CombinedOutput(); err != nil {
			return fmt.Errorf("build the tests of %s: %w\n%s", p, err, out)
		}
		s.bins = append(s.bins, bin)
	}
	return nil
}

// overlay writes the mutated files and the overlay's description. lines says which mutants stand on a line of a mutated file.
func (s *set) overlay(dir string, chosen []numbered) (path string, lines map[string]map[int][]int, err error) {
	replace := map[string]string{}
	lines = map[string]map[int][]int{}
	here, err := os.Getwd()
	if err != nil {
		return "", nil, err
	}
	var pkg string
	for file, src := range s.files {
		f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.PackageClauseOnly)
		if err != nil {
			return "", nil, err
		}
		pkg = f.Name.Name
		var mine []numbered
		for _, c := range chosen {
			if c.file == file {
				mine = append(mine, c)
			}
		}
		slices.SortFunc(mine, func(a, b numbered) int { return a.from - b.from })
		at := map[int][]int{}
		for _, c := range mine {
			for l := c.line; l <= c.line+strings.Count(c.old, "\n"); l++ {
				at[l] = append(at[l], c.number)
			}
		}
		lines[filepath.Base(file)] = at
		out := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(out, apply(src, mine), 0o644); err != nil {
			return "", nil, err
		}
		replace[filepath.Join(here, file)] = out
	}
	out := filepath.Join(dir, "zz_mutant.go")
	if err := os.WriteFile(out, fmt.Appendf(nil, support, pkg), 0o644); err != nil {
		return "", nil, err
	}
	replace[filepath.Join(here, s.dir, "zz_mutant.go")] = out
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, lines, os.WriteFile(path, b, 0o644)
}

// outcome is how a mutant fared.
type outcome int

const (
	survived outcome = iota
	failed           // a test failed
	hung             // the tests did not end
)

// longest is the wall time that a test binary may take: much, since the machine may be busy. What loops is ended by the limit on its CPU time.
const longest = 10 * time.Minute

// try runs the tests without a mutant, then with each, and says how each fared.
func (s *set) try() ([]outcome, error) {
	limits := make([]time.Duration, len(s.bins))
	for i := range s.bins {
		out, o, took := s.test(i, 0, longest)
		if o != survived {
			return nil, fmt.Errorf("the tests fail without a mutant:\n%s", out)
		}
		limits[i] = 5*time.Second + 4*took
	}
	outcomes := make([]outcome, len(s.planted))
	var wg sync.WaitGroup
	slots := make(chan struct{}, 2)
	for m := range s.planted {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			for i := 0; i < len(s.bins) && outcomes[m] == survived; i++ {
				_, outcomes[m], _ = s.test(i, m+1, limits[i])
			}
		})
	}
	wg.Wait()
	return outcomes, nil
}

// test runs a test binary in its package's folder with one mutant switched on and so much CPU time; it returns what was printed, the outcome, and the CPU
// time used, which does not depend on what else the machine does.
func (s *set) test(bin, mutant int, limit time.Duration) (string, outcome, time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	// A mutant may allocate without end: the limit makes that a failure of its own and not of the machine.
	limits := fmt.Sprintf(`ulimit -v 8000000 -t %d; exec "$0" "$@"`, int(limit.Seconds())+1)
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", limits, s.bins[bin], "-test.failfast", "-test.short"}, s.args(bin)...)...)
	cmd.Dir = s.packages()[bin]
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", variable, mutant))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if err == nil {
		return out.String(), survived, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return out.String(), failed, 0
	}
	return out.String(), hung, 0 // killed: too much CPU time, or too long
}

// args are further arguments of a test binary: the first seed that fails says enough.
func (s *set) args(bin int) []string {
	if s.packages()[bin] == "test/sim" {
		return []string{"-failures", "1"}
	}
	return nil
}

// packages are those whose tests must notice, the mutated one first, as their binaries stand in bins.
func (s *set) packages() []string { return append([]string{s.dir}, s.tests...) }
