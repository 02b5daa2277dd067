package ike

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm/alg"
)

// peerProof is how the peer proves who it is, with all that the verification needs.
type peerProof struct {
	conn     *policy.Connection // nil: the identity is not known here, and the work is done all the same
	id       *wire.ID
	identity auth.Identity
	auth     *wire.Auth
	certs    []*wire.Cert
	message  []byte // the peer's IKE_SA_INIT message
	nonce    []byte // ours
	key      alg.Secret
}

// verdict is what came of it.
type verdict struct {
	how   string         // for people: "PSK", or the certificate and the signature
	ev    *auth.Evidence // nil for a PSK
	fault *auth.Fault    // nil: the peer is who it says
}

// peerProof gathers the proof from a message.
func (sa *SA) peerProof(p *authenticating, conn *policy.Connection, m *message) (v peerProof) {
	v = peerProof{conn: conn, message: p.initI, nonce: p.nr, key: sa.keys.Pi}
	if sa.initiator {
		v.message, v.nonce, v.key = p.initR, p.ni, sa.keys.Pr
	}
	v.id, _ = wire.FindID(m.payloads, sa.initiator)
	v.identity, _ = auth.FromPayload(v.id)
	v.auth, _ = wire.Find[*wire.Auth](m.payloads)
	if v.auth == nil {
		v.auth = &wire.Auth{}
	}
	v.certs = wire.All[*wire.Cert](m.payloads)
	return v
}

// verify judges a proof and goes on with the verdict, at once or after jobs and inquiries. others are the connections whose trust stands in for that of an
// unknown identity, so that it costs as much as a known one.
func (sa *SA) verify(p *authenticating, v peerProof, others []*policy.Connection, then func(verdict)) {
	if !auth.IsSignature(v.auth.Method) {
		var psk alg.Secret // empty: the same work for an identity that we do not know
		if v.conn != nil {
			psk = v.conn.PSK
		}
		right := auth.VerifySharedKey(sa.suite.PRF, psk, v.message, v.nonce, v.key, v.id.Body, v.auth.Data)
		then(sharedVerdict(v, right))
		return
	}
	sa.judge(p, v, standIn(v.conn, others), InquiryDone{}, then)
}

// sharedVerdict: a proof that is no signature.
func sharedVerdict(v peerProof, right bool) verdict {
	switch {
	case v.conn == nil:
		return verdict{}
	case v.unfit() != nil:
		return verdict{fault: v.unfit()}
	case !right:
		return verdict{fault: &auth.Fault{Code: auth.FaultSignature, Why: fmt.Sprintf("it does not prove %v: its PSK differs from that of connection %s", v.identity, v.conn.Name), Hint: pskHint(v.conn)}}
	}
	return verdict{how: "PSK"}
}

// unfit says that the proof is of another kind than the connection wants; nil: it is of that kind.
func (v peerProof) unfit() *auth.Fault {
	signed, wanted := auth.IsSignature(v.auth.Method), v.conn.Remote.Proof.Trust != nil
	if signed == wanted && (signed || v.auth.Method == wire.AuthSharedKey) {
		return nil
	}
	f := &auth.Fault{Code: auth.FaultMethod, Hint: "set the peer to authenticate itself by PSK"}
	want := "a pre-shared key"
	switch {
	case wanted:
		want, f.Setting = "a signature", auth.SettingCA
		f.Hint = "set the peer to authenticate itself by its certificate or key, or take ca, cert and public_key from remote here"
	case signed:
		f.Setting = "remote"
		f.Hint += ", or say here what is believed: ca, cert or public_key in remote"
	}
	what := fmt.Sprintf("proves %v by method %d", v.identity, v.auth.Method)
	switch {
	case v.auth.Method == 0:
		what = fmt.Sprintf("(%v) wants to authenticate by EAP", v.identity)
	case signed:
		what = fmt.Sprintf("proves %v by a signature (method %d)", v.identity, v.auth.Method)
	case v.auth.Method == wire.AuthSharedKey:
		what = fmt.Sprintf("proves %v by a pre-shared key", v.identity)
	}
	f.Why = fmt.Sprintf("it %s, connection %s wants %s", what, v.conn.Name, want)
	return f
}

// standIn is the connection whose trust judges certificates: the meant one, or another of the same address for an identity that is not known here or
// proves itself by PSK.
func standIn(conn *policy.Connection, others []*policy.Connection) *policy.Connection {
	if conn != nil && conn.Remote.Proof.Trust != nil {
		return conn
	}
	for _, c := range others {
		if c.Remote.Proof.Trust != nil {
			return c
		}
	}
	return conn
}

// judge verifies certificates and signature in a job. When a revocation is not known it asks, once, and judges again: only for a chain that leads to a
// configured CA and a signature that is right.
func (sa *SA) judge(p *authenticating, v peerProof, by *policy.Connection, heard InquiryDone, then func(verdict)) {
	var trust auth.Trust
	claim := auth.Claim{Certs: v.certs, ID: v.identity, Responder: sa.initiator, Proofs: heard.Found}
	var rules auth.SignatureRules
	if by != nil {
		if by.Remote.Proof.Trust != nil {
			trust = *by.Remote.Proof.Trust
		}
		claim.Want = by.Remote.Wanted()
		claim.Proofs.CRLs = append(claim.Proofs.CRLs, by.Remote.Proof.CRLs...)
		rules.SHA1 = by.Signatures.SHA1
	}
	if p.hashes != nil {
		rules.Hashes = auth.Hashes()
	}
	octets := auth.SignedOctets(sa.suite.PRF, v.message, v.nonce, v.key, v.id.Body)
	wall := sa.config.Wall
	sa.job(JobAuth, func() any {
		claim.At = time.Unix(0, 0)
		if wall != nil {
			claim.At = wall()
		}
		ev, f := trust.Verify(claim)
		if ev == nil {
			return verdict{fault: f}
		}
		scheme, wrong := ev.VerifySignature(octets, v.auth, rules)
		if wrong != nil {
			return verdict{fault: wrong}
		}
		return verdict{how: ev.How + ", " + scheme + unknownRevocation(ev), ev: ev, fault: unheard(f, heard.Failed)}
	}, func(result any) {
		d, ok := result.(verdict)
		switch {
		case sa.phase != phase(p) || sa.finished:
		case !ok:
			then(verdict{fault: &auth.Fault{Code: auth.FaultSignature, Why: "the proof could not be verified on this host"}})
		case v.conn == nil:
			then(verdict{})
		case v.unfit() != nil:
			then(verdict{fault: v.unfit()})
		case d.ev != nil && len(d.ev.Ask) > 0 && !p.inquired:
			p.inquired = true
			sa.inquire(p, d.ev.Ask, func(heard InquiryDone) { sa.judge(p, v, by, heard, then) })
		default:
			then(d)
		}
	})
}

// unheard adds to a revocation that is not known whom we asked in vain.
func unheard(f *auth.Fault, failed []string) *auth.Fault {
	if f == nil || f.Code != auth.FaultUnknown || len(failed) == 0 {
		return f
	}
	g := *f
	g.Why += "; " + strings.Join(failed, "; ")
	return &g
}

// unknownRevocation is what an operator who relies on CRLs or OCSP must read of an accepted proof.
func unknownRevocation(ev *auth.Evidence) string {
	if slices.ContainsFunc(ev.Links, func(l auth.Link) bool { return l.State == auth.LinkUnknown }) {
		return ", revocation not known"
	}
	return ""
}

// inquire asks who knows of revocations; an empty answer is one too.
func (sa *SA) inquire(p *authenticating, sources []auth.Source, then func(InquiryDone)) {
	t := sa.wait(func(ev Event) {
		if d, ok := ev.(InquiryDone); ok && sa.phase == phase(p) && !sa.finished {
			then(d)
		}
	})
	sa.out.Add(Inquiry{Token: t, Sources: sources})
}
