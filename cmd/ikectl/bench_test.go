package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cygnet/xfrm/bench"
)

// Wrong flags are told before anything is made, each with what could stand there.
func TestBenchUsage(t *testing.T) {
	program := filepath.Join(t.TempDir(), "cygnetd")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--dataplane space":    "there are userspace and kernel",
		"--suite rot13":        `"rot13"`,
		"--suite aes256gcm16,": `--suite ""`,
		"--mtu 100":            "1280 to 9000",
		"--mtu many":           "1280 to 9000",
		"--each 1h":            "100ms to 1m",
		"--cygnetd /nowhere":   "/nowhere",
		"again":                "too much",
	} {
		_, errOut, exit := ikectl(context.Background(), append([]string{"bench", "--cygnetd", program}, strings.Fields(args)...)...)
		if exit != 2 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %q; wanted 2 and %q", args, exit, errOut, want)
		}
	}
	for _, s := range []string{"aes256gcm16", "chacha20poly1305", "aes256-sha256"} {
		if p := suiteProblem(s); p != nil {
			t.Errorf("%s: %s", s, p.Text)
		}
	}
}

func TestBenchTable(t *testing.T) {
	var out strings.Builder
	table := benchTable{c: &command{out: &out}}
	lost, cpu := 12.25, 99.6
	table.line(bench.Result{Dataplane: "none", MTU: 1400, Test: "UDP, 64 octets", Value: 200000, Unit: "packets/s"})
	if table.measured {
		t.Error("the bare links count as a tunnel")
	}
	r := bench.Result{Dataplane: "userspace", Suite: "aes256gcm16", MTU: 1400, Test: "UDP, 64 octets", Value: 180000, Unit: "packets/s", Lost: &lost, CPU: &cpu,
		Generator: 200000, LimitedByGenerator: true}
	table.line(r)
	table.line(r)
	table.skipped("kernel, aes256gcm16, MTU 1400", errors.New("the kernel has no ESP"))
	for want, times := range map[string]int{
		"the same links without encryption, MTU 1400": 1, "userspace, aes256gcm16, MTU 1400": 1, "180000 packets/s": 2, "12.2 %": 2, "100 %": 2,
		"limited by the generator": 2, "kernel, aes256gcm16, MTU 1400: not measured: the kernel has no ESP": 1,
	} {
		if n := strings.Count(out.String(), want); n != times {
			t.Errorf("%q stands %d times, wanted %d:\n%s", want, n, times, out.String())
		}
	}
	if !table.measured {
		t.Error("a tunnel was measured")
	}
}
