package daemon

import (
	"slices"
	"strings"
	"time"

	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/wire"
)

// lowerTime is how long peers get to answer our Deletes when the daemon stops.
const lowerTime = 2500 * time.Millisecond

// stop lowers all IKE SAs, removes their SAs and ends all goroutines. Blocks and traps stay in the data plane: the
// traffic of drop connections is not to leave in clear while no daemon runs. Pass connections have none.
func (d *Daemon) stop() {
	close(d.stopping)
	d.log.Info("cygnetd stops: closing all IKE SAs")
	d.inDirectory(func(*directory.Directory) { d.directory.closing = true })
	d.lowerAll()
	close(d.quit)
	d.pool.close()
	d.resolver.stop()
	d.inquirer.stop()
	d.inPlane(func(p *plane) {
		p.releaseAll()
		p.tellBlocked()
	})
	close(d.planeQuit)
	d.parts.Wait()
}

// tellBlocked names what the host goes on dropping when no daemon runs, and how to lift it.
func (p *plane) tellBlocked() {
	for _, c := range p.d.snapshot.Load().Connections {
		if claims, _ := p.ledger.Holds(directory.Owner(c.Name)); claims == 0 {
			continue
		}
		var remote []string
		for _, ch := range c.Children {
			for _, ts := range ch.Remote {
				if s := ts.String(); !slices.Contains(remote, s) {
					remote = append(remote, s)
				}
			}
		}
		p.d.log.Warnf("%s stays blocked (%s): when_down = drop; to lift it: cygnetd --flush", c.Name, strings.Join(remote, ", "))
	}
}

// lowerAll asks each IKE SA to close and waits until all have, or the time is over.
func (d *Daemon) lowerAll() {
	end := time.Now().Add(lowerTime)
	asked := make(map[wire.SPI]bool)
	for time.Now().Before(end) {
		all, err := d.machines()
		if err != nil {
			return
		}
		waiting := false
		for _, m := range all {
			spi := ours(m)
			if !asked[spi] && lingers(m) {
				continue
			}
			waiting = true
			if !asked[spi] {
				asked[spi] = true
				d.loopOf(spi).tell(spi, ike.Lower{Why: "cygnetd stops"})
			}
		}
		if !waiting {
			return
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
