package auth

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"golang.org/x/crypto/ocsp"
)

// The structures of RFC 6960 section 4.2.1. golang.org/x/crypto/ocsp reads them too, but compares serial numbers alone: a responder that serves two CAs could have its
// word on one taken for the other.
type (
	ocspResponse struct {
		Status   asn1.Enumerated
		Response ocspBytes `asn1:"explicit,tag:0,optional"`
	}
	ocspBytes struct {
		Type     asn1.ObjectIdentifier
		Response []byte
	}
	ocspBasic struct {
		Data         ocspData
		Algorithm    pkix.AlgorithmIdentifier
		Signature    asn1.BitString
		Certificates []asn1.RawValue `asn1:"explicit,tag:0,optional"`
	}
	ocspData struct {
		Raw        asn1.RawContent
		Version    int `asn1:"optional,default:0,explicit,tag:0"`
		Responder  asn1.RawValue
		ProducedAt time.Time `asn1:"generalized"`
		Responses  []ocspSingle
		Extensions []pkix.Extension `asn1:"explicit,tag:1,optional"`
	}
	ocspSingle struct {
		CertID     ocspCertID
		Good       asn1.Flag        `asn1:"tag:0,optional"`
		Revoked    ocspRevoked      `asn1:"tag:1,optional"`
		Unknown    asn1.Flag        `asn1:"tag:2,optional"`
		ThisUpdate time.Time        `asn1:"generalized"`
		NextUpdate time.Time        `asn1:"generalized,explicit,tag:0,optional"`
		Extensions []pkix.Extension `asn1:"explicit,tag:1,optional"`
	}
	ocspCertID struct {
		Hash     pkix.AlgorithmIdentifier
		NameHash []byte
		KeyHash  []byte
		Serial   *big.Int
	}
	ocspRevoked struct {
		At     time.Time       `asn1:"generalized"`
		Reason asn1.Enumerated `asn1:"explicit,tag:0,optional"`
	}
)

var oidOCSPBasic = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 48, 1, 1}

// Bounds on one response.
const (
	maxResponders = 4         // certificates in it that are looked at
	undated       = time.Hour // how long a response counts that does not say so itself (RFC 6960 section 4.2.2.1)
)

// OCSPFresh checks an OCSP response for a certificate: signature, freshness, and that it says good. It returns the time at which to ask again.
func OCSPFresh(response []byte, cert, issuer *x509.Certificate, at time.Time) (until time.Time, err error) {
	l, err := checkOCSP(response, cert, issuer, at)
	if err == nil && l.State != LinkGood {
		err = fmt.Errorf("the OCSP responder says that the certificate is %v: %s", l.State, l.Why)
	}
	return l.Until, err
}

// CheckOCSP says why what came as an OCSP response is none: it cannot be read, or the responder does not answer. Who signed it is not looked at.
func CheckOCSP(response []byte) error {
	_, err := readOCSP(response)
	return err
}

// ocspRequest asks about one certificate by SHA-1, as RFC 5019 section 2.1.1 wants it; nil if it cannot be built.
func ocspRequest(c, issuer *x509.Certificate) []byte {
	der, err := ocsp.CreateRequest(c, issuer, &ocsp.RequestOptions{Hash: crypto.SHA1})
	if err != nil {
		return nil
	}
	return der
}

// checkOCSP says what a response says of a certificate.
func checkOCSP(response []byte, c, issuer *x509.Certificate, at time.Time) (Link, error) {
	basic, err := readOCSP(response)
	if err != nil {
		return Link{}, err
	}
	i := slices.IndexFunc(basic.Data.Responses, func(s ocspSingle) bool { return s.CertID.names(c, issuer) })
	if i < 0 {
		return Link{}, errOtherCert
	}
	if err := checkKey(issuer.PublicKey); err != nil {
		return Link{}, err
	}
	if err := basic.signed(issuer, at); err != nil {
		return Link{}, err
	}
	single := &basic.Data.Responses[i]
	for _, e := range slices.Concat(single.Extensions, basic.Data.Extensions) {
		if e.Critical {
			return Link{}, errors.New("the OCSP response has a critical extension that is not known here")
		}
	}
	return single.judge(at)
}

func readOCSP(response []byte) (*ocspBasic, error) {
	var outer ocspResponse
	if rest, err := asn1.Unmarshal(response, &outer); err != nil || len(rest) > 0 {
		return nil, errors.New("the OCSP response cannot be read")
	}
	if outer.Status != 0 {
		return nil, fmt.Errorf("the OCSP responder did not answer: %s", ocspStatus(int(outer.Status)))
	}
	basic := &ocspBasic{}
	if !outer.Response.Type.Equal(oidOCSPBasic) {
		return nil, errors.New("the OCSP response is of a kind that is not known")
	}
	if rest, err := asn1.Unmarshal(outer.Response.Response, basic); err != nil || len(rest) > 0 {
		return nil, errors.New("the OCSP response cannot be read")
	}
	return basic, nil
}

func ocspStatus(n int) string {
	switch n {
	case 1:
		return "the request was malformed"
	case 2:
		return "an internal error"
	case 3:
		return "try later"
	case 5:
		return "it wants signed requests"
	case 6:
		return "it does not serve us"
	}
	return fmt.Sprintf("status %d", n)
}

// names reports whether a CertID is that of a certificate of an issuer: both hashes and the serial number.
func (id *ocspCertID) names(c, issuer *x509.Certificate) bool {
	if id.Serial == nil || id.Serial.Cmp(c.SerialNumber) != 0 {
		return false
	}
	var spki struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	if _, err := asn1.Unmarshal(issuer.RawSubjectPublicKeyInfo, &spki); err != nil {
		return false
	}
	for _, h := range hashes {
		if id.Hash.Algorithm.Equal(h.oid) {
			return bytes.Equal(id.NameHash, sum(h.hash, issuer.RawSubject)) && bytes.Equal(id.KeyHash, sum(h.hash, spki.Key.RightAlign()))
		}
	}
	return false
}

func sum(h crypto.Hash, b []byte) []byte {
	state := h.New()
	state.Write(b)
	return state.Sum(nil)
}

// signed checks the signature: the issuer's own, or that of a responder to whom the issuer itself gave a certificate with OCSPSigning (RFC 6960 section 4.2.2.2).
func (b *ocspBasic) signed(issuer *x509.Certificate, at time.Time) error {
	algorithm := signatureAlgorithm(b.Algorithm.Algorithm)
	if issuer.CheckSignature(algorithm, b.Data.Raw, b.Signature.RightAlign()) == nil {
		return nil
	}
	why := fmt.Errorf("the OCSP response is signed neither by %s nor by a responder of it", Label(issuer))
	for _, raw := range b.Certificates[:min(len(b.Certificates), maxResponders)] {
		c, err := x509.ParseCertificate(raw.FullBytes)
		if err != nil || checkKey(c.PublicKey) != nil || c.CheckSignature(algorithm, b.Data.Raw, b.Signature.RightAlign()) != nil {
			continue
		}
		switch {
		case !bytes.Equal(c.RawIssuer, issuer.RawSubject) || c.CheckSignatureFrom(issuer) != nil:
			why = fmt.Errorf("the OCSP responder %s has no certificate from %s", Label(c), Label(issuer))
		case !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning):
			why = fmt.Errorf("the certificate of the OCSP responder %s is not for OCSPSigning", Label(c))
		case at.Before(c.NotBefore) || at.After(c.NotAfter):
			why = fmt.Errorf("the certificate of the OCSP responder %s is valid from %s to %s, and it is %s now", Label(c), Date(c.NotBefore), Date(c.NotAfter), Date(at))
		case len(c.UnhandledCriticalExtensions) > 0:
			why = fmt.Errorf("the certificate of the OCSP responder %s has a critical extension that is not known here", Label(c))
		default:
			return nil
		}
	}
	return why
}

// judge: a response that is out of date still says that a certificate is revoked, but not that it is good.
func (s *ocspSingle) judge(at time.Time) (Link, error) {
	until := s.NextUpdate
	if until.IsZero() {
		until = s.ThisUpdate.Add(undated)
	}
	switch {
	case !bool(s.Good) && !bool(s.Unknown):
		return Link{State: LinkRevoked, Why: reason(int(s.Revoked.Reason)), At: s.Revoked.At, By: "OCSP"}, nil
	case bool(s.Unknown):
		return Link{}, errors.New("the OCSP responder does not know the certificate")
	case s.ThisUpdate.After(at.Add(maxSkew)):
		return Link{}, fmt.Errorf("the OCSP response is dated %s, and it is %s now", Date(s.ThisUpdate), Date(at))
	case at.After(until):
		return Link{}, fmt.Errorf("the OCSP response was to be renewed on %s, and it is %s now", Date(until), Date(at))
	}
	return Link{State: LinkGood, Until: until, By: "OCSP"}, nil
}

// signatureAlgorithm is what crypto/x509 calls an algorithm of an OCSP response; SHA-1 is not among those that are accepted.
func signatureAlgorithm(oid asn1.ObjectIdentifier) x509.SignatureAlgorithm {
	rsa := []x509.SignatureAlgorithm{0, x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA}
	ec := []x509.SignatureAlgorithm{0, x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512}
	for i, h := range hashes {
		switch {
		case oid.Equal(h.rsa):
			return rsa[i]
		case oid.Equal(h.ec):
			return ec[i]
		}
	}
	if oid.Equal(oidEd25519) {
		return x509.PureEd25519
	}
	return x509.UnknownSignatureAlgorithm
}
