//go:build interop

package interop

import (
	"fmt"
	"os"
	"testing"
	"time"

	"cygnet/test/rig"
)

// renewal is a way to authenticate anew while the tunnel is in use.
type renewal struct {
	path         string
	cygnet, swan string // keys of the connections
}

// renewals: the responder says how long by AUTH_LIFETIME (RFC 4478), and the initiator acts.
var renewals = []renewal{
	{"reauth by us", "rekey_time = \"0s\"\nreauth_time = \"12s\"\nover_time = \"1m\"\nrand_time = \"0s\"\n", "rekey_time = 0"},
	{"reauth by peer", "rekey_time = \"0s\"\n", "rekey_time = 0\n    reauth_time = 12s\n    over_time = 60s\n    rand_time = 0s"},
}

// shower is an end that names its IKE SA.
type shower interface{ IKESA() (string, error) }

func TestUserspaceRenewal(t *testing.T) { renewalRows(t, "userspace", "root", root()) }

func TestKernelRenewal(t *testing.T) { renewalRows(t, "kernel", "kernel-esp", kernelESP()) }

func renewalRows(t *testing.T, plane, what string, probe error) {
	need(t, what, probe)
	need(t, "peers", rig.HaveSwan())
	for _, v := range renewals {
		for _, initiate := range []bool{true, false} {
			r := swanRow(rig.GCM, plane, initiate, false, false)
			r.path = v.path
			t.Run(r.name(), func(t *testing.T) {
				if leftOut(r.name()) {
					record(r.peer, r.role, r.suite.Name, r.path, "NOT RUN for time", "")
					return
				}
				result := "OK"
				if log, err := renew(r, v, plane, initiate, t.TempDir()); err != nil {
					t.Logf("first try: %v\n%s", err, log)
					result = "FLAKY"
					if log, err = renew(r, v, plane, initiate, t.TempDir()); err != nil {
						result = "FAIL"
						t.Errorf("second try: %v\n%s", err, log)
					}
				}
				record(r.peer, r.role, r.suite.Name, r.path, result, "")
			})
		}
	}
}

// renew proves the tunnel, waits until both ends show another IKE SA, and proves it again.
func renew(r row, v renewal, plane string, initiate bool, dir string) (log string, err error) {
	topo, err := rig.NewTopology(fmt.Sprintf("cyr%d", os.Getpid()), rig.Options{})
	if err != nil {
		return "", err
	}
	defer topo.Remove()
	x := tunnel(topo, r.suite, false, false)
	x.Cygnet, x.Swan = v.cygnet, v.swan
	a, b, up, err := pair(topo, x, initiate,
		func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
			return wrap(rig.StartCygnetEnd(ns, bin, dir+"/own", x, rig.CygnetOptions{Dataplane: plane}))
		},
		func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
			return wrap(rig.StartSwan(ns, dir+"/swan", x, plane == "kernel"))
		})
	defer func() {
		for name, e := range map[string]rig.End{"A": a, "B": b} {
			if e != nil {
				log += fmt.Sprintf("---- %s\n%s\n", name, e.Stop())
			}
		}
	}()
	if err != nil {
		return "", err
	}
	if err := up.Up(); err != nil {
		return "", err
	}
	before, err := rig.Prove(topo, a, b, x)
	if err != nil {
		return "", fmt.Errorf("before: %w", err)
	}
	first, err := agreed(a, b, "")
	if err != nil {
		return "", fmt.Errorf("before: %w", err)
	}
	if _, err = agreed(a, b, first); err != nil {
		return "", err
	}
	after, err := rig.Prove(topo, a, b, x)
	if err != nil {
		return "", fmt.Errorf("after: %w", err)
	}
	if before.A.SPIIn == after.A.SPIIn || before.A.SPIOut == after.A.SPIOut {
		return "", fmt.Errorf("child %08x/%08x before, %08x/%08x after", before.A.SPIIn, before.A.SPIOut, after.A.SPIIn, after.A.SPIOut)
	}
	if err := up.Down(); err != nil {
		return "", err
	}
	for _, e := range []rig.End{a, b} {
		if err := rig.Gone(e); err != nil {
			return "", err
		}
	}
	return "", nil
}

// agreed waits until both ends show one IKE SA, the same one, and another than before.
func agreed(a, b rig.End, before string) (now string, err error) {
	if !rig.Until(30*time.Second, func() bool {
		x, errA := a.(shower).IKESA()
		y, errB := b.(shower).IKESA()
		now, err = x, fmt.Errorf("A shows %q (%v), B shows %q (%v), before it was %q", x, errA, y, errB, before)
		return errA == nil && errB == nil && x == y && x != before
	}) {
		return "", err
	}
	return now, nil
}
