//go:build interop

package interop

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cygnet/test/rig"
)

// TestUserspaceName: the peer is given by a name, ours by no address. Of the name's addresses the first, of IPv6, is dead and the next, of IPv4, is tried; later the
// peer comes back elsewhere, and the name is looked up anew.
func TestUserspaceName(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	line{peer: "strongSwan userspace", role: "initiates", subject: "a name, start = boot", path: "IPv6, IPv4"}.run(t, func(s *stage) string {
		const name = "peer.example"
		moved := netip.MustParseAddr("198.51.100.8")
		_, err := s.B.Gateway.Output("ip", "addr", "add", moved.String()+"/24", "dev", "wan")
		s.must(err)
		x := tunnel(s.Topology, rig.CBC, false, false)
		x.Cygnet = quick
		peer := s.swan(s.B, tunnelB(s.Topology, x), "userspace")
		s.must(s.A.Gateway.Hosts(fmt.Sprintf("2001:db8:b::66 %[1]s\n%[2]v %[1]s\n", name, s.B.WAN4)))
		x.Local, x.RemoteName = netip.Addr{}, name
		begun := time.Now()
		own := s.own(s.A, x, rig.CygnetOptions{Dataplane: "userspace", Start: "boot"})
		s.want(rig.Until(until(quick)+patience, func() bool { _, err := own.SA(); return err == nil }), "not up")
		took := time.Since(begun)
		s.must(rig.Ping(s.A.Host, s.B.Host4))
		s.want(strings.Contains(own.Log.String(), "next is "+s.B.WAN4.String()), "cygnet does not say that it goes on to %v", s.B.WAN4)

		peer.Stop()
		y := tunnelB(s.Topology, x)
		y.Local, y.Remote = moved, s.A.WAN4
		s.swan(s.B, y, "userspace")
		s.must(s.A.Gateway.Hosts(fmt.Sprintf("%v %s\n", moved, name)))
		begun = time.Now()
		s.want(rig.Until(until(quick)+patience, func() bool { return rig.Ping(s.A.Host, s.B.Host4) == nil }), "not up at the new address")
		s.want(strings.Contains(own.Log.String(), "IKE SA up with "+moved.String()), "pings pass, but not by way of %v", moved)
		return fmt.Sprintf("up in %.1f s at the second address; %.1f s after the name had changed at the new one", took.Seconds(), time.Since(begun).Seconds())
	})
}
