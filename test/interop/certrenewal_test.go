//go:build interop

package interop

import (
	"fmt"
	"strings"
	"testing"

	"cygnet/test/rig"
)

// TestUserspaceCertificateRenewal: new certificate and key files are taken up by "ikectl reload" under load. The tunnel does not feel it, half of a renewal is
// refused, and the next authentication shows the new certificate to the peer: where we initiate it comes by itself.
func TestUserspaceCertificateRenewal(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	a := newAuthority(t)
	for _, initiate := range []bool{true, false} {
		line{peer: "strongSwan userspace", role: role(initiate), subject: "certificate renewed, reload", path: "IPv4"}.run(t, func(s *stage) string {
			x := tunnel(s.Topology, rig.GCM, false, false)
			if !initiate {
				x = tunnelB(s.Topology, x)
			}
			x.LocalProof, x.RemoteProof = a.proof(s, a.sub, "P-256", x.LocalID), a.proof(s, a.peers, "P-256", x.RemoteID)
			x.Cygnet = "rekey_time = \"0s\"\n"
			if initiate {
				x.Cygnet += "reauth_time = \"8s\"\nover_time = \"1m\"\nrand_time = \"0s\"\n"
			}
			old, renewed := x.LocalProof, a.issue(s, a.sub, rig.Leaf{CN: "renewed", Names: []string{x.LocalID}, Key: a.key(s, "P-384", "renewed")})
			ours := x
			if !initiate {
				x = x.Mirror()
			}
			own, us, other := s.two("strongSwan", x, initiate, rig.CygnetOptions{Dataplane: "userspace"})
			swan := other.Renewer.(*rig.Swan)
			if initiate {
				s.must(own.Up())
			} else {
				s.must(swan.Up())
			}
			child, ike := s.agree(patience, us, other, nil, nil)
			s.want(s.shows(swan, old) && !s.shows(swan, renewed), "strongSwan does not show our certificate with serial %s", old.Serial())
			stop, err := rig.Flood(s.A.Host, s.B.Host, s.B.Host4)
			s.must(err)
			defer stop()

			ours.LocalProof = renewed
			files := rig.CygnetConfig(ours, rig.CygnetOptions{Dataplane: "userspace"})
			s.must(rig.Config{"secrets/own.key": files["secrets/own.key"]}.Write(own.Dir))
			out, code := own.Ikectl("reload")
			s.want(code != 0 && strings.Contains(out, "key"), "a key without its certificate is taken: exit %d: %s", code, out)
			half := out
			s.must(files.Write(own.Dir))
			out, code = own.Ikectl("reload")
			s.want(code == 0, "reload: exit %d: %s", code, out)
			s.want(s.still(us, other, child, ike), "the tunnel is another after the reload")
			t.Logf("reload: %s%s", half, out)

			s.must(us.Rekey()) // the IKE SA is of use as before
			child, _ = s.agree(patience, us, other, []string{child}, nil)
			loss, err := stop() // strongSwan itself may lose one when a new IKE SA brings another child
			s.must(err)
			if !initiate {
				s.must(swan.Down())
				s.must(swan.Up())
			}
			s.agree(3*patience, us, other, []string{child}, []string{ike})
			s.want(s.shows(swan, renewed), "strongSwan does not show our new certificate with serial %s", renewed.Serial())
			return fmt.Sprintf("%s; strongSwan shows serial %s, then %s", loss, old.Serial(), renewed.Serial())
		})
	}
}

// shows says whether strongSwan has come to know a certificate, by its serial number.
func (s *stage) shows(swan *rig.Swan, p *rig.Proof) bool {
	serials, err := swan.Serials()
	s.must(err)
	for _, n := range serials {
		if n == p.Serial() {
			return true
		}
	}
	return false
}

// still says whether both ends show the same SAs as before.
func (s *stage) still(us, other *gateway, child, ike string) bool {
	x, err := us.Shown()
	s.must(err)
	y, err := other.Shown()
	s.must(err)
	return len(x.Children) == 1 && len(y.Children) == 1 && x.Children[0] == child && y.Mirror().Children[0] == child && len(x.IKE) == 1 && x.IKE[0] == ike
}
