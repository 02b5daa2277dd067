//go:build interop

package interop

import (
	"fmt"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/test/rig"
)

// TestUserspaceStart: cygnet and strongSwan bring one tunnel up at the same moment, 50 times (ROUNDS in the environment says otherwise, CI makes it 3). A ferry keeps the IKE_SA_INIT requests
// on the WAN until there is one of each. Every time both ends are left with one IKE SA and one pair of SAs, the same ones, and with nothing once it is taken down.
func TestUserspaceStart(t *testing.T) {
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	startRow(t, swanParty, "userspace")
}

// TestKernelStart is the same on the kernel's ESP, whose SAs are counted too. CI makes it twice.
func TestKernelStart(t *testing.T) {
	t.Parallel()
	need(t, "kernel-esp", kernelESP())
	need(t, "peers", rig.HaveSwan())
	startRow(t, swanParty, "kernel")
}

func startRow(t *testing.T, p party, plane string) {
	n := rounds(t, 50)
	if short(plane) {
		n = min(n, 2)
	}
	line{peer: p.name + " " + plane, role: "both", subject: "both start at once", path: "IPv4"}.run(t, func(s *stage) string {
		x := tunnel(s.Topology, rig.GCM, false, false)
		c := cross(s, p, plane, true, x)
		defer c.ferry.Stop()
		up := func(e rig.Told) error { return e.Up() }
		var longest time.Duration
		peerFailed := 0
		for i := range n {
			c.round = i + 1
			begin, done := c.both(up, up)
			a, b, err := c.ferry.Cross(rig.Spoken{Src: c.ownAt.WAN4, Exchange: wire.IKESAInit}, rig.Spoken{Src: c.peerAt.WAN4, Exchange: wire.IKESAInit}, false, patience, begin)
			c.must(err)
			c.want(c.ferry.Crossed(a, b), "%s and %s have not crossed", a, b)
			begun := time.Now()
			for range 2 {
				r := <-done
				if r.own {
					c.must(r.err)
				} else if r.err != nil { // what it began itself was given up for ours
					peerFailed++
				}
			}
			c.settled(3 * patience)
			longest = max(longest, time.Since(begun))
			c.must(rig.Ping(s.A.Host, s.B.Host4))
			c.bothDown()
		}
		return fmt.Sprintf("%d of %d crossed, one pair each time, the longest after %.1f s; the peer called its own %d times failed", n, n, longest.Seconds(), peerFailed)
	})
}

// bothDown takes the tunnel down at both ends, of which each may have been told to keep it up, and waits until nothing is left of it.
func (c *crossing) bothDown() {
	c.peer.Down() // there may be nothing left to delete
	c.must(c.own.Down())
	c.peer.Down()
	c.want(rig.Until(2*patience, c.empty), "something is left after both have closed it")
}
