package policy

import (
	"slices"
	"strings"
)

// near returns the names that resemble word, the nearest first, three at most.
func near(word string, names []string) []string {
	type scored struct {
		name string
		d    int
	}
	var list []scored
	for _, n := range names {
		d := distance(fold(word), fold(n))
		if d <= 1+len(n)/3 || len(word) > 2 && strings.HasPrefix(fold(n), fold(word)) {
			list = append(list, scored{n, d})
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return a.d - b.d })
	var out []string
	for _, s := range list[:min(len(list), 3)] {
		if s.d <= list[0].d+1 {
			out = append(out, s.name)
		}
	}
	return out
}

func fold(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
}

// distance is Levenshtein's, with a swap of neighbours as one step.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
