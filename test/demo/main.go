// Command demo is the main job on one machine: two sites in network namespaces, a cygnetd in each gateway with the files of
// configs/site-to-site, a tunnel brought up by ikectl, data from LAN to LAN, and proof that only ESP crosses the WAN.
//
//	demo [-bin DIR] [-configs DIR] [-keep]     runs it
//	demo -clean                                removes what an interrupted run left
package main

import (
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"cygnet/test/rig"
)

// prefix of the namespaces' names.
const prefix = "cygdemo"

func main() {
	bin := flag.String("bin", "bin", "folder of cygnetd and ikectl")
	configs := flag.String("configs", "configs/site-to-site", "folder of the configurations")
	clean := flag.Bool("clean", false, "only remove what an interrupted run left")
	flag.Parse()
	work := filepath.Join(os.TempDir(), prefix)
	if *clean {
		if err := cleanup(work); err != nil {
			fmt.Fprintln(os.Stderr, "demo:", err)
			os.Exit(1)
		}
		fmt.Println("removed: namespaces", prefix+"-*, folder", work)
		return
	}
	started := time.Now()
	if err := run(*bin, *configs, work); err != nil {
		fmt.Printf("\nFAILED: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("\nOK (%.1f s)\n", time.Since(started).Seconds())
}

// cleanup ends daemons of an earlier run, told by the control sockets in its folder, and removes namespaces and folder.
func cleanup(work string) error {
	pids, _ := filepath.Glob(filepath.Join(work, "*", "pid"))
	for _, f := range pids {
		var pid int
		b, _ := os.ReadFile(f)
		fmt.Sscan(string(b), &pid)
		// The number may have been given to another process since: only a process whose command names our folder is ended.
		if cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(cmd), work) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	rig.RemoveTopology(prefix)
	return os.RemoveAll(work)
}

func step(format string, a ...any) { fmt.Printf("\n== "+format+"\n", a...) }

func run(bin, configs, work string) error {
	if err := cleanup(work); err != nil {
		return err
	}
	step("two sites: lan-a 10.1.0.10 -- gw-a 192.0.2.1 -- wan -- gw-b 198.51.100.7 -- lan-b 10.2.0.10")
	t, err := rig.NewTopology(prefix, rig.Options{})
	if err != nil {
		return err
	}
	defer cleanup(work)
	bin, err = filepath.Abs(bin)
	if err != nil {
		return err
	}
	if err := rig.Ping(t.A.Gateway, t.B.WAN4); err != nil {
		return fmt.Errorf("the gateways do not reach each other: %w", err)
	}
	if out, err := t.A.Host.Output("ping", "-c", "1", "-W", "1", t.B.Host4.String()); err == nil {
		return fmt.Errorf("lan-a reaches lan-b without a tunnel:\n%s", out)
	}
	fmt.Println("gw-a reaches gw-b; lan-a does not reach lan-b yet")

	step("cygnetd in each gateway, files of %s", configs)
	psk := make([]byte, 32)
	rand.Read(psk)
	a, err := gateway(t.A.Gateway, bin, filepath.Join(configs, "gw-a"), filepath.Join(work, "gw-a"), "site-b", psk)
	if err != nil {
		return err
	}
	defer a.Signal(syscall.SIGKILL)
	b, err := gateway(t.B.Gateway, bin, filepath.Join(configs, "gw-b"), filepath.Join(work, "gw-b"), "site-a", psk)
	if err != nil {
		return err
	}
	defer b.Signal(syscall.SIGKILL)

	capture, err := t.Capture()
	if err != nil {
		return err
	}
	step("gw-a$ ikectl up site-b")
	out, code := a.Ikectl("up", "site-b")
	fmt.Print(out)
	if code != 0 {
		return fmt.Errorf("ikectl up: exit code %d\ngw-a says:\n%s\ngw-b says:\n%s", code, a.Log, b.Log)
	}

	step("lan-a <-> lan-b: ping and a hashed megabyte")
	if err := data(t); err != nil {
		return fmt.Errorf("%w\ngw-a says:\n%s\ngw-b says:\n%s", err, a.Log, b.Log)
	}

	step("what crossed the WAN")
	seen := capture.Stop()
	if err := onlyESP(t, seen); err != nil {
		return err
	}

	step("gw-a$ ikectl status")
	out, code = a.Ikectl("status")
	fmt.Print(out)
	if code != 0 {
		return fmt.Errorf("ikectl status: exit code %d", code)
	}

	step("gw-a$ ikectl down site-b, both daemons stopped: what is left")
	out, code = a.Ikectl("down", "site-b")
	fmt.Print(out)
	if code != 0 {
		return fmt.Errorf("ikectl down: exit code %d", code)
	}
	for _, d := range []*rig.Cygnet{a, b} {
		if err := d.Signal(syscall.SIGTERM); err != nil {
			return err
		}
	}
	for name, ns := range map[string]rig.NS{"gw-a": t.A.Gateway, "gw-b": t.B.Gateway} {
		left, err := rig.Leftovers(ns)
		if err != nil {
			return err
		}
		if left != "" {
			return fmt.Errorf("%s still has:\n%s", name, left)
		}
		fmt.Println(name + ": no SA, no policy, no route of ours, no TUN")
	}
	return nil
}

// gateway copies a configuration, gives it the secret, and starts cygnetd.
func gateway(ns rig.NS, bin, from, dir, secret string, psk []byte) (*rig.Cygnet, error) {
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		return nil, err
	}
	if err := (rig.Config{"secrets/" + secret: hex.EncodeToString(psk) + "\n"}).Write(dir); err != nil {
		return nil, err
	}
	c, err := rig.StartCygnet(ns, bin, dir)
	if err != nil {
		return nil, err
	}
	fmt.Printf("%s: %s\n", filepath.Base(dir), lastLine(c.Log.String()))
	return c, os.WriteFile(filepath.Join(dir, "pid"), []byte(fmt.Sprint(c.PID())), 0o644)
}

func lastLine(s string) string {
	l := strings.Split(strings.TrimSpace(s), "\n")
	return l[len(l)-1]
}

// data pings and sends a megabyte each way.
func data(t *rig.Topology) error {
	for _, d := range []struct {
		text     string
		from, to rig.Site
	}{{"lan-a -> lan-b", t.A, t.B}, {"lan-b -> lan-a", t.B, t.A}} {
		if err := rig.Ping(d.from.Host, d.to.Host4); err != nil {
			return fmt.Errorf("%s: %w", d.text, err)
		}
		sum, err := rig.SendHashed(d.from.Host, d.to.Host, d.to.Host4, 1<<20)
		if err != nil {
			return fmt.Errorf("%s: %w", d.text, err)
		}
		fmt.Printf("%s: 3 of 3 pings answered; 1048576 octets arrived, SHA-256 %s at both ends\n", d.text, sum[:16])
	}
	return nil
}

// onlyESP counts what the capture saw between the gateways and fails on anything that is neither IKE nor ESP.
func onlyESP(t *rig.Topology, seen []rig.Packet) error {
	counts := map[string]int{}
	for _, p := range seen {
		switch {
		case p.ESP():
			counts[fmt.Sprintf("ESP, SPI %08x, to %s", p.SPI, p.Dst)]++
		case p.IKE():
			counts["IKE"]++
		case p.Src.Is6() && p.Proto == 58: // neighbour discovery of the links themselves
		default:
			return fmt.Errorf("neither IKE nor ESP crossed the WAN: %s", p)
		}
	}
	if clear := t.Clear(seen); len(clear) > 0 {
		return fmt.Errorf("%d packets crossed the WAN in clear, first: %s", len(clear), clear[0])
	}
	if len(counts) < 3 { // IKE, and ESP in each direction
		return fmt.Errorf("the capture did not see IKE and ESP in both directions: %v", counts)
	}
	lines := make([]string, 0, len(counts))
	for what, n := range counts {
		lines = append(lines, fmt.Sprintf("%6d packets %s", n, what))
	}
	sort.Strings(lines)
	fmt.Println(strings.Join(lines, "\n"))
	fmt.Println("     0 packets in clear")
	return nil
}
