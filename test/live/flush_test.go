package live

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cygnet/test/rig"
)

// TestFlush: after a clean stop the block of a boot connection stays and is said to; cygnetd --flush lifts it, but not under a living daemon.
func TestFlush(t *testing.T) {
	topo := topology(t)
	gw, dir := topo.A.Gateway, t.TempDir()
	flush := func(more ...string) (string, error) {
		return gw.Output(filepath.Join(bin, "cygnetd"), append([]string{"--flush", "--socket", filepath.Join(dir, "s")}, more...)...)
	}
	d, err := rig.StartCygnetEnd(gw, bin, dir, tunnel(topo), rig.CygnetOptions{Dataplane: "userspace", Start: "boot"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := gw.Output(filepath.Join(bin, "cygnetd"), "--flush", "--socket", filepath.Join(dir, "control.sock"))
	if err == nil {
		t.Error("flushed under a living daemon")
	}
	contains(t, "cygnetd --flush", out, []string{"nothing was removed", fmt.Sprintf("pid %d", d.PID()), "stop it first"})
	out, err = flush("--tun", "cygnet9") // a daemon of the kernel's data plane has no TUN device to be known by
	if err == nil {
		t.Error("flushed under a living daemon with another socket")
	}
	contains(t, "cygnetd --flush", out, []string{"nothing was removed", fmt.Sprintf("another cygnetd (pid %d) works in this network namespace", d.PID()), "name its socket with --socket"})

	if err := d.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	contains(t, "the log", d.Log.String(), []string{"s2s stays blocked (" + topo.B.LAN4.String() + "): when_down = drop; to lift it: cygnetd --flush"})
	if left, err := rig.Leftovers(gw); err != nil || !strings.Contains(left, "unreachable "+topo.B.LAN4.String()) || !strings.Contains(left, "17200:") {
		t.Fatalf("not blocked: %v\n%s", err, left)
	}
	out, err = flush("--json")
	var answer struct {
		Removed []string
		Error   string
	}
	if err != nil || json.Unmarshal([]byte(out), &answer) != nil || answer.Error != "" {
		t.Fatalf("%v\n%s", err, out)
	}
	contains(t, "cygnetd --flush", strings.Join(answer.Removed, "\n"), []string{"rule 17200 ", "route unreachable " + topo.B.LAN4.String(), "policy fwd block "})
	if left, err := rig.Leftovers(gw); err != nil || left != "" {
		t.Errorf("%v, left behind:\n%s", err, left)
	}
	if out, err = flush(); err != nil || out != "nothing of cygnet's is in this network namespace\n" {
		t.Errorf("again: %v\n%s", err, out)
	}
}

// TestSecondDaemon: one with another control socket hears who holds the port, not that the TUN is busy.
func TestSecondDaemon(t *testing.T) {
	topo := topology(t)
	d, err := rig.StartCygnetEnd(topo.A.Gateway, bin, t.TempDir(), tunnel(topo), rig.CygnetOptions{Dataplane: "userspace"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Signal(syscall.SIGTERM)
	_, err = rig.StartCygnetEnd(topo.A.Gateway, bin, t.TempDir(), tunnel(topo), rig.CygnetOptions{Dataplane: "userspace"})
	if err == nil {
		t.Fatal("a second cygnetd started")
	}
	contains(t, "the second", err.Error(), []string{"UDP port 500", fmt.Sprintf("cygnetd (pid %d)", d.PID())})
	if strings.Contains(err.Error(), "TUN") {
		t.Error(err)
	}
}
