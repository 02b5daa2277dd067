package main

import (
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// sealOpen are the benchmarks of the packet transform; they must not allocate. lookup is that of the policies.
const (
	sealOpen = "^Benchmark(Seal|Open)$"
	lookup   = "^BenchmarkLookup$"
)

// children is how many the look-up has in each case.
var children = []int{1, 1000, 10000}

// micro runs Go benchmarks and prints their output.
func micro(pattern, pkg, each string, count int) (string, error) {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", pattern, "-benchmem", "-benchtime", each, "-count", strconv.Itoa(count), pkg)
	out, err := cmd.CombinedOutput()
	fmt.Printf("%s\n", out)
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	return string(out), nil
}

// transforms runs the benchmarks of sealing and opening and refuses those that allocate. The key paths are printed for a person.
func transforms(o options) error {
	each := "100ms"
	if o.smoke {
		each = "10ms"
	}
	out, err := micro(sealOpen, "./xfrm/esp", each, 1)
	if err != nil {
		return err
	}
	if err := noAllocation(out); err != nil || o.smoke {
		return err
	}
	_, err = micro(".", "./ike/suite", each, 1)
	return err
}

// noAllocation wants benchmarks in the output of "go test -bench -benchmem", and none that allocates.
func noAllocation(out string) error {
	found := regexp.MustCompile(`(?m)^(Benchmark\S+)\s.*\s(\d+) allocs/op`).FindAllStringSubmatch(out, -1)
	if len(found) == 0 {
		return fmt.Errorf("no benchmark %s", sealOpen)
	}
	for _, f := range found {
		if f[2] != "0" {
			return fmt.Errorf("%s allocates %s times a packet, wanted 0", f[1], f[2])
		}
	}
	return nil
}

// lookups measures the look-up of policies and returns the nanoseconds by the number of children.
func lookups(o options) (map[int]float64, error) {
	each, count := "200ms", 5
	if o.smoke {
		each, count = "50ms", 3
	}
	out, err := micro(lookup, "./xfrm/userspace", each, count)
	if err != nil {
		return nil, err
	}
	return lookupTimes(out)
}

// lookupTimes reads the output of BenchmarkLookup: the least of each case, as what disturbs only adds.
func lookupTimes(out string) (map[int]float64, error) {
	least := make(map[int]float64)
	for _, f := range regexp.MustCompile(`(?m)^BenchmarkLookup/children=(\d+)\S*\s.*\s([\d.]+) cpu-ns/op`).FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(f[1])
		if ns, _ := strconv.ParseFloat(f[2], 64); least[n] == 0 || ns < least[n] {
			least[n] = ns
		}
	}
	for _, n := range children {
		if least[n] == 0 {
			return nil, fmt.Errorf("%s has no case of %d children", lookup, n)
		}
	}
	return least, nil
}
