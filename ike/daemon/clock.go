package daemon

import (
	"time"

	"golang.org/x/sys/unix"

	"cygnet/ike"
)

// now reads CLOCK_BOOTTIME, which runs on in suspend as XFRM's lifetimes do.
func now() ike.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("CLOCK_BOOTTIME cannot be read: " + err.Error()) // Linux has it since 2.6.39
	}
	return ike.Time(ts.Nano())
}

// sinceEpoch turns wall-clock seconds, as the data planes count last uses, into boot time; 0 stays 0.
func sinceEpoch(seconds int64, at ike.Time) ike.Time {
	if seconds == 0 {
		return 0
	}
	return at.Add(-time.Since(time.Unix(seconds, 0)))
}

// alarm is the one timer of a loop.
type alarm struct {
	timer *time.Timer
	at    ike.Time
	set   bool
}

// maxSleep bounds a sleep: Go's timers stand still in suspend, boot time does not.
const maxSleep = 20 * time.Second

func newAlarm() *alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &alarm{timer: t}
}

// arm sets the timer to a deadline. Nothing is done when it stands there already.
func (a *alarm) arm(at ike.Time, ok bool) {
	switch {
	case !ok:
		a.timer.Stop()
		a.set = false
	case !a.set || a.at != at:
		a.timer.Reset(min(max(at.Sub(now()), 0), maxSleep))
		a.at, a.set = at, true
	}
}

// rang is to be called when the timer fired.
func (a *alarm) rang() { a.set = false }
