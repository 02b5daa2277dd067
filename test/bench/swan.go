package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"cygnet/test/rig"
	"cygnet/xfrm/bench"
)

// swan starts a tunnel of strongSwan's userspace ESP, which has our MTU by itself.
func swan(suite rig.Suite) func(context.Context, options, *contestant) error {
	return func(ctx context.Context, o options, c *contestant) error {
		dir, err := os.MkdirTemp("", "bench-swan")
		if err != nil {
			return err
		}
		c.ends = append(c.ends, func() { os.RemoveAll(dir) })
		t := rig.Tunnel{
			Local: bench.GatewayA, Remote: bench.GatewayB, LocalID: "a.bench", RemoteID: "b.bench",
			LocalTS: []string{bench.LANA.String()}, RemoteTS: []string{bench.LANB.String()}, PSK: "in namespaces of its own", Suite: suite,
		}
		b, err := swanEnd(c, c.network.GatewayB, filepath.Join(dir, "b"), t.Mirror())
		if err != nil {
			return err
		}
		a, err := swanEnd(c, c.network.GatewayA, filepath.Join(dir, "a"), t)
		if err != nil {
			return err
		}
		if err := a.Up(); err != nil {
			return err
		}
		out, _ := exec.Command("dpkg-query", "-W", "-f", "${Version}", "strongswan-charon").Output()
		c.pids, c.version = []int{a.PID(), b.PID()}, "strongSwan "+strings.TrimSpace(string(out))+", esp = "+suite.ESP
		return c.network.Carries(ctx, speaker{a}, speaker{b})
	}
}

func swanEnd(c *contestant, n *bench.Namespace, dir string, t rig.Tunnel) (*rig.Swan, error) {
	s, err := rig.StartSwan(rig.NS(n.Name), dir, t, false)
	if err == nil {
		c.ends = append(c.ends, func() { s.Stop() })
	}
	return s, err
}

// speaker is a strongSwan as a bench.Speaker.
type speaker struct{ *rig.Swan }

func (s speaker) Output() string { return s.Log.String() }
