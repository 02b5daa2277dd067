package auth

import (
	"bytes"
	"crypto/sha1"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	"cygnet/ike/wire"
)

// Credential is what this side proves its identity with. It does not change once it is made.
type Credential struct {
	Key   *PrivateKey
	Chain []*x509.Certificate // end entity first, then its issuers; nil: a raw public key (RFC 7670)
}

// NewCredential puts the certificates of a file in order: the one whose key this is comes first, then its issuers, then what else there is. Without
// certificates it stands for a raw public key.
func NewCredential(key *PrivateKey, certs []*x509.Certificate) (*Credential, error) {
	if key == nil {
		return nil, errors.New("a certificate without private key proves nothing")
	}
	if len(certs) == 0 {
		return &Credential{Key: key}, nil
	}
	if len(certs) > wire.MaxCertificates {
		return nil, fmt.Errorf("the file holds %d certificates, at most %d are sent; keep the gateway's own and its chain", len(certs), wire.MaxCertificates)
	}
	i := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return bytes.Equal(c.RawSubjectPublicKeyInfo, key.public.spki) })
	if i < 0 {
		return nil, fmt.Errorf("the private key (%v) belongs to none of the certificates of the file: %s", key.public, keyTexts(certs))
	}
	return &Credential{key, inOrder(certs, i)}, nil
}

// Unfit says why peers that look at the usage of keys refuse our certificate, or "". A gateway that only answers needs one that makes it a responder.
func (c *Credential) Unfit(onlyAnswers bool) string {
	if len(c.Chain) == 0 {
		return ""
	}
	return usable(c.Chain[0], onlyAnswers)
}

// inOrder begins with certs[first] and follows issuers.
func inOrder(certs []*x509.Certificate, first int) []*x509.Certificate {
	chain := []*x509.Certificate{certs[first]}
	rest := slices.Delete(slices.Clone(certs), first, first+1)
	for len(rest) > 0 {
		c := chain[len(chain)-1]
		i := slices.IndexFunc(rest, func(ca *x509.Certificate) bool { return bytes.Equal(ca.RawSubject, c.RawIssuer) })
		if i < 0 || selfIssued(c) {
			break
		}
		chain = append(chain, rest[i])
		rest = slices.Delete(rest, i, i+1)
	}
	return append(chain, rest...)
}

func selfIssued(c *x509.Certificate) bool { return bytes.Equal(c.RawIssuer, c.RawSubject) }

func keyTexts(certs []*x509.Certificate) string {
	var words []string
	for _, c := range certs {
		kind := "a key that is not supported"
		if k, err := newPublicKey(c.PublicKey); err == nil {
			kind = k.String()
		}
		words = append(words, fmt.Sprintf("%s has %s", Label(c), kind))
	}
	return strings.Join(words, ", ")
}

// Prove checks that the certificate proves the identity that we shall claim. A DN comes back in the certificate's own octets. A raw key
// proves whatever the peer's configuration binds to it.
func (c *Credential) Prove(id Identity) (Identity, *Fault) {
	if len(c.Chain) == 0 {
		return id, nil
	}
	if exact, ok := proves(c.Chain[0], id); ok {
		return exact, nil
	}
	why, hint := unproven(c.Chain[0], id)
	return Identity{}, &Fault{Code: FaultOwnIdentity, Why: "our own certificate does not prove our identity: " + why, Hint: hint, Setting: SettingLocalID}
}

// DefaultID is the identity to claim where none is configured: the first dNSName without wildcard, else rfc822Name, else iPAddress, else the subject.
func (c *Credential) DefaultID() (Identity, bool) {
	if len(c.Chain) == 0 {
		return Identity{}, false
	}
	for _, id := range names(c.Chain[0]) {
		if id.check() == nil && !strings.HasPrefix(id.Data, "*") {
			return id, true
		}
	}
	return Identity{}, false
}

// Payloads are the CERT payloads, end entity first (RFC 7296 section 3.6), without roots, which who trusts them has. staple is an OCSP response for the end entity
// (RFC 4806) or nil. A responder sends them whether or not it was asked: many clients ask for none.
func (c *Credential) Payloads(staple []byte) []wire.Payload {
	if len(c.Chain) == 0 {
		return []wire.Payload{&wire.Cert{Encoding: wire.CertRawPublicKey, Data: c.Key.public.spki}}
	}
	var ps []wire.Payload
	for i, cert := range c.Chain {
		if i == 0 || !selfIssued(cert) {
			ps = append(ps, &wire.Cert{Encoding: wire.CertX509Signature, Data: cert.Raw})
		}
	}
	if len(staple) > 0 {
		ps = append(ps, &wire.Cert{Encoding: wire.CertOCSPContent, Data: staple})
	}
	return ps
}

// lists reports whether a hash is one of a list of hashes.
func lists(list []byte, hash [sha1.Size]byte) bool {
	for ; len(list) >= len(hash); list = list[len(hash):] {
		if bytes.Equal(list[:len(hash)], hash[:]) {
			return true
		}
	}
	return false
}

// keyHash names a CA (RFC 7296 section 3.7): SHA-1 as a name, which proves nothing.
func keyHash(ca *x509.Certificate) [sha1.Size]byte { return sha1.Sum(ca.RawSubjectPublicKeyInfo) }

// Sources say where to ask for an OCSP response to staple.
func (c *Credential) Sources() []Source {
	if len(c.Chain) < 2 {
		return nil
	}
	return slices.DeleteFunc(sources(c.Chain[0], c.Chain[1]), func(s Source) bool { return s.Kind != SourceOCSP })
}

// WantsStaple reports whether the peer asks for OCSP responses in CERT payloads (RFC 4806 section 3.1).
func WantsStaple(requests []*wire.CertReq) bool {
	return slices.ContainsFunc(requests, func(r *wire.CertReq) bool { return r.Encoding == wire.CertOCSPContent })
}
