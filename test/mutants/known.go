package main

import (
	"fmt"
	"os"
	"strings"
)

// knownFile explains the mutants that no test can notice, because nothing that could be observed is different. An entry is the mutant as it is
// printed, without file and line, which change; the indented line below is the reason.
const knownFile = "test/mutants/survivors.txt"

// readKnown reads knownFile: reasons by key.
func readKnown() (map[string]string, error) {
	b, err := os.ReadFile(knownFile)
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	key := ""
	for i, line := range strings.Split(string(b), "\n") {
		switch {
		case line == "" || line[0] == '#':
		case line[0] == ' ' && key != "":
			known[key] = strings.TrimSpace(known[key] + " " + strings.TrimSpace(line))
		case line[0] == ' ':
			return nil, fmt.Errorf("%s:%d: a reason without a mutant above it", knownFile, i+1)
		default:
			key = line
			known[key] = ""
		}
	}
	for k, why := range known {
		if why == "" {
			return nil, fmt.Errorf("%s: %q has no reason below it", knownFile, k)
		}
	}
	return known, nil
}

// stale lists the entries of the mutated packages whose place is gone: the reason may have gone with it.
func stale(known map[string]string, sets []*set) []string {
	places := map[string]bool{}
	for _, s := range sets {
		for _, m := range s.sites {
			places[m.key] = true
		}
	}
	var gone []string
	for k := range known {
		dir, _, _ := strings.Cut(k, " ")
		for _, s := range sets {
			if s.dir == dir && !places[k] {
				gone = append(gone, k)
			}
		}
	}
	return gone
}
