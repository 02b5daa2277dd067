//go:build interop

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cygnet/test/rig"
)

// libreRow is cygnet on kernel ESP against Libreswan.
func libreRow(s rig.Suite, initiate bool) row {
	role := "responds"
	if initiate {
		role = "initiates"
	}
	return row{peer: "Libreswan kernel", role: role, suite: s, path: "IPv4",
		run: func(t *rig.Topology, dir string) (a, b, up rig.End, err error) {
			own := func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
				return wrap(rig.StartCygnetEnd(ns, bin, dir+"/own", x, rig.CygnetOptions{Dataplane: "kernel"}))
			}
			libre := func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
				return wrap(rig.StartLibreswan(ns, dir+"/libreswan", peersRoot(), x))
			}
			return pair(t, tunnel(t, s, false, false), initiate, own, libre)
		}}
}

// ikedRow is cygnet on kernel ESP against OpenIKED.
func ikedRow(s rig.Suite, initiate bool) row {
	role := "responds"
	if initiate {
		role = "initiates"
	}
	return row{peer: "OpenIKED kernel", role: role, suite: s, path: "IPv4",
		run: func(t *rig.Topology, dir string) (a, b, up rig.End, err error) {
			own := func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
				return wrap(rig.StartCygnetEnd(ns, bin, dir+"/own", x, rig.CygnetOptions{Dataplane: "kernel"}))
			}
			iked := func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
				return wrap(rig.StartOpenIKED(ns, dir+"/iked", peersRoot(), x, !initiate))
			}
			return pair(t, tunnel(t, s, false, false), initiate, own, iked)
		}}
}

func TestKernelOpenIKED(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	_, err := os.Stat(peersRoot())
	need(t, "peers", err)
	for _, s := range []rig.Suite{rig.SHA512, rig.SHA1} {
		for _, initiate := range []bool{true, false} {
			check(t, ikedRow(s, initiate))
		}
	}
}

// peersRoot is the script that unpacks and enters the newest peers.
func peersRoot() string {
	if p := os.Getenv("PEERS_ROOT"); p != "" {
		return p
	}
	p, _ := filepath.Abs("../lab/peers-root")
	return p
}

func TestKernelOwn(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	for _, s := range rig.ESPSuites {
		check(t, ownRow(s, "kernel", "kernel", false, false, false))
	}
	check(t, ownRow(rig.GCM, "kernel", "kernel", true, true, false))
	check(t, ownRow(rig.CBC, "kernel", "kernel", false, true, false))
	check(t, ownRow(rig.CBC, "kernel", "kernel", true, false, false))
	check(t, ownRow(rig.CBC, "kernel", "kernel", false, false, true))
	check(t, ownRow(rig.CBC, "kernel", "userspace", false, false, false))
	check(t, ownRow(rig.GCM, "userspace", "kernel", false, false, false))
}

func TestKernelStrongSwan(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	need(t, "peers", rig.HaveSwan())
	for _, s := range []rig.Suite{rig.CBC, rig.GCM, rig.ChaCha, rig.SHA1} {
		for _, initiate := range []bool{true, false} {
			check(t, swanRow(s, "kernel", initiate, false, false))
		}
	}
	check(t, swanRow(rig.CBC, "kernel", true, false, true))
	check(t, swanRow(rig.CBC, "kernel", false, false, true))
	check(t, swanRow(rig.GCM, "kernel", true, true, false))
}

func TestKernelLibreswan(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	_, err := os.Stat(peersRoot())
	need(t, "peers", err)
	for _, s := range []rig.Suite{rig.SHA1, rig.CBC, rig.GCM, rig.ChaCha} {
		for _, initiate := range []bool{true, false} {
			check(t, libreRow(s, initiate))
		}
	}
}

// TestKernelCrash is a row for each sweep: see rig.CrashSweep.
func TestKernelCrash(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	for _, c := range rig.Crashes {
		line{peer: "cygnet kernel", role: "both", subject: "SIGKILL of the " + c.Victim + ", start = " + c.Start, path: "IPv4"}.run(t, func(s *stage) string {
			report, err := rig.CrashSweep(s.Topology, bin, s.dir, tunnel(s.Topology, rig.CBC, false, false), "kernel", c)
			t.Log(report)
			s.must(err)
			return fmt.Sprintf("%d points, %s", len(c.Points()), report[strings.LastIndex(report, "\n")+1:])
		})
	}
}

// kernelESP says why the kernel cannot do ESP, or nil: it adds an SA and the namespace is thrown away.
func kernelESP() error {
	if err := root(); err != nil {
		return err
	}
	return rig.KernelESP()
}
