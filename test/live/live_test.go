// Package live runs the real daemons in namespaces of this machine, cygnet against cygnet: what the first hour goes wrong with, and crashes.
package live

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cygnet/test/rig"
)

var bin string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "cygnet-live")
	if err != nil {
		panic(err)
	}
	bin = dir
	if out, err := exec.Command("go", "build", "-o", bin+"/", "cygnet/cmd/...").CombinedOutput(); err != nil {
		fmt.Printf("build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// topologies makes their names unique: tests may run beside each other.
var topologies atomic.Int32

// topology builds the networks of one test.
func topology(t *testing.T) *rig.Topology {
	t.Helper()
	if os.Geteuid() != 0 {
		if strings.Contains(os.Getenv("REQUIRE"), "root") {
			t.Fatalf("REQUIRE has root, but: %v", rig.ErrNotRoot)
		}
		t.Skip(rig.ErrNotRoot)
	}
	topo, err := rig.NewTopology(fmt.Sprintf("cyl%d-%d", os.Getpid(), topologies.Add(1)), rig.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(topo.Remove)
	return topo
}

func tunnel(t *rig.Topology) rig.Tunnel {
	return rig.Tunnel{
		Local: t.A.WAN4, Remote: t.B.WAN4, LocalID: "gw-a.example", RemoteID: "gw-b.example",
		LocalTS: []string{t.A.LAN4.String()}, RemoteTS: []string{t.B.LAN4.String()},
		PSK: "correct horse battery staple", Suite: rig.CBC,
	}
}

func TestCrash(t *testing.T) {
	for _, c := range rig.Crashes {
		t.Run(c.Victim+"/"+c.Start, func(t *testing.T) {
			t.Parallel()
			topo := topology(t)
			report, err := rig.CrashSweep(topo, bin, t.TempDir(), tunnel(topo), "userspace", c)
			t.Log(report)
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// firstHour is a mistake of the first hour: how B's configuration differs from what A wants, and what A's and B's operators must read.
var firstHour = []struct {
	name      string
	b         func(*rig.Tunnel)
	up        []string // what ikectl up says at A
	responder []string // what B's log says
}{
	{"wrong PSK", func(b *rig.Tunnel) { b.PSK = "another secret altogether" },
		[]string{"AUTHENTICATION_FAILED", "gw-a.example", "gw-b.example", "conn.d/s2s.toml:4", "psk"},
		[]string{"gw-a.example", "PSK", "conn.d/s2s.toml:4"}},
	{"wrong identity", func(b *rig.Tunnel) { b.RemoteID = "branch.example" },
		[]string{"AUTHENTICATION_FAILED", "gw-a.example", "conn.d/s2s.toml:"},
		[]string{"gw-a.example", "branch.example", "conn.d/s2s.toml:3"}},
	{"no common IKE proposal", func(b *rig.Tunnel) { b.Suite.IKE = "aes256gcm16-prfsha256-ecp256" },
		[]string{"NO_PROPOSAL_CHOSEN", "AES-CBC-256", "MODP-2048", "conn.d/s2s.toml:5"},
		[]string{"AES-CBC-256", "AES-GCM-256", "MODP-2048", "ECP-256", "conn.d/s2s.toml:5"}},
	{"no common ESP proposal", func(b *rig.Tunnel) { b.Suite.ESP = "aes256gcm16" },
		[]string{"NO_PROPOSAL_CHOSEN", "AES-CBC-256", "conn.d/s2s.toml:11"},
		[]string{"AES-CBC-256", "AES-GCM-256", "conn.d/s2s.toml:11"}},
	{"selectors that do not meet", func(b *rig.Tunnel) { b.RemoteTS = []string{"10.9.0.0/16"} },
		[]string{"TS_UNACCEPTABLE", "10.1.0.0/16", "10.2.0.0/16", "conn.d/s2s.toml:"},
		[]string{"10.1.0.0/16", "10.9.0.0/16", "conn.d/s2s.toml:10"}},
}

func TestFirstHourPeer(t *testing.T) {
	topo := topology(t)
	for _, c := range firstHour {
		t.Run(c.name, func(t *testing.T) {
			x := tunnel(topo)
			y := x.Mirror()
			c.b(&y)
			b := startEnd(t, topo.B.Gateway, y)
			a := startEnd(t, topo.A.Gateway, x)
			out, code := a.Ikectl("up", "s2s", "--timeout", "20s")
			if code != 1 {
				t.Errorf("exit code %d, wanted 1 (failed)", code)
			}
			contains(t, "ikectl up", out, c.up)
			contains(t, "B's log", logged(b, c.responder), c.responder)
			for _, secret := range []string{x.PSK, y.PSK} {
				if strings.Contains(out+a.Log.String()+b.Log.String(), secret) {
					t.Error("a secret is in the output")
				}
			}
		})
	}
}

func TestFirstHourSilentPeer(t *testing.T) {
	topo := topology(t)
	a := startEnd(t, topo.A.Gateway, tunnel(topo))
	out, code := a.Ikectl("up", "s2s", "--timeout", "5s")
	if code != 4 {
		t.Errorf("exit code %d, wanted 4 (timeout)", code)
	}
	contains(t, "ikectl up", out, []string{"198.51.100.7:500", "no answer", "conn.d/s2s.toml:3: remote.address"})
}

func TestFirstHourNoDaemon(t *testing.T) {
	out, code := ikectl("--socket", filepath.Join(t.TempDir(), "control.sock"), "status")
	if code != 3 {
		t.Errorf("exit code %d, wanted 3 (no daemon)", code)
	}
	contains(t, "ikectl status", out, []string{"cygnetd", "control.sock", "not running"})
}

func TestFirstHourNoPermission(t *testing.T) {
	topo := topology(t)
	a := startEnd(t, topo.A.Gateway, tunnel(topo))
	for _, d := range []string{bin, a.Dir, filepath.Dir(a.Dir)} { // so that nobody reaches the tool and the socket
		os.Chmod(d, 0o755)
	}
	cmd := exec.Command("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", filepath.Join(bin, "ikectl"), "--socket", filepath.Join(a.Dir, "control.sock"), "up", "s2s")
	out, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, wanted 1", code)
	}
	contains(t, "ikectl up as nobody", string(out), []string{"permission", "root", "cygnet"})
}

func TestFirstHourConfig(t *testing.T) {
	good := rig.Tunnel{Local: netip.MustParseAddr("192.0.2.1"), Remote: netip.MustParseAddr("198.51.100.7"), LocalID: "gw-a.example", RemoteID: "gw-b.example",
		LocalTS: []string{"10.1.0.0/16"}, RemoteTS: []string{"10.2.0.0/16"}, PSK: "correct horse battery staple", Suite: rig.CBC}
	write := func(t *testing.T, change func(rig.Config)) string {
		dir := t.TempDir()
		c := rig.CygnetConfig(good, rig.CygnetOptions{Dataplane: "auto"})
		change(c)
		if err := c.Write(dir); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Run("good", func(t *testing.T) {
		if out, code := ikectl("check", write(t, func(rig.Config) {})); code != 0 {
			t.Errorf("exit code %d: %s", code, out)
		}
	})
	t.Run("typo", func(t *testing.T) {
		dir := write(t, func(c rig.Config) {
			c["conn.d/s2s.toml"] = strings.NewReplacer("remote = { address", "remot = { address", `start = "manual"`, `start = "bot"`).Replace(c["conn.d/s2s.toml"])
		})
		out, code := ikectl("check", dir)
		if code != 1 {
			t.Errorf("exit code %d, wanted 1", code)
		}
		contains(t, "ikectl check", out, []string{"s2s.toml:3", "remot", "remote", "s2s.toml:6", "bot", "boot"}) // all problems at once
	})
	t.Run("secret readable by others", func(t *testing.T) {
		dir := write(t, func(rig.Config) {})
		os.Chmod(filepath.Join(dir, "secrets/s2s"), 0o644)
		out, code := ikectl("check", dir)
		if code != 1 {
			t.Errorf("exit code %d, wanted 1", code)
		}
		contains(t, "ikectl check", out, []string{"secrets/s2s", "0644", "0600", "chmod", "s2s.toml:4"})
	})
}

func TestFirstHourPortInUse(t *testing.T) {
	topo := topology(t)
	var l *net.UDPConn
	if err := topo.A.Gateway.Do(func() (err error) {
		l, err = net.ListenUDP("udp4", &net.UDPAddr{Port: 500})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err := rig.StartCygnetEnd(topo.A.Gateway, bin, t.TempDir(), tunnel(topo), rig.CygnetOptions{Dataplane: "userspace"})
	if err == nil {
		t.Fatal("cygnetd started although its port is taken")
	}
	contains(t, "cygnetd", err.Error(), []string{"500", "in use", fmt.Sprintf("pid %d", os.Getpid()), "port to another port under [daemon] in cygnet.toml"})
}

func TestFirstHourMissingCapability(t *testing.T) {
	topo := topology(t)
	dir := t.TempDir()
	if err := rig.CygnetConfig(tunnel(topo), rig.CygnetOptions{Dataplane: "userspace"}).Write(dir); err != nil {
		t.Fatal(err)
	}
	out, err := topo.A.Gateway.Output("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin", filepath.Join(bin, "cygnetd"), "--config", dir, "--socket", filepath.Join(dir, "s"))
	if err == nil {
		t.Fatal("cygnetd started without CAP_NET_ADMIN")
	}
	contains(t, "cygnetd", out, []string{"CAP_NET_ADMIN"})
}

// startEnd starts a cygnetd for the duration of a test.
func startEnd(t *testing.T, ns rig.NS, x rig.Tunnel) *rig.CygnetEnd {
	t.Helper()
	e, err := rig.StartCygnetEnd(ns, bin, t.TempDir(), x, rig.CygnetOptions{Dataplane: "userspace"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log := e.Stop()
		if t.Failed() {
			t.Logf("log in %s:\n%s", ns, log)
		}
	})
	return e
}

func ikectl(arg ...string) (string, int) {
	cmd := exec.Command(filepath.Join(bin, "ikectl"), arg...)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// logged is the log of an end, once it says all that is wanted, or after five seconds: the peer of who writes it may have heard first.
func logged(e *rig.CygnetEnd, want []string) string {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text := e.Log.String()
		if time.Now().After(deadline) || !slices.ContainsFunc(want, func(w string) bool { return !strings.Contains(text, w) }) {
			return text
		}
	}
}

func contains(t *testing.T, what, text string, want []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%s does not say %q:\n%s", what, w, text)
		}
	}
}
