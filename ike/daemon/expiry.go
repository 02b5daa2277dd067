package daemon

import (
	"time"

	"cygnet/policy"
)

// watchExpiry warns once a day of certificates that end soon; the start and a reload did so too.
func (d *Daemon) watchExpiry() {
	day := time.NewTicker(24 * time.Hour)
	defer day.Stop()
	for {
		select {
		case <-day.C:
			for _, p := range policy.Expiring(d.snapshot.Load(), time.Now()) {
				d.logProblem(p)
			}
		case <-d.quit:
			return
		}
	}
}
