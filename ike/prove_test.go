package ike

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/policy"
)

// TestRequestsOfSeveral: what several connections trust is asked for once each, and not without bound.
func TestRequestsOfSeveral(t *testing.T) {
	trusting := func(names ...string) *policy.Connection {
		c := &policy.Connection{}
		c.Remote.Proof.Trust = &auth.Trust{Revocation: auth.RevocationOff}
		for _, name := range names {
			c.Remote.Proof.Trust.Roots = append(c.Remote.Proof.Trust.Roots, &x509.Certificate{RawSubjectPublicKeyInfo: []byte(name), PublicKey: name})
		}
		return c
	}
	psk := &policy.Connection{}
	if got := certRequests(psk, trusting("x"), trusting("x"), trusting("y"), psk); len(got) != 2 {
		t.Errorf("%d requests for two CAs", len(got))
	}
	var many []*policy.Connection
	for k := range 3 * maxRequests {
		many = append(many, trusting(fmt.Sprint(k)))
	}
	if got := certRequests(many...); len(got) != maxRequests {
		t.Errorf("%d requests", len(got))
	}
	if certRequests(psk) != nil {
		t.Error("certificates are asked for where a PSK proves the peer")
	}
}

// TestHashesAreAnnounced: by whoever signs or verifies, and by nobody else; an announcement that cannot be read is none.
func TestHashesAreAnnounced(t *testing.T) {
	for name, c := range map[string]struct {
		s        setup
		announce bool
	}{
		"PSK":      {setup{}, false},
		"one side": {setup{a: certified(gwA, "", byCA, "", true), b: certified(gwB, byCert("gw-b.example", "ed25519-b"), "", "", true)}, true},
	} {
		n := newPair(t, c.s)
		var said []bool
		n.hook = func(d datagram) []datagram {
			if m, _ := wire.Decode(d.data); m.Exchange == wire.IKESAInit {
				said = append(said, peerHashes(m.Payloads) != nil)
			}
			return []datagram{d}
		}
		n.up()
		if !slices.Equal(said, []bool{c.announce, c.announce}) {
			t.Errorf("%s: %v", name, said)
		}
	}
	odd := []wire.Payload{wire.NewNotify(wire.NotifySignatureHashAlgorithms, []byte{0, 2, 0})}
	if got := peerHashes(odd); got != nil {
		t.Errorf("three octets are read as %v", got)
	}
}

// TestStapleIsSent: to whoever asks for it, and where there is one.
func TestStapleIsSent(t *testing.T) {
	for _, c := range []struct {
		revocation string
		staple     bool
	}{{"soft", true}, {"soft", false}, {"off", true}} {
		n := newPair(t, setup{a: certified(gwA, byCert("gw-a.example", "p256"), byCA, fmt.Sprintf("revocation = %q", c.revocation), false),
			b: certified(gwB, byCert("gw-b.example", "p384"), byCA, "", false)})
		if c.staple {
			n.b.config.Staple = func(*auth.Credential) []byte { return []byte("signed by nobody") }
		}
		got := 0
		n.tamper(func(o *opened) bool {
			if o.is(wire.IKEAuth, true) {
				for _, p := range wire.All[*wire.Cert](o.ps) {
					if p.Encoding == wire.CertOCSPContent {
						got++
					}
				}
			}
			return false
		})
		n.a.step(Initiate{})
		n.run(time.Minute, nil)
		want := 0
		if c.staple && c.revocation != "off" {
			want = 1
		}
		if got != want {
			t.Errorf("%+v: %d OCSP responses in the answer", c, got)
		}
	}
}

// TestProofJobsLost: a signature that is never made or verified ends the attempt, in words of its own.
func TestProofJobsLost(t *testing.T) {
	certs := setup{a: certified(gwA, byCert("gw-a.example", "p256"), byCA, "", false), b: certified(gwB, byCert("gw-b.example", "p384"), byCA, "", false)}
	var all []string
	for lost := 1; lost <= 8; lost++ {
		n := newPair(t, certs)
		n.a.internal, n.a.loses = true, lost
		n.a.step(Initiate{})
		n.run(5*time.Minute, func() bool { return n.a.finish != nil })
		if n.a.jobs < lost {
			break
		}
		if n.a.finish == nil {
			t.Fatalf("job %d was lost, and a waits for ever", lost)
		}
		all = append(all, n.a.finish.Text)
	}
	for _, want := range []string{"our signature could not be made", "the proof could not be verified on this host"} {
		if !slices.ContainsFunc(all, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("none of %q says %q", all, want)
		}
	}
}

// TestLateProof: a signature or a verdict that comes when the IKE SA is over changes nothing.
func TestLateProof(t *testing.T) {
	certs := setup{a: certified(gwA, byCert("gw-a.example", "p256"), byCA, "", false), b: certified(gwB, byCert("gw-b.example", "p384"), byCA, "", false)}
	for jobs := 1; ; jobs++ {
		n := newPair(t, certs)
		n.a.step(Initiate{})
		n.run(time.Minute, func() bool { return n.a.jobs == jobs || n.a.children() == 1 })
		if n.a.jobs < jobs {
			if jobs < 4 {
				t.Errorf("only %d jobs", jobs-1)
			}
			return
		}
		n.a.step(Lower{Silent: true})
		n.run(2*time.Minute, nil)
		if n.a.finish == nil || n.a.children() > 0 {
			t.Errorf("job %d: finish %+v", jobs, n.a.finish)
		}
	}
}

// TestAuthFault: what is wrong with a proof, and whose, and where it is set.
func TestAuthFault(t *testing.T) {
	c := snapshot(t, certified(gwA, "", byCA, "", true), pskText).Connections[0]
	for _, x := range []struct {
		f    auth.Fault
		from string
		code Code
		why  string
		hint string
	}{
		{auth.Fault{Code: auth.FaultMethod, Why: "it is late", Hint: "wait"}, "192.0.2.9:500", CodeAuthFailed, "192.0.2.9:500 is late", "wait"},
		{auth.Fault{Code: auth.FaultIdentity, Why: "it is another", Hint: "ask", Setting: "remote.id"}, "192.0.2.9:500", CodeBadIdentity, "192.0.2.9:500 is another", where(c, "remote.id") + ": ask"},
		{auth.Fault{Code: auth.FaultUnwanted, Why: "the certificate is unknown"}, "192.0.2.9:500", CodeBadIdentity, "192.0.2.9:500: the certificate is unknown", ""},
		{auth.Fault{Code: auth.FaultSignature, Why: "our key is of no use"}, "", CodeAuthFailed, "our key is of no use", ""},
	} {
		r := authFault(c, &x.f, x.from)
		if r.Code != x.code || r.Why != x.why || r.Hint != x.hint || r.Notify != wire.NotifyAuthenticationFailed {
			t.Errorf("%q: %+v", x.f.Why, r)
		}
	}
}
