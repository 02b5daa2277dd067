package main

import (
	"strings"
	"testing"
)

func TestMedianAndRatio(t *testing.T) {
	if m := median([]float64{9, 1, 5}); m != 5 {
		t.Errorf("median of three: %v", m)
	}
	if m := median([]float64{9, 1, 5, 7}); m != 6 {
		t.Errorf("median of four: %v", m)
	}
	r := results{tcp1: {"a": {4, 9, 10}, "b": {2, 3, 1}}}
	if v := r.ratio(tcp1, "a", "b"); v != 3 {
		t.Errorf("ratio %v, want the median 3 of the rounds' 2, 3, 10", v)
	}
	if v := r.ratio(tcp1, "a", "absent"); v != 0 {
		t.Errorf("ratio to nobody: %v", v)
	}
}

// A row that gates fails just below what must be reached, one of wall-clock times at 0.7 of it, in a short run every one that gates at half.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		row    row
		smoke  bool
		ok, no float64
	}{
		{row{must: 2.5}, false, 2.5, 2.49},
		{row{must: 2.5}, true, 1.25, 1.24},
		{row{must: 1, wall: true}, false, 0.7, 0.69},
		{row{must: 0.5, wall: true, below: true}, false, 0.71, 0.72},
		{row{must: 1.3, below: true}, false, 1.3, 1.31},
		{row{must: 1.3, below: true}, true, 2.6, 2.61},
	} {
		limit := c.row.limit(c.smoke)
		if !c.row.ok(c.ok, limit) || c.row.ok(c.no, limit) {
			t.Errorf("%+v, smoke %v: limit %v, wanted between %v and %v", c.row, c.smoke, limit, c.ok, c.no)
		}
	}
}

func TestReadBenchmarks(t *testing.T) {
	const out = `goos: linux
BenchmarkLookup/children=1-2         	 8399799	        99 ns/op	45.29 cpu-ns/op	       0 B/op	       0 allocs/op
BenchmarkLookup/children=1-2         	 8194730	        99 ns/op	44.84 cpu-ns/op	       0 B/op	       0 allocs/op
BenchmarkLookup/children=1000-2      	 5823340	        99 ns/op	60.06 cpu-ns/op	       0 B/op	       0 allocs/op
BenchmarkLookup/children=10000-2     	 4854681	        99 ns/op	70 cpu-ns/op	       0 B/op	       0 allocs/op
PASS
`
	if ns, err := lookupTimes(out); err != nil || ns[1] != 44.84 || ns[1000] != 60.06 || ns[10000] != 70 {
		t.Errorf("%v %v", ns, err)
	}
	if _, err := lookupTimes("PASS\n"); err == nil {
		t.Error("no benchmark, no error")
	}
	if err := noAllocation(out); err != nil {
		t.Error(err)
	}
	if err := noAllocation(strings.Replace(out, "0 allocs/op", "1 allocs/op", 1)); err == nil {
		t.Error("an allocation was not seen")
	}
	if err := noAllocation("PASS\n"); err == nil {
		t.Error("no benchmark, no error")
	}
}

// Every contestant that a ratio names is there, in a short run those of the gates.
func TestRowsHaveContestants(t *testing.T) {
	r := results{lookupNs: {}}
	for _, n := range children {
		r[lookupNs][lookupCase(n)] = []float64{50}
	}
	for _, c := range contestants(options{}) {
		for _, f := range figures() {
			r.add(f, c, 2)
		}
	}
	r[rttIdle][plain] = []float64{1}
	for _, w := range rows() {
		if w.value(r) == 0 {
			t.Errorf("nothing was measured for %q", w.what)
		}
	}
	short := make(map[string]bool)
	for _, c := range contestants(options{smoke: true}) {
		short[c.name] = true
	}
	for _, name := range []string{gcm, chacha, cbc, null, wireguard} {
		if !short[name] {
			t.Errorf("%s is missing in a short run", name)
		}
	}
}
