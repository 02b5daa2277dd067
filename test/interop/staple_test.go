//go:build interop

package interop

import (
	"crypto/x509"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"cygnet/test/rig"
)

// TestUserspaceStaple: OCSP responses within IKE (RFC 4806) against a strongSwan that does them (6.0 and later). Who wants to know about a certificate, strictly, cannot ask the OCSP
// responder; who has the certificate can, and sends what it heard.
func TestUserspaceStaple(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", exec.Command(peersRoot()).Run()) // it unpacks them, if need be
	a := newAuthority(t)
	for _, ours := range []bool{true, false} {
		for _, initiate := range []bool{true, false} {
			subject := map[bool]string{true: "our stapled OCSP response", false: "its stapled OCSP response"}[ours]
			line{peer: "strongSwan 6 userspace", role: role(initiate), subject: subject, path: "IPv4"}.run(t, func(s *stage) string { return a.staple(s, ours, initiate) })
		}
	}
}

// staple is a row: ours says whose certificate is asked about.
func (a *authority) staple(s *stage, ours, initiate bool) string {
	x := tunnel(s.Topology, rig.GCM, false, false)
	y := tunnelB(s.Topology, x)
	own, peer, us, them := &x, &y, s.A, s.B
	if !initiate {
		own, peer, us, them = &y, &x, s.B, s.A
	}
	mine, its := a.asked(s, own.LocalID, "", wanOCSP), a.asked(s, peer.LocalID, "", wanOCSP)
	a.responder(s, []*x509.Certificate{mine.Cert, its.Cert}, nil)
	own.LocalProof, own.RemoteProof, peer.LocalProof, peer.RemoteProof = mine, its, its, mine
	mine.Sends, its.Sends = mine.Trust, its.Trust // the issuer, without whom nobody's answer can be judged
	peer.SwanRoot = peersRoot()
	cut := us
	if ours {
		cut, own.Cygnet, peer.Swan, peer.SwanRemote = them, "revocation = \"off\"\n", "ocsp = request", "revocation = strict"
	} else {
		own.Cygnet, peer.Swan = "revocation = \"strict\"\n", "ocsp = reply"
	}
	_, err := s.WAN.Output("nft", "add table inet ocsp; add chain inet ocsp in { type filter hook input priority 0; }; add rule inet ocsp in ip saddr "+cut.WAN4.String()+" tcp dport 8001 drop")
	s.must(err)
	cygnet, swan := s.versus(x, y, initiate, rig.CygnetOptions{Dataplane: "userspace"})
	first := rig.End(cygnet)
	if !initiate {
		first = swan
	}
	s.must(first.Up())
	s.must(rig.Ping(s.A.Host, s.B.Host4))
	word := "sending OCSP status"
	if ours {
		word = "received OCSP response"
	}
	said := swan.Said(word)
	s.want(len(said) > 0, "strongSwan does not say %q", word)
	if !ours {
		s.want(!strings.Contains(cygnet.Log.String(), "no word on the revocation"), "cygnet has asked by itself")
	}
	version := regexp.MustCompile(`strongSwan \d[^,]*`).FindString(strings.Join(swan.Said("(strongSwan "), "\n"))
	return fmt.Sprintf("up, data; %s: %s", version, told(said[0]))
}
