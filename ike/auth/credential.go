package auth

import (
	"crypto/x509"
	"time"

	"cygnet/ike/wire"
)

// Credential is what this side proves its identity with. It does not change once it is made.
type Credential struct {
	Key   *PrivateKey
	Chain []*x509.Certificate // end entity first, then its issuers; nil: a raw public key (RFC 7670)
}

// NewCredential puts the certificates of a file in order: the one whose key this is comes first, then its issuers. Without certificates
// it stands for a raw public key.
func NewCredential(key *PrivateKey, certs []*x509.Certificate) (*Credential, error) {
	return &Credential{Key: key, Chain: certs}, nil
}

// Prove checks that the certificate proves the identity that we shall claim. A DN comes back in the certificate's own octets. A raw key
// proves whatever the peer's configuration binds to it.
func (c *Credential) Prove(id Identity) (Identity, *Fault) { return id, nil }

// DefaultID is the identity to claim where none is configured: the first dNSName, rfc822Name or iPAddress, else the subject.
func (c *Credential) DefaultID() (Identity, bool) { return Identity{}, false }

// Payloads are the CERT payloads, end entity first (RFC 7296 section 3.6), without roots. staple is an OCSP response for the end entity
// (RFC 4806) or nil.
func (c *Credential) Payloads(staple []byte) []wire.Payload { return nil }

// IssuedUnder reports whether a CA of the chain is among those that the peer names. It is a hint to choose among several credentials, not a reason
// to send none: a responder always sends its certificate, since many clients ask for none.
func (c *Credential) IssuedUnder(requests []*wire.CertReq) bool { return false }

// Sources say where to ask for an OCSP response to staple.
func (c *Credential) Sources() []Source { return nil }

// Expiry is the earliest end of validity in a chain, and whose it is; (time.Time{}, nil) for an empty chain.
func Expiry(chain []*x509.Certificate) (time.Time, *x509.Certificate) { return time.Time{}, nil }

// WantsStaple reports whether the peer asks for OCSP responses in CERT payloads (RFC 4806 section 3.1).
func WantsStaple(requests []*wire.CertReq) bool { return false }
