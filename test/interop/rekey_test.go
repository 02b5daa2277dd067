//go:build interop

package interop

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"cygnet/test/rig"
)

// rekeys of a row: how often, and how long they may take.
const (
	rekeysWanted = 4
	rekeysWithin = 40 * time.Second
)

// TestUserspaceStrongSwanRekey: one side or both rekey the child every 3 s while pings flood through the tunnel.
func TestUserspaceStrongSwanRekey(t *testing.T) {
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	for _, s := range []rig.Suite{rig.CBC, rig.GCM} {
		for _, initiate := range []bool{true, false} {
			for _, who := range []string{"own", "peer", "both"} {
				checkRekey(t, s, "userspace", initiate, who)
			}
		}
	}
}

// TestKernelStrongSwanRekey is the same on the kernel's ESP.
func TestKernelStrongSwanRekey(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	need(t, "peers", rig.HaveSwan())
	for _, initiate := range []bool{true, false} {
		for _, who := range []string{"own", "peer", "both"} {
			checkRekey(t, rig.GCM, "kernel", initiate, who)
		}
	}
}

func checkRekey(t *testing.T, s rig.Suite, plane string, initiate bool, who string) {
	role := map[bool]string{true: "initiates", false: "responds"}[initiate]
	path := "rekey: " + who
	name := strings.NewReplacer(" ", "_", "/", "+").Replace(strings.Join([]string{"strongSwan " + plane, role, s.Name, path}, "/"))
	t.Run(name, func(t *testing.T) {
		result := "OK"
		said, log, err := tryRekey(t, s, plane, initiate, who)
		if err != nil {
			t.Logf("first try: %v\n%s", err, log)
			result = "FLAKY"
			if said, log, err = tryRekey(t, s, plane, initiate, who); err != nil {
				result = "FAIL"
				t.Errorf("second try: %v\n%s", err, log)
			}
		}
		record("strongSwan "+plane, role, s.Name, path, result, "  "+said)
	})
}

func tryRekey(t *testing.T, s rig.Suite, plane string, initiate bool, who string) (said, log string, err error) {
	topo, err := rig.NewTopology(fmt.Sprintf("cyi%d", os.Getpid()), rig.Options{})
	if err != nil {
		return "", "", err
	}
	defer topo.Remove()
	dir := t.TempDir()
	var own *rig.CygnetEnd
	startOwn := func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
		if x.Rekey = 3; who == "peer" {
			x.Rekey = 0
		}
		var err error
		own, err = rig.StartCygnetEnd(ns, bin, dir+"/own", x, rig.CygnetOptions{Dataplane: plane})
		return wrap(own, err)
	}
	startPeer := func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
		if x.Rekey = 3; who == "own" {
			x.Rekey = 0
		}
		return wrap(rig.StartSwan(ns, dir+"/swan", x, plane == "kernel"))
	}
	a, b, up, err := pair(topo, tunnel(topo, s, false, false), initiate, startOwn, startPeer)
	defer func() {
		for name, e := range map[string]rig.End{"A": a, "B": b} {
			if e != nil {
				log += fmt.Sprintf("---- %s\n%s\n", name, e.Stop())
			}
		}
	}()
	if err != nil {
		return "", "", err
	}
	if err := up.Up(); err != nil {
		return "", "", err
	}
	stop, err := rig.Flood(topo.A.Host, topo.B.Host4)
	if err != nil {
		return "", "", err
	}
	rekeys := func() int { return strings.Count(own.Log.String(), "code=child-rekeyed") }
	enough := rig.Until(rekeysWithin, func() bool { return rekeys() >= rekeysWanted })
	said, err = stop()
	switch {
	case err != nil:
		return said, "", err
	case !enough:
		return said, "", fmt.Errorf("%d rekeys in %s, wanted %d", rekeys(), rekeysWithin, rekeysWanted)
	case strings.Contains(own.Log.String(), "code=child-down"):
		return said, "", fmt.Errorf("the child went down in between")
	}
	if err := up.Down(); err != nil {
		return said, "", err
	}
	for _, e := range []rig.End{a, b} {
		if err := rig.Gone(e); err != nil {
			return said, "", err
		}
	}
	return fmt.Sprintf("%d rekeys, %s", rekeys(), said), "", nil
}
