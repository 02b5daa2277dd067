//go:build interop

package interop

import (
	"testing"

	"cygnet/test/rig"
)

// TestRigItself runs strongSwan against strongSwan: what fails here is the rig's fault or the host's, not cygnet's.
func TestRigItself(t *testing.T) {
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	check(t, row{peer: "strongSwan+strongSwan", role: "none", suite: rig.CBC, path: "IPv4",
		run: func(t *rig.Topology, dir string) (a, b, up rig.End, err error) {
			x := tunnel(t, rig.CBC, false, false)
			swan := func(n string) func(rig.NS, rig.Tunnel) (rig.End, error) {
				return func(ns rig.NS, x rig.Tunnel) (rig.End, error) { return wrap(rig.StartSwan(ns, dir+n, x, false)) }
			}
			return pair(t, x, true, swan("/own"), swan("/peer"))
		}})
}

// TestKernelRigItself runs strongSwan against Libreswan on the kernel's ESP.
func TestKernelRigItself(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	need(t, "peers", rig.HaveSwan())
	check(t, row{peer: "strongSwan+Libreswan", role: "none", suite: rig.SHA1, path: "IPv4",
		run: func(t *rig.Topology, dir string) (a, b, up rig.End, err error) {
			return pair(t, tunnel(t, rig.SHA1, false, false), true,
				func(ns rig.NS, x rig.Tunnel) (rig.End, error) { return wrap(rig.StartSwan(ns, dir+"/swan", x, true)) },
				func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
					return wrap(rig.StartLibreswan(ns, dir+"/libreswan", peersRoot(), x))
				})
		}})
}
