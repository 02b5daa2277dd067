package daemon

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"cygnet/ike/control"
	"cygnet/xfrm/xfrmfake"
)

// TestAlarmRunsOnInSuspend: the timers are of CLOCK_BOOTTIME, by the host's own word.
func TestAlarmRunsOnInSuspend(t *testing.T) {
	a, err := new(clock).newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", a.fd))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "clockid: 7\n") { // CLOCK_BOOTTIME
		t.Errorf("the timer says of itself\n%s", text)
	}
}

// TestAlarm rings when it is due, at once when it was, sooner or later as it is set anew, and not when it is stopped.
func TestAlarm(t *testing.T) {
	c := new(clock)
	a, err := c.newAlarm()
	if err != nil {
		t.Fatal(err)
	}
	rings := func(within time.Duration) bool {
		select {
		case <-a.C:
			a.rang()
			return true
		case <-time.After(within):
			return false
		}
	}
	begun := c.now()
	a.arm(begun.Add(time.Hour), true)
	a.arm(begun.Add(50*time.Millisecond), true)
	if !rings(5*time.Second) || c.now() < begun.Add(50*time.Millisecond) {
		t.Errorf("not rung, or after %v", c.now().Sub(begun))
	}
	a.arm(begun.Add(-time.Hour), true)
	if !rings(5 * time.Second) {
		t.Error("not rung when it was due")
	}
	a.arm(0, true) // before the boot, as it were
	if !rings(5 * time.Second) {
		t.Error("not rung at 0")
	}
	a.arm(c.now().Add(20*time.Millisecond), true)
	a.arm(0, false)
	if rings(100 * time.Millisecond) {
		t.Error("rung when it was stopped")
	}
	a.arm(c.now().Add(time.Hour), true)
	c.ahead.Add(int64(2 * time.Hour))
	a.arm(c.now().Add(-time.Hour), true)
	if !rings(5 * time.Second) {
		t.Error("not rung when the clock had jumped")
	}
	a.close()
	a.wait(nil) // ends
}

// sleep lets the clock of a daemon jump, as a suspend does.
func (d *Daemon) sleep(by time.Duration) {
	d.clock.ahead.Add(int64(by))
	for _, l := range d.loops {
		l.box.put(func() {}) // its timer is set anew: the host's own would ring now
	}
	d.directory.box.put(func() {})
}

// TestSuspend: the host of a sleeps for ten minutes, in which a rekey was due, and its peer's clock goes on as ever. Then the peer is asked at once, the child is rekeyed, and
// nothing has gone down; before it slept nothing of that was due.
func TestSuspend(t *testing.T) {
	sa, sb := pair(t)
	sa.more = "rekey_time = \"8m\"\nrand_time = \"0\"\nlife_time = \"30m\"\n"
	b := launch(t, sb, xfrmfake.New())
	var d *Daemon
	a := launch(t, sa, xfrmfake.New(), func(x *Daemon) { d = x })
	if text, f := a.up("b"); f != nil {
		t.Fatalf("%v\n%s", f, text)
	}
	a.await("up", isUp)
	b.await("up", isUp)
	before := a.status().IKE[0]
	d.sleep(10 * time.Minute)
	a.await("rekeyed", func(c control.Connection) bool {
		return isUp(c) && len(c.IKE) == 1 && len(c.IKE[0].Children) == 1 && c.IKE[0].Children[0].SPIIn != before.Children[0].SPIIn
	})
	after := a.status().IKE[0]
	if after.SPIi != before.SPIi || strings.Contains(a.log.String(), "child-down") || strings.Contains(b.log.String(), "child-down") {
		t.Errorf("the IKE SA %s has become %s, or a child went down", before.SPIi, after.SPIi)
	}
	b.await("up", isUp)
}
