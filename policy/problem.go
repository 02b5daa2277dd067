package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with a configuration.
type Problem struct {
	File    string
	Line    int    // 0: the file as a whole
	Code    string // stable: "unknown-key", "wrong-type", "overlap", "never-matches", "secret-readable", ...
	Text    string // what was found and what was wanted
	Hint    string // what to change
	Warning bool   // does not refuse the configuration
}

// String is the problem as a person reads it: "conn.d/site-b.toml:7: unknown key "remot" in connection.site-b; did you mean remote?".
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(p.Text)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Fatal says whether any problem refuses the configuration.
func Fatal(ps []Problem) bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return !p.Warning })
}

// maxProblems is as many as a person reads; the rest is counted.
const maxProblems = 200

// bounded keeps the first problems, errors before warnings where not all can stay.
func bounded(ps []Problem) []Problem {
	if len(ps) <= maxProblems {
		return ps
	}
	errors := 0
	for _, p := range ps {
		if !p.Warning {
			errors++
		}
	}
	keepErrors := min(errors, maxProblems)
	keepWarnings := maxProblems - keepErrors
	out := make([]Problem, 0, maxProblems+1)
	for _, p := range ps {
		keep := &keepErrors
		if p.Warning {
			keep = &keepWarnings
		}
		if *keep > 0 {
			*keep--
			out = append(out, p)
		}
	}
	more := len(ps) - len(out)
	return append(out, Problem{Code: "more", Warning: errors <= maxProblems, Text: fmt.Sprintf("and %d more like these", more), Hint: "mend those above first"})
}

// inOrder sorts problems by file, in the order in which the files were given, and line.
func inOrder(ps []Problem, sources []Source) {
	rank := map[string]int{}
	for i, s := range sources {
		if _, ok := rank[s.Name]; !ok {
			rank[s.Name] = i
		}
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(rank[a.File], rank[b.File]), cmp.Compare(a.Line, b.Line))
	})
}
