package daemon

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/xfrm/netcfg"
)

const (
	// pathsSettle is how long the host's network must have been quiet: a new network comes as a link, addresses, routes, one after the other.
	pathsSettle = 500 * time.Millisecond
	// pathsLatest bounds the wait where it is never quiet.
	pathsLatest = 2 * time.Second
)

// watchPaths tells all IKE SAs when links, addresses or routes of the host have changed: they may have to move (RFC 4555). It ends with the watch.
func (d *Daemon) watchPaths(w *netcfg.Watch) {
	for range w.Changed() {
		d.settle(w)
		d.pathsChanged()
	}
}

// settle waits for the end of a burst of changes.
func (d *Daemon) settle(w *netcfg.Watch) {
	latest := time.NewTimer(pathsLatest)
	defer latest.Stop()
	quiet := time.NewTimer(pathsSettle)
	defer quiet.Stop()
	for {
		select {
		case _, open := <-w.Changed():
			if !open {
				return
			}
			quiet.Reset(pathsSettle)
		case <-quiet.C:
			return
		case <-latest.C:
			return
		}
	}
}

// pathsChanged tells the shards this host's addresses, and the directory that what failed may succeed now.
func (d *Daemon) pathsChanged() {
	own := hostAddresses()
	for _, l := range d.loops {
		l.box.put(shard.Paths{Own: own})
	}
	d.directory.box.put(directory.Paths{})
}

// hostAddresses are those of this host in order; nil when they cannot be read.
func hostAddresses() []netip.Addr {
	h, err := netcfg.New()
	if err != nil {
		return nil
	}
	defer h.Close()
	own, err := h.Addresses(context.Background())
	if err != nil {
		return nil
	}
	slices.SortFunc(own, netip.Addr.Compare)
	return slices.Compact(own)
}
