package daemon

import (
	"time"

	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/wire"
	"cygnet/policy"
)

// lowerTime is how long peers get to answer our Deletes when the daemon stops.
const lowerTime = 2500 * time.Millisecond

// stop lowers all IKE SAs, removes their SAs and ends all goroutines. Blocks and traps of drop connections stay in the data plane: their traffic
// is not to leave in clear while no daemon runs. Those of pass connections go.
func (d *Daemon) stop() {
	close(d.stopping)
	d.log.Info("cygnetd stops: closing all IKE SAs")
	d.inDirectory(func(*directory.Directory) { d.directory.closing = true })
	d.lowerAll()
	d.directory.box.put(directory.Load{Snapshot: onlyDrop(d.snapshot.Load())})
	d.inDirectory(func(*directory.Directory) {})
	close(d.quit)
	d.pool.close()
	d.resolver.stop()
	d.inPlane(func(p *plane) { p.releaseAll() })
	close(d.planeQuit)
	d.parts.Wait()
}

// onlyDrop leaves the connections whose claims outlive the process.
func onlyDrop(s *policy.Snapshot) *policy.Snapshot {
	kept := *s
	kept.Connections = nil
	for _, c := range s.Connections {
		if c.Drop {
			kept.Connections = append(kept.Connections, c)
		}
	}
	return &kept
}

// lowerAll asks each IKE SA to close and waits until all have, or the time is over.
func (d *Daemon) lowerAll() {
	end := time.Now().Add(lowerTime)
	asked := make(map[wire.SPI]bool)
	for time.Now().Before(end) {
		all, err := d.machines()
		if err != nil || len(all) == 0 {
			return
		}
		for _, m := range all {
			spi := ours(m)
			if !asked[spi] {
				asked[spi] = true
				d.loopOf(spi).tell(spi, ike.Lower{Why: "cygnetd stops"})
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	d.log.Warn("not all peers have confirmed the end; they will find out by themselves")
}

// ours is our SPI of an IKE SA.
func ours(m ike.Status) wire.SPI {
	if m.Initiated {
		return m.SPIi
	}
	return m.SPIr
}
