//go:build interop

package interop

import (
	"fmt"
	"testing"
	"time"

	"cygnet/policy"
	"cygnet/test/rig"
)

// TestUserspaceKeepalive: cygnet behind NAT and idle keeps its mapping alive (RFC 3948 section 4).
func TestUserspaceKeepalive(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	line{peer: "strongSwan userspace", role: "initiates", subject: "NAT keepalive", path: "NAT", nat: true}.run(t, func(s *stage) string {
		x := tunnel(s.Topology, rig.CBC, false, false)
		own, swan := s.versus(x, tunnelB(s.Topology, x), true, rig.CygnetOptions{Dataplane: "userspace"})
		s.must(own.Up())
		s.want(len(swan.Said("remote host is behind NAT")) > 0, "strongSwan does not say that its peer is behind NAT")
		idle := time.Now()
		capture, err := s.Capture()
		s.must(err)
		var seen rig.Packet
		found := rig.Until(policy.DefaultNATKeepalive+patience, func() bool {
			for _, p := range capture.Seen() {
				if p.Keepalive() && p.Src == s.A.WAN4 && p.Dst == s.B.WAN4 {
					seen = p
				}
			}
			return seen.Size > 0
		})
		after := time.Since(idle)
		capture.Stop()
		s.want(found, "no keepalive on the WAN %v after the last message", after)
		s.want(after > policy.DefaultNATKeepalive/2, "a keepalive %v after the last message, wanted one after %v", after, policy.DefaultNATKeepalive)
		s.must(rig.Ping(s.B.Host, s.A.Host4))
		return fmt.Sprintf("WAN: %s after %.0f s", seen, after.Seconds())
	})
}
