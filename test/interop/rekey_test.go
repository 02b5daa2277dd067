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

// TestUserspaceStrongSwanRekey: cygnet or its peer rekeys the child every 3 s, or both are told to at the same moment, while pings flood through the
// tunnel.
func TestUserspaceStrongSwanRekey(t *testing.T) {
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	checkRekey(t, rig.CBC, "userspace", true, "own")
	checkRekey(t, rig.GCM, "userspace", false, "own")
	checkRekey(t, rig.GCM, "userspace", true, "peer")
	checkRekey(t, rig.CBC, "userspace", false, "peer")
	checkRekey(t, rig.GCM, "userspace", true, "together")
	checkRekey(t, rig.CBC, "userspace", false, "together")
}

// TestKernelStrongSwanRekey is the same on the kernel's ESP.
func TestKernelStrongSwanRekey(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	need(t, "peers", rig.HaveSwan())
	for _, initiate := range []bool{true, false} {
		for _, who := range []string{"own", "peer", "together"} {
			checkRekey(t, rig.GCM, "kernel", initiate, who)
		}
	}
}

func checkRekey(t *testing.T, s rig.Suite, plane string, initiate bool, who string) {
	role := map[bool]string{true: "initiates", false: "responds"}[initiate]
	path := "rekey: " + who
	name := strings.NewReplacer(" ", "_", "/", "+").Replace(strings.Join([]string{"strongSwan " + plane, role, s.Name, path}, "/"))
	t.Run(name, func(t *testing.T) {
		if leftOut(name) {
			record("strongSwan "+plane, role, s.Name, path, "NOT RUN for time", "")
			return
		}
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

// together has both ends rekey the child at the same moment, and waits until each has one.
func together(own *rig.CygnetEnd, peer *rig.Swan) error {
	done := make(chan error)
	go func() { done <- peer.Rekey() }()
	out, code := own.Ikectl("rekey", "s2s", "--child", "lan")
	if err := <-done; err != nil {
		return err
	}
	if code != 0 {
		return fmt.Errorf("ikectl rekey: exit %d: %s", code, out)
	}
	var n int
	if !rig.Until(10*time.Second, func() bool { n = peer.Pairs(); return n == 1 }) {
		return fmt.Errorf("strongSwan has %d pairs of SAs after both rekeyed", n)
	}
	return nil
}

func tryRekey(t *testing.T, s rig.Suite, plane string, initiate bool, who string) (said, log string, err error) {
	topo, err := rig.NewTopology(fmt.Sprintf("cyi%d", os.Getpid()), rig.Options{})
	if err != nil {
		return "", "", err
	}
	defer topo.Remove()
	dir := t.TempDir()
	var own *rig.CygnetEnd
	var peer *rig.Swan
	startOwn := func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
		if who == "own" {
			x.Rekey = 3
		}
		var err error
		own, err = rig.StartCygnetEnd(ns, bin, dir+"/own", x, rig.CygnetOptions{Dataplane: plane})
		return wrap(own, err)
	}
	startPeer := func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
		if who == "peer" {
			x.Rekey = 3
		}
		var err error
		peer, err = rig.StartSwan(ns, dir+"/swan", x, plane == "kernel")
		return wrap(peer, err)
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
	stop, err := rig.Flood(topo.A.Host, topo.B.Host, topo.B.Host4)
	if err != nil {
		return "", "", err
	}
	rekeys := func() int { return strings.Count(own.Log.String(), "code=child-rekeyed") }
	for who == "together" && rekeys() < rekeysWanted {
		if err := together(own, peer); err != nil {
			return "", "", err
		}
	}
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
