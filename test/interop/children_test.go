//go:build interop

package interop

import (
	"fmt"
	"strings"
	"testing"

	"cygnet/test/rig"
)

func TestUserspaceChildren(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	childrenRows(t, "userspace")
}

func TestKernelChildren(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	childrenRows(t, "kernel")
}

// childrenRows: further children on one IKE SA, without a key exchange of their own and with one in two groups, and an IPv6 one beside
// IPv4; strongSwan shows each with its group, data passes in both families, and one child goes without the others.
func childrenRows(t *testing.T, plane string) {
	need(t, "peers", rig.HaveSwan())
	for _, initiate := range []bool{true, false} {
		line{peer: "strongSwan " + plane, role: role(initiate), subject: "4 children, PFS in 2 groups", path: "IPv4+IPv6"}.run(t, func(s *stage) string {
			x := tunnel(s.Topology, rig.CBC, false, false)
			x.More = []rig.Child{
				{Name: "six", LocalTS: s.A.LAN6.String(), RemoteTS: s.B.LAN6.String(), ESP: "aes256-sha256"},
				{Name: "modp", LocalTS: "10.50.0.0/16", RemoteTS: s.B.LAN4.String(), ESP: "aes256-sha256", Group: "modp2048"},
				{Name: "ecp", LocalTS: "10.51.0.0/16", RemoteTS: s.B.LAN4.String(), ESP: "aes256-sha256", Group: "ecp256"},
			}
			if !initiate { // networks that are not there are cygnet's: kernel-libipsec wants an address in those of its side
				x.More[1].LocalTS, x.More[1].RemoteTS = s.A.LAN4.String(), "10.50.0.0/16"
				x.More[2].LocalTS, x.More[2].RemoteTS = s.A.LAN4.String(), "10.51.0.0/16"
			}
			own, swan := s.versus(x, tunnelB(s.Topology, x), initiate, rig.CygnetOptions{Dataplane: plane})
			up := swan.UpChild
			if initiate {
				up = func(child string) error {
					out, code := own.Ikectl("up", "s2s", "--child", child, "--timeout", "20s")
					if code != 0 {
						return fmt.Errorf("ikectl up: exit %d: %s", code, out)
					}
					return nil
				}
			}
			for _, name := range []string{"lan", "six", "modp", "ecp"} {
				s.must(up(name))
			}
			const all = "lan() six() modp(MODP_2048) ecp(ECP_256)"
			s.want(children(s, swan) == all, "strongSwan shows %s, wanted %s", children(s, swan), all)
			exchanges := strings.Join(append(swan.Said("CREATE_CHILD_SA request"), swan.Said("CREATE_CHILD_SA response")...), "\n")
			s.want(strings.Count(exchanges, "[ SA No TSi TSr ]") == 2 && strings.Count(exchanges, "[ SA No KE TSi TSr ]") == 4,
				"strongSwan should have seen one exchange without KE and two with:\n%s", exchanges)
			s.must(rig.Ping(s.A.Host, s.B.Host4))
			s.must(rig.Ping(s.B.Host, s.A.Host6))

			if initiate {
				out, code := own.Ikectl("down", "s2s", "--child", "six")
				s.want(code == 0, "ikectl down --child: exit %d: %s", code, out)
			} else {
				s.must(swan.DownChild("six"))
			}
			const rest = "lan() modp(MODP_2048) ecp(ECP_256)"
			s.want(rig.Until(patience, func() bool { return children(s, swan) == rest }), "strongSwan shows %s, wanted %s", children(s, swan), rest)
			s.must(rig.Ping(s.A.Host, s.B.Host4))
			s.want(rig.Ping(s.A.Host, s.B.Host6) != nil, "IPv6 passes although its child is down")
			return "list-sas: " + all + "; six down: " + rest
		})
	}
}

// children are strongSwan's installed children with their groups.
func children(s *stage, swan *rig.Swan) string {
	list, err := swan.Children()
	s.must(err)
	var out []string
	for _, c := range list {
		out = append(out, c.Name+"("+c.Group+")")
	}
	return strings.Join(out, " ")
}
