package rig

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// userHz is the unit of times in /proc/PID/stat on every Linux.
const userHz = 100

// Resident is how much memory the daemon's process holds, in octets.
func (d *Daemon) Resident() (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.PID()))
	if err != nil {
		return 0, err
	}
	kib, err := strconv.ParseInt(find(string(b), `VmRSS:\s+(\d+) kB`), 10, 64)
	return kib << 10, err
}

// CPU is the time that the daemon's process has computed, for itself and in the kernel.
func (d *Daemon) CPU() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.PID()))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), ") ") // the name in parentheses may hold anything
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, fmt.Errorf("pid %d: stat has %d fields", d.PID(), len(f))
	}
	var ticks int64
	for _, v := range f[11:13] { // utime, stime
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / userHz, nil
}

// LostAtSockets is how many datagrams of a namespace came to a full UDP socket since it was made.
func (n NS) LostAtSockets() (int64, error) {
	out, err := n.Output("cat", "/proc/net/snmp")
	if err != nil {
		return 0, err
	}
	var names []string
	for l := range strings.Lines(out) {
		f := strings.Fields(l)
		switch {
		case len(f) == 0 || f[0] != "Udp:":
		case names == nil:
			names = f
		default:
			for i, name := range names {
				if name == "RcvbufErrors" && i < len(f) {
					return strconv.ParseInt(f[i], 10, 64)
				}
			}
		}
	}
	return 0, fmt.Errorf("no UDP counter RcvbufErrors:\n%s", out)
}
