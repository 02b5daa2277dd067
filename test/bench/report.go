package main

import (
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
)

// row is a ratio and what it should be.
type row struct {
	what  string
	value func(results) float64
	must  float64 // to be reached
	aim   float64
	gates bool
	wall  bool // of wall-clock times, which swing with the load: gated at wallShare
	below bool // smaller is better
}

const (
	// wallShare of what must be reached is what a ratio of wall-clock times gates at.
	wallShare = 0.7
	// smokeShare likewise for every ratio in a short run.
	smokeShare = 0.5
)

func rows() []row {
	vs := func(f figure, a, b string) func(results) float64 {
		return func(r results) float64 { return r.ratio(f, a, b) }
	}
	return []row{
		{what: "AES-256-GCM to wireguard-go, " + string(perCPU), value: vs(perCPU, gcm, wireguard), must: 2.5, aim: 3.3},
	}
}

// limit is where the row fails.
func (w *row) limit(smoke bool) float64 {
	share := 1.0
	if w.wall {
		share = wallShare
	}
	if smoke {
		share = smokeShare
	}
	if w.below {
		return w.must / share
	}
	return w.must * share
}

func (w *row) ok(v, limit float64) bool {
	if w.below {
		return v <= limit
	}
	return v >= limit
}

func report(o options, r results) error {
	figures(r)
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "ratio\tis\tmust reach\tfails at\taim\t")
	var failed []string
	for _, w := range rows() {
		v := w.value(r)
		if v == 0 {
			continue
		}
		verdict, limit := "OK", w.limit(o.smoke)
		if !w.ok(v, w.must) {
			verdict = "below"
		}
		if !w.ok(v, limit) {
			failed = append(failed, w.what)
			verdict = "FAILED"
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t\n", w.what, v, w.must, limit, w.aim, verdict)
	}
	t.Flush()
	if len(failed) > 0 {
		return fmt.Errorf("below what must be reached: %s", strings.Join(failed, "; "))
	}
	return nil
}

// figures prints the medians.
func figures(r results) {
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	list := []figure{tcp1, tcp4, perCPU, pps, ppsCPU, rttIdle}
	fmt.Fprint(t, "medians\t")
	for _, f := range list {
		fmt.Fprintf(t, "%s\t", f)
	}
	fmt.Fprintln(t)
	for _, name := range []string{gcm, chacha, cbc, null, wireguard, libipsec, libCBC, openvpn, plain} {
		if len(r[tcp1][name]) == 0 {
			continue
		}
		fmt.Fprintf(t, "%s\t", name)
		for _, f := range list {
			fmt.Fprintf(t, "%.4g\t", median(r[f][name]))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	fmt.Println()
}
