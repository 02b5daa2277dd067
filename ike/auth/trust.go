package auth

import (
	"crypto/x509"
	"time"

	"cygnet/ike/wire"
)

// Trust is what a connection accepts as proof of its peer's identity. The zero value accepts nothing. It does not change once it is made.
type Trust struct {
	Roots         []*x509.Certificate // CAs; no others are trusted, the host's least of all
	Intermediates []*x509.Certificate // that a peer may leave out
	Pinned        []*x509.Certificate // end entities, accepted for the identity that is configured beside them
	Keys          []*PublicKey        // raw public keys, likewise
	Revocation    RevocationMode
}

// Check says what of a configuration can never work: a root that is no CA, a key that proves nothing.
func (t *Trust) Check() error { return nil }

// Requests are the CERTREQ payloads (RFC 7296 section 3.7; RFC 7670 section 3 for raw keys, RFC 4806 section 3.1 for OCSP).
func (t *Trust) Requests() []wire.Payload { return nil }

// Claim is what a peer sent, and what its connection wants.
type Claim struct {
	Certs     []*wire.Cert // in the order of the message
	ID        Identity
	Want      Pattern // the zero Pattern: any identity that is proved
	Responder bool    // the peer is the responder of the IKE SA
	At        time.Time
	Proofs    Revocations // CRLs and OCSP responses at hand; those among Certs are found without being named here
}

// Evidence is an accepted proof that a key belongs to an identity. AUTH is still to be verified with that key.
type Evidence struct {
	Identity Identity            // as claimed; a DN in the certificate's own octets
	Keys     []*PublicKey        // with which AUTH may be verified: one, or all raw keys when the peer did not say which
	Chain    []*x509.Certificate // end entity first, root last; nil for a raw key
	How      string              // for a report: "certificate of gw-b.example, issued by Example CA"
	Links    []Link              // revocation of each certificate but the root
	Ask      []Source            // what to fetch before Verify is called again
	Notes    []string            // what was ignored or is not as it should be
	NotAfter time.Time           // the earliest end of validity in the chain; zero for a raw key
}

// Verify judges certificates and identity. Its work is bounded; it belongs in a job. On FaultUnknown the Evidence comes too, with what to fetch; on
// every other fault it is nil.
func (t *Trust) Verify(c Claim) (*Evidence, *Fault) {
	return nil, &Fault{Code: FaultNone, Why: "certificates are not checked yet"}
}

// VerifySignature checks AUTH with the key that is proved.
func (e *Evidence) VerifySignature(octets []byte, proof *wire.Auth, rules SignatureRules) (scheme string, f *Fault) {
	return "", &Fault{Code: FaultSignature, Why: "signatures are not checked yet"}
}
