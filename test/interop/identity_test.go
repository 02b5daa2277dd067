//go:build interop

package interop

import (
	"fmt"
	"testing"

	"cygnet/test/rig"
)

// identities are one pair of each ID type, in words that cygnet and strongSwan read alike (RFC 7296 section 3.5). shown is how strongSwan
// names them.
var identities = []struct{ kind, a, b, shownA, shownB string }{
	{"ID_IPV4_ADDR", "192.0.2.1", "198.51.100.7", "192.0.2.1", "198.51.100.7"},
	{"ID_IPV6_ADDR", "2001:db8:a::1", "2001:db8:b::7", "2001:db8:a::1", "2001:db8:b::7"},
	{"ID_FQDN", "gw-a.example", "gw-b.example", "gw-a.example", "gw-b.example"},
	{"ID_RFC822_ADDR", "a@example.org", "b@example.org", "a@example.org", "b@example.org"},
	{"ID_KEY_ID", "keyid:site a", "keyid:site b", "site a", "site b"},
}

// TestUserspaceIdentities: strongSwan proves ours and believes in them, by its own words.
func TestUserspaceIdentities(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	for _, id := range identities {
		for _, initiate := range []bool{true, false} {
			line{peer: "strongSwan userspace", role: role(initiate), subject: id.kind, path: "IPv4"}.run(t, func(s *stage) string {
				x := tunnel(s.Topology, rig.CBC, false, false)
				x.LocalID, x.RemoteID = id.a, id.b
				own, swan := s.versus(x, tunnelB(s.Topology, x), initiate, rig.CygnetOptions{Dataplane: "userspace"})
				shown := fmt.Sprintf("%s[%s]...%s[%s]", s.A.WAN4, id.shownA, s.B.WAN4, id.shownB)
				if initiate {
					s.must(own.Up())
					shown = fmt.Sprintf("%s[%s]...%s[%s]", s.B.WAN4, id.shownB, s.A.WAN4, id.shownA)
				} else {
					s.must(swan.Up())
				}
				s.want(len(swan.Said("established between "+shown)) == 1, "strongSwan does not say: established between %s", shown)
				s.must(rig.Ping(s.A.Host, s.B.Host4))
				return "strongSwan: established between " + shown
			})
		}
	}
}
