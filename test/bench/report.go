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
	const cpu = " per gateway CPU second"
	list := []row{
		{what: "AES-256-GCM to wireguard-go, TCP" + cpu, value: vs(perCPU, gcm, wireguard), must: 2.5, aim: 3.3},
		{what: "ChaCha20-Poly1305 to wireguard-go, TCP" + cpu, value: vs(perCPU, chacha, wireguard), must: 1.6, aim: 2},
		{what: "AES-256-CBC, SHA2-256 to wireguard-go, TCP" + cpu, value: vs(perCPU, cbc, wireguard), must: 0.85, aim: 1.3},
		{what: "AES-256-GCM to wireguard-go, 64-octet packets" + cpu, value: vs(ppsCPU, gcm, wireguard), must: 6, aim: 8},
		{what: "AES-256-GCM to no cryptography, TCP" + cpu, value: vs(perCPU, gcm, null), must: 0.6, aim: 0.7},
	}
	for _, f := range []figure{tcp1, tcp4} {
		streams, _, _ := strings.Cut(string(f), ", Gbit")
		for _, w := range []row{
			{what: "AES-256-GCM to wireguard-go, ", value: vs(f, gcm, wireguard), must: 1.8, aim: 2.5},
			{what: "AES-256-GCM to kernel-libipsec, ", value: vs(f, gcm, libipsec), must: 7, aim: 10},
			{what: "AES-256-CBC, SHA2-256 to kernel-libipsec, ", value: vs(f, cbc, libCBC), must: 3, aim: 10},
			{what: "AES-256-GCM to OpenVPN, ", value: vs(f, gcm, openvpn), must: 7, aim: 10},
			{what: "AES-256-GCM to plain forwarding, ", value: vs(f, gcm, plain), must: 0.25, aim: 0.4},
		} {
			w.what, w.wall = w.what+streams, true
			list = append(list, w)
		}
	}
	for _, n := range children[1:] {
		list = append(list, row{what: fmt.Sprintf("policy look-up, %d children to 1, ns", n), value: vs(lookupNs, lookupCase(n), lookupCase(1)), must: 1.3, aim: 1.1, below: true})
	}
	return append(list, row{what: "idle round trip added, AES-256-GCM to wireguard-go", value: added, must: 0.5, aim: 0.35, wall: true, below: true})
}

// added is the ratio of what two tunnels add to the round trip of plain forwarding.
func added(r results) float64 {
	least := median(r[rttIdle][plain])
	if wg := median(r[rttIdle][wireguard]) - least; least > 0 && wg > 0 {
		return max(0.01, (median(r[rttIdle][gcm])-least)/wg)
	}
	return 0
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
	table(r)
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "ratio\tis\tmust reach\tfails at\taim\t")
	failed := 0
	for _, w := range rows() {
		v := w.value(r)
		if v == 0 {
			continue
		}
		verdict, limit := "OK", w.limit(o.smoke)
		if !w.ok(v, w.must) {
			verdict = "below"
		}
		if !w.ok(v, limit) && !(o.smoke && w.wall) {
			failed++
			verdict = "FAILED"
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t%.2f\t%s\t\n", w.what, v, w.must, limit, w.aim, verdict)
	}
	t.Flush()
	if failed > 0 {
		return fmt.Errorf("ratios that failed, of those above: %d", failed)
	}
	return nil
}

// figures are those of the table of medians, in its order.
func figures() []figure { return []figure{tcp1, tcp4, perCPU, pps, ppsCPU, rttIdle} }

// table prints the medians.
func table(r results) {
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "medians\tTCP, Gbit/s\tTCP, 4 streams\tGbit per gateway\t64-octet UDP\tpackets per gateway\tround trip")
	fmt.Fprintln(t, "\t1 stream\tGbit/s\tCPU second\tpackets/s\tCPU second\tidle, us")
	for _, name := range []string{gcm, chacha, cbc, null, wireguard, libipsec, libCBC, openvpn, plain} {
		if len(r[tcp1][name]) == 0 {
			continue
		}
		fmt.Fprint(t, name)
		for _, f := range figures() {
			if len(r[f][name]) == 0 {
				fmt.Fprint(t, "\t-")
				continue
			}
			fmt.Fprintf(t, "\t%s", short(median(r[f][name])))
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	fmt.Println()
}

// short prints three digits or all before the point.
func short(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
