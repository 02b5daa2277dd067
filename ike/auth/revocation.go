package auth

import (
	"crypto/x509"
	"errors"
	"time"
)

// RevocationMode says what happens to a certificate of which nobody says whether it is revoked. One that is revoked is refused in every mode but off.
type RevocationMode uint8

const (
	RevocationSoft   RevocationMode = iota // accepted, with a note
	RevocationStrict                       // refused
	RevocationOff                          // nobody is asked
)

// ParseRevocationMode reads "strict", "soft" or "off".
func ParseRevocationMode(s string) (RevocationMode, error) { return 0, errors.New("not yet") }

func (m RevocationMode) String() string { return "" }

// Revocations are what is at hand of CRLs and OCSP responses. None of them is trusted before its signature is checked.
type Revocations struct {
	CRLs []*x509.RevocationList
	OCSP [][]byte // DER of OCSPResponse (RFC 6960 section 4.2.1)
}

// ParseCRLs reads the CRLs of a file, PEM or DER.
func ParseCRLs(data []byte) ([]*x509.RevocationList, error) { return nil, errors.New("not yet") }

// LinkState is what is known of one certificate.
type LinkState uint8

const (
	LinkUnknown LinkState = iota
	LinkGood
	LinkRevoked
)

// Link is one certificate of a chain and what its issuer says of it.
type Link struct {
	Cert, Issuer *x509.Certificate
	State        LinkState
	Why          string    // the reason of a revocation, or why nothing is known
	At           time.Time // of the revocation
	Until        time.Time // when the statement must be renewed
	By           string    // who says so: "OCSP" or "CRL"
}

// SourceKind is the kind of a Source.
type SourceKind uint8

const (
	SourceOCSP SourceKind = iota + 1
	SourceCRL
)

// Source is where to ask about one link. Its URL comes out of a certificate whose chain is verified; nothing else is known of it.
type Source struct {
	Kind         SourceKind
	URL          string // http:// only
	Request      []byte // of OCSP: the body to POST as application/ocsp-request
	Cert, Issuer *x509.Certificate
}

// CheckRevocation judges each certificate of a verified chain, end entity first, but for the root.
func CheckRevocation(chain []*x509.Certificate, p Revocations, at time.Time) []Link { return nil }

// OCSPFresh checks an OCSP response for a certificate: signature, freshness, and that it says good. It returns the time at which to ask again.
func OCSPFresh(response []byte, cert, issuer *x509.Certificate, at time.Time) (until time.Time, err error) {
	return time.Time{}, errors.New("not yet")
}
