//go:build interop

package interop

import (
	"fmt"
	"strings"
	"testing"

	"cygnet/test/rig"
)

// TestUserspaceSecondAddress: the gateway has two addresses, and the first one is no longer reached. The client moves to the second (RFC 4555 sections 3.4, 3.5).
func TestUserspaceSecondAddress(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	secondRows(t, "userspace")
}

// TestKernelSecondAddress is the same on the kernel's ESP.
func TestKernelSecondAddress(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	secondRows(t, "kernel")
}

// second is the other address of gateway B.
const second = "198.51.100.8"

func secondRows(t *testing.T, plane string) {
	const subject = "gateway's 1st address unreachable"
	line{peer: "cygnet " + plane, role: "both", subject: subject, path: "IPv4"}.run(t, func(s *stage) string {
		x, y := s.twoHomes()
		far := s.own(s.B, y, rig.CygnetOptions{Dataplane: plane})
		near := s.own(s.A, x, rig.CygnetOptions{Dataplane: plane})
		return s.outlives(near, far, s.unreach, nil, "")
	})
	line{peer: "strongSwan " + plane, role: "initiates", subject: subject, path: "IPv4"}.run(t, func(s *stage) string {
		need(t, "peers", rig.HaveSwan())
		x, y := s.twoHomes()
		own, swan := s.versus(x, y, true, rig.CygnetOptions{Dataplane: plane})
		return s.outlives(own, swan, s.unreach, swan, "local-host="+second)
	})
	// As a client strongSwan 5.9 tries no other address while there is a route to this one, so that the gateway itself must lose it, and say so (section 3.5, at the end).
	line{peer: "strongSwan " + plane, role: "responds", subject: "gateway's 1st address removed", path: "IPv4"}.run(t, func(s *stage) string {
		need(t, "peers", rig.HaveSwan())
		x, y := s.twoHomes()
		own, swan := s.versus(x, y, false, rig.CygnetOptions{Dataplane: plane})
		return s.outlives(swan, own, s.remove, swan, "remote-host="+second)
	})
}

// unreach has the WAN lose all that goes to or comes from the gateway's first address.
func (s *stage) unreach() {
	s.nft(fmt.Sprintf("add rule inet cut forward ip daddr %[1]s drop; add rule inet cut forward ip saddr %[1]s drop", s.B.WAN4), "accept")
}

// remove takes the first address from the gateway.
func (s *stage) remove() {
	_, err := s.B.Gateway.Output("ip", "addr", "del", s.B.WAN4.String()+"/24", "dev", "wan")
	s.must(err)
}

// twoHomes gives gateway B its second address, and has the tunnel at B take whichever the client reaches.
func (s *stage) twoHomes() (x, y rig.Tunnel) {
	_, err := s.B.Gateway.Output("sysctl", "-qw", "net.ipv4.conf.wan.promote_secondaries=1")
	s.must(err)
	_, err = s.B.Gateway.Output("ip", "addr", "add", second+"/24", "dev", "wan")
	s.must(err)
	x, y = s.roaming(rig.CBC)
	y.Local = x.Local // any
	x.Cygnet = quick
	x.Swan = "mobike = yes\n    local_addrs = %any"
	y.Swan = "mobike = yes\n    local_addrs = %any"
	return x, y
}

// outlives brings a tunnel up, has the gateway's first address lost, and waits until packets pass by the second. What strongSwan shows is evidence of it.
func (s *stage) outlives(client, office rig.Renewer, lose func(), swan *rig.Swan, evidence string) string {
	s.must(client.Up())
	before, err := client.Shown()
	s.must(err)
	s.must(rig.Ping(s.A.Host, s.B.Host4))
	said := s.interrupted("the gateway lost its first address", lose)
	if swan != nil {
		shown, err := swan.ListSAs()
		s.must(err)
		s.want(strings.Contains(shown, evidence), "strongSwan does not show %s: %s", evidence, shown)
		evidence = "; strongSwan: " + evidence
	}
	capture, err := s.Capture()
	s.must(err)
	hash, err := rig.SendHashed(s.A.Host, s.B.Host, s.B.Host4, 1<<20)
	s.must(err)
	seen := capture.Stop()
	for _, p := range seen {
		s.want(!p.ESP() || p.Src.String() == second || p.Dst.String() == second, "ESP on the WAN is not of %s: %v", second, p)
	}
	s.want(len(s.Clear(seen)) == 0, "packets in clear: %d", len(s.Clear(seen)))
	after, err := client.Shown()
	s.must(err)
	s.want(len(after.IKE) == 1 && after.IKE[0] == before.IKE[0], "the IKE SAs %v have become %v", before.IKE, after.IKE)
	s.must(client.Down())
	s.must(rig.Gone(office))
	return fmt.Sprintf("%s; a megabyte, hash %.8s%s", said, hash, evidence)
}
