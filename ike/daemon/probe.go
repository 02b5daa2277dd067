package daemon

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cygnet/ike"
	"cygnet/ike/control"
)

// quietAfter is how long nothing may have come from the peer for up to believe what it sees.
const quietAfter = 10 * time.Second

// probe asks the peer of what is up already whether it lives, when nothing came from it for some time: it may have restarted.
func (u *raise) probe(ctx context.Context, v view) bool {
	d := u.b.d
	asked := false
	t := d.clock.now()
	for _, m := range v.machines {
		if m.Phase != "established" || !slices.ContainsFunc(m.Children, func(c ike.ChildStatus) bool { return slices.Contains(u.waiting, c.Name) }) {
			continue
		}
		silence := t.Sub(d.heard(ctx, m))
		if silence < d.quiet {
			continue
		}
		u.emit(control.Line{Connection: u.conn.Name, Code: "quiet",
			Text: fmt.Sprintf("is up, but the last packet came in %d s ago: asking the peer whether it lives", int64(silence/time.Second))})
		d.loopOf(ownSPI(m)).tell(ownSPI(m), ike.Probe{})
		asked = true
	}
	if asked {
		u.probed = t
	}
	return asked
}

// heard is when something last came from the peer, IKE or ESP.
func (d *Daemon) heard(ctx context.Context, m ike.Status) ike.Time {
	t, last := d.clock.now(), m.LastHeard
	for _, c := range m.Children {
		if use, err := d.plane.driver.Usage(ctx, c.In); err == nil {
			last = max(last, sinceEpoch(use.LastUse, t))
		}
	}
	return last
}

// answered reports whether the peers that were asked have answered, and ends the wait if so.
func (u *raise) answered() bool {
	v, err := u.b.d.view(u.conn.Name)
	if err != nil || !v.up(u.waiting) {
		return false
	}
	for _, m := range v.machines {
		if m.LastHeard < u.probed {
			return false
		}
	}
	u.done("is up already, and the peer answers: ", v)
	return true
}
