package policy

import (
	"slices"
	"strings"
)

// Near returns those of names that resemble word most, three at most, for "did you mean". A name that begins with word is as near as a slip of
// one letter.
func Near(word string, names []string) (nearest []string) {
	best := 0
	for _, n := range names {
		d := distance(fold(word), fold(n))
		switch {
		case d > 1 && len(word) > 2 && strings.HasPrefix(fold(n), fold(word)):
			d = 1
		case d > 1+len(n)/3:
			continue
		}
		if nearest == nil || d < best {
			nearest, best = nil, d
		}
		if d == best && len(nearest) < 3 && !slices.Contains(nearest, n) {
			nearest = append(nearest, n)
		}
	}
	return nearest
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
