package ike

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/policy"
)

// maxRequests bounds the CERTREQ payloads of a message of ours. Each is a hint (RFC 7296 section 3.7), so leaving some out costs nothing.
const maxRequests = 8

// signs: signatures take part in the authentication of a connection, in one direction at least.
func signs(c *policy.Connection) bool {
	return c.Local.Proof.Credential != nil || c.Remote.Proof.Trust != nil
}

// signatureHashes announces the hash algorithms that we accept in signatures (RFC 7427 section 4), when any of the connections needs one.
func signatureHashes(conns ...*policy.Connection) []wire.Payload {
	if !slices.ContainsFunc(conns, signs) {
		return nil
	}
	return []wire.Payload{wire.NewNotify(wire.NotifySignatureHashAlgorithms, auth.AppendHashes(nil, auth.Hashes()))}
}

// peerHashes reads the peer's announcement; nil: there is none that can be used, and signatures are made as before RFC 7427.
func peerHashes(ps []wire.Payload) []wire.HashID {
	n, ok := wire.FindNotify(ps, wire.NotifySignatureHashAlgorithms)
	if !ok {
		return nil
	}
	hashes, err := auth.ParseHashes(n.Data)
	if err != nil {
		return nil
	}
	return hashes
}

// certRequests are the CERTREQ payloads for what the connections trust, each once.
func certRequests(conns ...*policy.Connection) (list []wire.Payload) {
	for _, c := range conns {
		t := c.Remote.Proof.Trust
		if t == nil {
			continue
		}
		for _, p := range t.Requests() {
			q, ok := p.(*wire.CertReq)
			known := func(o wire.Payload) bool {
				x := o.(*wire.CertReq)
				return x.Encoding == q.Encoding && bytes.Equal(x.Authorities, q.Authorities)
			}
			if ok && len(list) < maxRequests && !slices.ContainsFunc(list, known) {
				list = append(list, q)
			}
		}
	}
	return list
}

// proof is how we prove who we are.
type proof struct {
	certs []wire.Payload // CERT, end entity first
	auth  *wire.Auth
}

// signed is what the job of a signature returns.
type signed struct {
	proof
	note  string // a caution for the operator, or ""
	fault *auth.Fault
}

// prove makes our AUTH over our ID payload and goes on with it, or with the refusal, at once or after a job.
func (sa *SA) prove(p *authenticating, id *wire.ID, then func(proof, *Refusal)) {
	message, nonce, key := p.initR, p.ni, sa.keys.Pr
	if sa.initiator {
		message, nonce, key = p.initI, p.nr, sa.keys.Pi
	}
	conn := sa.conn
	credential := conn.Local.Proof.Credential
	if credential == nil {
		mac := auth.SharedKeyMAC(sa.suite.PRF, conn.PSK, message, nonce, key, id.Body)
		then(proof{auth: &wire.Auth{Method: wire.AuthSharedKey, Data: mac}}, nil)
		return
	}
	octets := auth.SignedOctets(sa.suite.PRF, message, nonce, key, id.Body)
	rules := auth.SignatureRules{Hashes: p.hashes, SHA1: conn.Signatures.SHA1, PKCS1: conn.Signatures.PKCS1}
	stapled := sa.config.Staple
	if !auth.WantsStaple(p.requests) {
		stapled = nil
	}
	sa.job(JobAuth, func() any {
		s, f := credential.Key.Sign(octets, rules)
		if f != nil {
			return signed{fault: f}
		}
		var staple []byte
		if stapled != nil {
			staple = stapled(credential)
		}
		return signed{proof: proof{certs: credential.Payloads(staple), auth: s.Auth}, note: s.Note}
	}, func(result any) {
		s, ok := result.(signed)
		switch {
		case sa.phase != phase(p) || sa.finished:
		case !ok:
			then(proof{}, &Refusal{Notify: wire.NotifyAuthenticationFailed, Stage: "IKE_AUTH", Code: CodeInternal, Why: "our signature could not be made"})
		case s.fault != nil:
			then(proof{}, authFault(conn, s.fault, ""))
		default:
			if s.note != "" {
				sa.ignored("%s", s.note)
			}
			then(s.proof, nil)
		}
	})
}

// authFault makes a Refusal of a fault of a proof; from is the peer that made it, for people.
func authFault(c *policy.Connection, f *auth.Fault, from string) *Refusal {
	r := &Refusal{Notify: wire.NotifyAuthenticationFailed, Stage: "IKE_AUTH", Code: CodeAuthFailed, Why: f.Why, Detail: f.Detail, Hint: f.Hint}
	if predicate, ok := strings.CutPrefix(f.Why, "it "); ok {
		r.Why = from + " " + predicate
	} else if from != "" && !strings.HasPrefix(f.Why, from) {
		r.Why = from + ": " + f.Why
	}
	if f.Code == auth.FaultIdentity || f.Code == auth.FaultUnwanted {
		r.Code = CodeBadIdentity
	}
	if at := where(c, f.Setting); f.Setting != "" && at != "" {
		r.Hint = fmt.Sprintf("%s: %s", at, f.Hint)
	}
	return r
}
