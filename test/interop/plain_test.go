//go:build interop

package interop

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"cygnet/test/rig"
)

// TestKernelPlainESP: a peer that does no NAT traversal gets plain ESP of the userspace data plane, although that would rather have it in UDP.
// (The kernel ESP is Libreswan's.)
func TestKernelPlainESP(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	_, err := os.Stat(peersRoot())
	need(t, "peers", err)
	for _, initiate := range []bool{true, false} {
		line{peer: "Libreswan userspace", role: role(initiate), subject: "plain ESP, encapsulation = no", path: "IPv4"}.run(t, func(s *stage) string {
			x := tunnel(s.Topology, rig.CBC, false, false)
			x.Plain = true
			if initiate { // as responder it sees by the port that the peer does not encapsulate
				x.Cygnet = "encapsulation = \"never\"\n"
			}
			a, b, up, err := pair(s.Topology, x, initiate, func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
				return wrap(rig.StartCygnetEnd(ns, bin, s.dir+"/own", x, rig.CygnetOptions{Dataplane: "userspace"}))
			}, func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
				return wrap(rig.StartLibreswan(ns, s.dir+"/libreswan", peersRoot(), x))
			})
			for _, e := range []rig.End{a, b} {
				if e != nil {
					s.keep(e)
				}
			}
			s.must(err)
			capture, err := s.Capture()
			s.must(err)
			s.must(up.Up())
			ev, err := rig.Prove(s.Topology, a, b, x)
			s.must(err)
			plain := map[uint32]int{}
			for _, p := range capture.Stop() {
				s.want(!p.ESP() || p.Proto == unix.IPPROTO_ESP, "ESP in UDP: %s", p)
				plain[p.SPI]++
			}
			s.must(up.Down())
			s.must(rig.Gone(a))
			s.must(rig.Gone(b))
			return fmt.Sprintf("WAN: %d+%d packets of IP protocol 50, sha256 %.12s", plain[ev.A.SPIIn], plain[ev.A.SPIOut], ev.Hash)
		})
	}
}
