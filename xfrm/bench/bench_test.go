package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// network makes one that forwards without a tunnel, or skips where that cannot be.
func network(t *testing.T, name string, mtu int) *Network {
	t.Helper()
	w, err := NewNetwork(name, mtu, mtu)
	if err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "root") {
			t.Fatalf("REQUIRE has root, but: %v", err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(namespaces, prefix+"*"+name+"*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return w
}

func TestNetwork(t *testing.T) {
	w := network(t, "net", 1500)
	if _, err := Echo(w.ClientA, ClientB, 64, 1, 0); err == nil {
		t.Fatal("the clients reach each other without a tunnel and without routes")
	}
	if err := w.Forward(); err != nil {
		t.Fatal(err)
	}
	rtt, err := Echo(w.ClientA, ClientB, 1000, 3, time.Millisecond)
	if err != nil || rtt.Min <= 0 || rtt.Median < rtt.Min {
		t.Errorf("%+v %v", rtt, err)
	}
}

func TestTCP(t *testing.T) {
	w := network(t, "tcp", 1500)
	if err := w.Forward(); err != nil {
		t.Fatal(err)
	}
	for _, window := range []int{0, 64 << 10} {
		f, err := StartTCP(w.ClientA, w.ClientB, ClientB, 2, window)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Watch(t.Context(), f, 20*time.Millisecond, 100*time.Millisecond, os.Getpid())
		if err != nil || s.Octets == 0 || s.Elapsed < 100*time.Millisecond || s.Machine < 0 {
			t.Errorf("window %d: %+v %v", window, s, err)
		}
	}
}

func TestUDP(t *testing.T) {
	w := network(t, "udp", 1500)
	if err := w.Forward(); err != nil {
		t.Fatal(err)
	}
	f, err := StartUDP(w.ClientA, w.ClientB, ClientB, 1000, 2000)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Watch(t.Context(), f, 50*time.Millisecond, 200*time.Millisecond)
	if err != nil || s.Packets == 0 || s.Octets != 1000*s.Packets || s.PPS() > 4000 || s.Lost > 0.5 {
		t.Errorf("paced at 2000/s: %+v %v", s, err)
	}
}

// What nobody receives is lost.
func TestUDPLoss(t *testing.T) {
	w := network(t, "loss", 1500)
	if err := w.Forward(); err != nil {
		t.Fatal(err)
	}
	f, err := StartUDP(w.ClientA, w.ClientB, ClientB, 100, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if !until(t.Context(), 5*time.Second, func() bool { return f.packets.Load() > 0 }) {
		t.Error("nothing arrived")
	}
	if err := w.GatewayB.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0o644) }); err != nil {
		t.Fatal(err)
	}
	s, err := Watch(t.Context(), f, 0, 200*time.Millisecond)
	if err != nil || s.Lost == 0 {
		t.Errorf("a gateway that does not forward: %+v %v", s, err)
	}
}

func TestProcess(t *testing.T) {
	w := network(t, "proc", 1500)
	p, err := w.GatewayA.Start(exec.Command("sh", "-c", "echo here; cat /proc/net/dev; exec sleep 60"))
	if err != nil {
		t.Fatal(err)
	}
	if !until(t.Context(), 5*time.Second, func() bool { return strings.Contains(p.Output(), "wan:") }) {
		t.Errorf("the process does not see its namespace's link:\n%s", p.Output())
	}
	if _, err := CPU(p.PID()); err != nil {
		t.Error(err)
	}
	p.Stop()
	if !p.Dead() {
		t.Error("it still runs")
	}
	if _, err := CPU(p.PID()); err == nil {
		t.Error("a process that is no more has no CPU time")
	}
}

// A run that was killed leaves names, which the next one removes; those of a process that lives stay.
func TestSweep(t *testing.T) {
	network(t, "swp", 1500)
	left, err := newNamespace(prefix + "0-left") // no process has the number 0
	if err != nil {
		t.Fatal(err)
	}
	own, err := newNamespace(prefix + "1-other")
	if err != nil {
		t.Fatal(err)
	}
	defer own.remove()
	if err := Sweep(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(namespaces, left.Name)); err == nil {
		t.Errorf("%s is still there", left.Name)
	}
	if _, err := os.Stat(filepath.Join(namespaces, own.Name)); err != nil {
		t.Errorf("that of a living process: %v", err)
	}
}

func TestChecksum(t *testing.T) {
	// RFC 1071 section 3: the sum of these is ddf2.
	if c := checksum([]byte{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}); c != ^uint16(0xddf2) {
		t.Errorf("%04x", c)
	}
	if c := checksum([]byte{0x01}); c != ^uint16(0x0100) {
		t.Errorf("odd length: %04x", c)
	}
}

// The bare links are measured by every test, each line once.
func TestRunWithoutTunnel(t *testing.T) {
	network(t, "probe", 1500) // or skips
	seen := make(map[string]Result)
	err := Run(t.Context(), Request{MTUs: []int{1400}, Each: 100 * time.Millisecond}, func(r Result) { seen[r.Test] = r }, func(what string, why error) { t.Error(what, why) })
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tests(1400) {
		if r := seen[x.name]; r.Value <= 0 || r.Dataplane != "none" || r.MTU != 1400 || r.Unit == "" {
			t.Errorf("%s: %+v", x.name, r)
		}
	}
	if len(seen) != len(tests(1400)) {
		t.Errorf("%d lines of %d tests", len(seen), len(tests(1400)))
	}
}

// A tunnel that cannot be made is told once, with what its program said.
func TestRunTellsOnce(t *testing.T) {
	network(t, "probe", 1500) // or skips
	broken := filepath.Join(t.TempDir(), "cygnetd")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no such luck\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var told []string
	plain := &subject{mtu: 1400}
	r := Request{Cygnetd: broken, Dataplanes: []string{"kernel"}, Suites: []string{"aes256gcm16", "aes256-sha256"}}
	tell := once(func(what string, why error) { told = append(told, what+": "+why.Error()) })
	for _, esp := range r.Suites {
		tell(esp, r.tunnel(t.Context(), plain, "kernel", esp, func(Result) { t.Error("a result") }))
	}
	if len(told) != 1 || !strings.Contains(told[0], "no such luck") {
		t.Errorf("told %q", told)
	}
}
