package ike

import (
	"strings"
	"testing"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/policy"
)

// TestSharedVerdict: which fault a proof has that is no signature, and what the operator is to change.
func TestSharedVerdict(t *testing.T) {
	psk := snapshot(t, gwB, pskText).Connections[0]
	certs := snapshot(t, certified(gwB, byCert("gw-b.example", "p384"), byCA, "", false), pskText).Connections[0]
	for _, c := range []struct {
		conn    *policy.Connection
		method  wire.AuthMethod
		right   bool
		why     string // "": it is the peer
		hint    string
		setting string
		code    auth.FaultCode
	}{
		{psk, wire.AuthSharedKey, true, "", "", "", auth.FaultCode("")},
		{psk, wire.AuthSharedKey, false, "its PSK differs from that of connection site-a", pskHint(psk), "", auth.FaultSignature},
		{psk, 0, true, "wants to authenticate by EAP, connection site-a wants a pre-shared key", "by PSK", "", auth.FaultMethod},
		{psk, 13, true, "by method 13, connection site-a wants a pre-shared key", "by PSK", "", auth.FaultMethod},
		{certs, wire.AuthSharedKey, true, "by a pre-shared key, connection site-a wants a signature", "by its certificate or key", "remote.ca", auth.FaultMethod},
		{certs, 0, false, "by EAP, connection site-a wants a signature", "by its certificate or key", "remote.ca", auth.FaultMethod},
		{certs, 13, false, "by method 13, connection site-a wants a signature", "by its certificate or key", "remote.ca", auth.FaultMethod},
	} {
		v := sharedVerdict(peerProof{conn: c.conn, auth: &wire.Auth{Method: c.method}, identity: c.conn.Remote.ID}, c.right)
		switch {
		case c.why == "":
			if v.fault != nil || v.how != "PSK" {
				t.Errorf("method %d: %+v", c.method, v.fault)
			}
		case v.fault == nil:
			t.Errorf("%s, method %d is taken", c.conn.Name, c.method)
		case !strings.Contains(v.fault.Why, c.why) || !strings.Contains(v.fault.Hint, c.hint) || v.fault.Setting != c.setting || v.fault.Code != c.code:
			t.Errorf("method %d: %+v", c.method, *v.fault)
		}
	}
	if v := sharedVerdict(peerProof{auth: &wire.Auth{Method: wire.AuthSharedKey}}, true); v.how != "" {
		t.Error("an unknown identity proves something")
	}
}

// TestStandIn: an identity that is not known, or proves itself by PSK, is judged by the trust of another connection, so that it costs as much.
func TestStandIn(t *testing.T) {
	psk, first, second := &policy.Connection{Name: "psk"}, &policy.Connection{Name: "first"}, &policy.Connection{Name: "second"}
	first.Remote.Proof.Trust, second.Remote.Proof.Trust = &auth.Trust{}, &auth.Trust{}
	for _, c := range []struct {
		conn   *policy.Connection
		others []*policy.Connection
		want   *policy.Connection
	}{
		{second, []*policy.Connection{first, second}, second},
		{nil, []*policy.Connection{psk, first, second}, first},
		{psk, []*policy.Connection{psk, second}, second},
		{psk, []*policy.Connection{psk}, psk},
		{nil, nil, nil},
	} {
		if got := standIn(c.conn, c.others); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestStrangersCostTheSame: for an identity that is not known as many jobs are done as for one that is and cannot prove itself.
func TestStrangersCostTheSame(t *testing.T) {
	jobs := func(a string) int {
		n := newPair(t, setup{a: a, b: certified(gwB, byCert("gw-b.example", "p384"), byCA, "", false)})
		n.fails()
		return n.b.jobs
	}
	wrong := jobs(certified(gwA, `cert = "gw-a.example/p256.pem?expired", key = { file = "p256.key" }`, byCA, "", false))
	stranger := jobs(certified(strings.Replace(gwA, "gw-a.example", "gw-x.example", 1), byCert("gw-x.example", "p256"), byCA, "", false))
	if stranger != wrong {
		t.Errorf("%d jobs for a stranger, %d for a known identity", stranger, wrong)
	}
}

// TestUnheard: whom we asked in vain is told of a revocation that is not known, and of nothing else.
func TestUnheard(t *testing.T) {
	failed := []string{"x did not help", "y did not either"}
	unknown, other := &auth.Fault{Code: auth.FaultUnknown, Why: "not known"}, &auth.Fault{Code: auth.FaultRevoked, Why: "revoked"}
	if got := unheard(unknown, failed); got.Why != "not known; x did not help; y did not either" || unknown.Why != "not known" {
		t.Errorf("%q, the first is %q", got.Why, unknown.Why)
	}
	if unheard(unknown, nil) != unknown || unheard(other, failed) != other || unheard(nil, failed) != nil {
		t.Error("another fault was changed")
	}
}
