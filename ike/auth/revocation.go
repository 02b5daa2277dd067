package auth

import (
	"crypto/x509"
	"fmt"
	"strings"
	"time"
)

// RevocationMode says what happens to a certificate of which nobody says whether it is revoked. One that is revoked is refused in every mode but off.
type RevocationMode uint8

const (
	RevocationSoft   RevocationMode = iota // accepted, with a note
	RevocationStrict                       // refused
	RevocationOff                          // nobody is asked
)

func (m RevocationMode) String() string {
	switch m {
	case RevocationSoft:
		return "soft"
	case RevocationStrict:
		return "strict"
	}
	return "off"
}

// Revocations are what is at hand of CRLs and OCSP responses. None of them is trusted before its signature is checked.
type Revocations struct {
	CRLs []*x509.RevocationList
	OCSP [][]byte // DER of OCSPResponse (RFC 6960 section 4.2.1)
}

// LinkState is what is known of one certificate.
type LinkState uint8

const (
	LinkUnknown LinkState = iota
	LinkGood
	LinkRevoked
)

func (s LinkState) String() string {
	switch s {
	case LinkGood:
		return "good"
	case LinkRevoked:
		return "revoked"
	}
	return "unknown"
}

// Link is one certificate of a chain and what its issuer says of it.
type Link struct {
	Cert, Issuer *x509.Certificate
	State        LinkState
	Why          string    // the reason of a revocation, or why nothing is known
	At           time.Time // of the revocation
	Until        time.Time // when a good word must be renewed
	By           string    // who says so: "OCSP" or "CRL"
}

// CheckRevocation judges each certificate of a verified chain, end entity first, but for the root. One word that a certificate is revoked counts more than any that
// it is good.
func CheckRevocation(chain []*x509.Certificate, p Revocations, at time.Time) []Link {
	var links []Link
	for i := 0; i+1 < len(chain); i++ {
		links = append(links, checkLink(chain[i], chain[i+1], p, at))
	}
	return links
}

func checkLink(c, issuer *x509.Certificate, p Revocations, at time.Time) Link {
	best := Link{Cert: c, Issuer: issuer}
	var whys []string
	consider := func(l Link, err error) {
		switch {
		case err != nil:
			if len(whys) < maxNames {
				whys = append(whys, err.Error())
			}
		case l.State == LinkRevoked || best.State == LinkUnknown || best.State == LinkGood && l.State == LinkGood && l.Until.After(best.Until):
			l.Cert, l.Issuer = c, issuer
			best = l
		}
	}
	for _, response := range p.OCSP {
		l, err := checkOCSP(response, c, issuer, at)
		if err != errOtherCert {
			consider(l, err)
		}
	}
	for _, crl := range p.CRLs {
		l, err := checkCRL(crl, c, issuer, at)
		if err != errOtherCert {
			consider(l, err)
		}
	}
	if best.State == LinkUnknown {
		best.Why = strings.Join(whys, "; ")
		if len(whys) == 0 {
			best.Why = fmt.Sprintf("no CRL or OCSP response of %s is at hand", Label(issuer))
			if len(sources(c, issuer)) == 0 {
				best.Why += ", and the certificate names no place to ask"
			}
		}
	}
	return best
}

// SourceKind is the kind of a Source.
type SourceKind uint8

const (
	SourceOCSP SourceKind = iota + 1
	SourceCRL
)

func (k SourceKind) String() string {
	if k == SourceOCSP {
		return "OCSP"
	}
	return "CRL"
}

// Source is where to ask about one link. Its URL comes out of a certificate whose chain is verified (CVE-2022-40617); nothing else is known of it.
type Source struct {
	Kind         SourceKind
	URL          string // http alone: what is fetched is signed, and https would need certificates to check certificates
	Request      []byte // of OCSP: the body to POST as application/ocsp-request
	Cert, Issuer *x509.Certificate
}

// Bounds on what a certificate can make us ask.
const (
	maxURLs = 2 // of each kind
	maxURL  = 1024
)

func sources(c, issuer *x509.Certificate) []Source {
	var list []Source
	add := func(kind SourceKind, urls []string, request []byte) {
		n := 0
		for _, u := range urls {
			if n < maxURLs && len(u) <= maxURL && strings.HasPrefix(lower(u), "http://") {
				list = append(list, Source{kind, u, request, c, issuer})
				n++
			}
		}
	}
	if len(c.OCSPServer) > 0 {
		add(SourceOCSP, c.OCSPServer, ocspRequest(c, issuer))
	}
	add(SourceCRL, c.CRLDistributionPoints, nil)
	return list
}

// reason is a CRLReason (RFC 5280 section 5.3.1).
func reason(n int) string {
	switch n {
	case 0:
		return "no reason given"
	case 1:
		return "the key is compromised"
	case 2:
		return "the CA is compromised"
	case 3:
		return "its holder's affiliation changed"
	case 4:
		return "it is superseded"
	case 5:
		return "it is not used any more"
	case 6:
		return "it is on hold"
	case 9:
		return "a privilege was withdrawn"
	case 10:
		return "an attribute authority is compromised"
	}
	return fmt.Sprintf("reason %d", n)
}
