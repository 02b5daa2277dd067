package daemon

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"cygnet/ike"
)

// clock is CLOCK_BOOTTIME, which runs on in suspend as XFRM's lifetimes do. All deadlines are of this clock, and so are the timers that wait for them: Go's own
// timers stand still in suspend.
type clock struct {
	ahead atomic.Int64 // nanoseconds that tests let it run ahead, as in a suspend
}

// now is the time since the boot.
func (c *clock) now() ike.Time { return bootTime().Add(time.Duration(c.ahead.Load())) }

func bootTime() ike.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("CLOCK_BOOTTIME cannot be read: " + err.Error()) // Linux has it since 2.6.39
	}
	return ike.Time(ts.Nano())
}

// sinceEpoch turns wall-clock seconds, as the data planes count last uses, into boot time; 0 stays 0. The wall clock, too, runs on in suspend.
func sinceEpoch(seconds int64, at ike.Time) ike.Time {
	if seconds == 0 {
		return 0
	}
	return at.Add(-time.Since(time.Unix(seconds, 0)))
}

// alarm is the one timer of a loop: a timerfd on the clock, which rings at once when its host wakes from a suspend in which it was due.
type alarm struct {
	C     <-chan struct{}
	clock *clock
	file  *os.File
	fd    int
	at    ike.Time // by the host's clock; 0: it is not set
}

func (c *clock) newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	ring := make(chan struct{}, 1)
	a := &alarm{C: ring, clock: c, file: os.NewFile(uintptr(fd), "timer"), fd: fd}
	go a.wait(ring)
	return a, nil
}

// wait passes each ring on, until the alarm is closed.
func (a *alarm) wait(ring chan<- struct{}) {
	var rings [8]byte
	for {
		if n, err := a.file.Read(rings[:]); err != nil || n < len(rings) || binary.NativeEndian.Uint64(rings[:]) == 0 {
			return
		}
		select {
		case ring <- struct{}{}:
		default: // the last one has not been heard yet
		}
	}
}

// arm sets the timer to a deadline. Nothing is done when it stands there already. A ring that was due before may still come.
func (a *alarm) arm(at ike.Time, ok bool) {
	switch at = max(at.Add(-time.Duration(a.clock.ahead.Load())), 1); { // 0 would stop it
	case ok && a.at != at:
		a.at = at
	case !ok && a.at != 0:
		a.at = 0
	default:
		return
	}
	when := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(a.at))}
	if err := unix.TimerfdSettime(a.fd, unix.TFD_TIMER_ABSTIME, &when, nil); err != nil {
		panic("a timer cannot be set: " + err.Error()) // only a time that is none is refused
	}
}

// rang is to be called when the timer fired.
func (a *alarm) rang() { a.at = 0 }

func (a *alarm) close() { a.file.Close() }
