//go:build interop

package interop

import (
	"strings"
	"testing"

	"cygnet/test/rig"
)

// TestUserspaceOpening: IKE_SA_INIT that takes more than one round, by strongSwan's log. The initiator guesses Curve25519, the responder
// has MODP-2048 only; a COOKIE comes before that or not at all.
func TestUserspaceOpening(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	const cookies = "cookie_threshold = 0\n"
	for _, c := range []struct {
		subject    string
		initiate   bool
		own, swan  string   // keys of the daemons
		wrongGuess bool     // of the initiator
		want       []string // in strongSwan's log, in this order
	}{
		{"INVALID_KE_PAYLOAD", true, "", "", true, []string{
			"generating IKE_SA_INIT response 0 [ N(INVAL_KE) ]", "generating IKE_SA_INIT response 0 [ SA KE"}},
		{"INVALID_KE_PAYLOAD", false, "", "", true, []string{
			"parsed IKE_SA_INIT response 0 [ N(INVAL_KE) ]", "it requested MODP_2048", "parsed IKE_SA_INIT response 0 [ SA KE"}},
		{"COOKIE", true, "", "cookie_threshold = 1", false, []string{
			"generating IKE_SA_INIT response 0 [ N(COOKIE) ]", "parsed IKE_SA_INIT request 0 [ N(COOKIE) SA KE", "generating IKE_SA_INIT response 0 [ SA KE"}},
		{"COOKIE", false, cookies, "", false, []string{
			"parsed IKE_SA_INIT response 0 [ N(COOKIE) ]", "generating IKE_SA_INIT request 0 [ N(COOKIE) SA KE", "parsed IKE_SA_INIT response 0 [ SA KE"}},
		{"COOKIE and INVALID_KE_PAYLOAD", true, "", "cookie_threshold = 1", true, []string{
			"generating IKE_SA_INIT response 0 [ N(COOKIE) ]", "parsed IKE_SA_INIT request 0 [ N(COOKIE) SA KE",
			"generating IKE_SA_INIT response 0 [ N(INVAL_KE) ]", "parsed IKE_SA_INIT request 0 [ N(COOKIE) SA KE", "generating IKE_SA_INIT response 0 [ SA KE"}},
		{"COOKIE and INVALID_KE_PAYLOAD", false, cookies, "", true, []string{
			"parsed IKE_SA_INIT response 0 [ N(COOKIE) ]", "generating IKE_SA_INIT request 0 [ N(COOKIE) SA KE",
			"parsed IKE_SA_INIT response 0 [ N(INVAL_KE) ]", "generating IKE_SA_INIT request 0 [ N(COOKIE) SA KE", "parsed IKE_SA_INIT response 0 [ SA KE"}},
	} {
		line{peer: "strongSwan userspace", role: role(c.initiate), subject: c.subject, path: "IPv4"}.run(t, func(s *stage) string {
			x := tunnel(s.Topology, rig.CBC, false, false)
			y := tunnelB(s.Topology, x)
			if c.wrongGuess {
				x.Suite.IKE = "aes256-sha256-x25519-modp2048"
			}
			x.SwanDaemon, y.SwanDaemon = c.swan, c.swan
			own, swan := s.versus(x, y, c.initiate, rig.CygnetOptions{Dataplane: "userspace", Daemon: c.own})
			if c.swan != "" { // it asks for cookies once it has a half-open IKE SA
				s.must(s.A.Gateway.Do(func() error {
					_, err := knock(s.A.WAN4, s.B.WAN4)
					return err
				}))
			}
			if c.initiate {
				s.must(own.Up())
			} else {
				s.must(swan.Up())
			}
			s.must(rig.Ping(s.A.Host, s.B.Host4))
			log := strings.Join(swan.Said(""), "\n")
			for rest, i := log, 0; i < len(c.want); i++ {
				_, after, found := strings.Cut(rest, c.want[i])
				s.want(found, "strongSwan does not say, or not in this order, %q:\n%s", c.want[i], log)
				rest = after
			}
			return "strongSwan: " + strings.Join(c.want, "; ")
		})
	}
}
