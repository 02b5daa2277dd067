package auth

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// errOtherCert: a statement that is not about the certificate in question.
var errOtherCert = errors.New("it is about another certificate")

// maxSkew is how far in the future a statement may have been made.
const maxSkew = 5 * time.Minute

var (
	oidIssuingPoint  = asn1.ObjectIdentifier{2, 5, 29, 28}
	oidAuthorityKey  = asn1.ObjectIdentifier{2, 5, 29, 35}
	oidCRLNumber     = asn1.ObjectIdentifier{2, 5, 29, 20}
	reasonRemoved    = 8 // removeFromCRL, of delta CRLs
	errPartialCRL    = errors.New("the CRL is a delta, indirect or partial one, which are not supported")
	errUnreadableCRL = errors.New("the CRL's issuingDistributionPoint cannot be read")
)

// checkCRL says what a CRL says of a certificate. A list that is out of date still says what is revoked, but not what is good.
func checkCRL(l *x509.RevocationList, c, issuer *x509.Certificate, at time.Time) (Link, error) {
	if !bytes.Equal(l.RawIssuer, issuer.RawSubject) {
		return Link{}, errOtherCert
	}
	if err := checkKey(issuer.PublicKey); err != nil {
		return Link{}, err
	}
	if err := inScope(l, c); err != nil {
		return Link{}, err
	}
	if l.CheckSignatureFrom(issuer) != nil {
		return Link{}, fmt.Errorf("the CRL in the name of %s is not signed by it, or not by an algorithm that is accepted", Label(issuer))
	}
	for _, e := range l.RevokedCertificateEntries {
		if e.SerialNumber.Cmp(c.SerialNumber) == 0 && e.ReasonCode != reasonRemoved {
			return Link{State: LinkRevoked, Why: reason(e.ReasonCode), At: e.RevocationTime, By: "CRL"}, nil
		}
	}
	switch {
	case l.ThisUpdate.After(at.Add(maxSkew)):
		return Link{}, fmt.Errorf("the CRL of %s is dated %s, and it is %s now", Label(issuer), Date(l.ThisUpdate), Date(at))
	case l.NextUpdate.IsZero(): // RFC 5280 section 5.1.2.5 demands it
		return Link{}, fmt.Errorf("the CRL of %s does not say how long it is good", Label(issuer))
	case at.After(l.NextUpdate):
		return Link{}, fmt.Errorf("the CRL of %s was to be renewed on %s, and it is %s now", Label(issuer), Date(l.NextUpdate), Date(at))
	}
	return Link{State: LinkGood, Until: l.NextUpdate, By: "CRL"}, nil
}

// inScope reports whether a CRL of the issuer is about this certificate (RFC 5280 section 6.3.3): CAs split theirs by issuingDistributionPoint, and a part says nothing of
// certificates of another.
func inScope(l *x509.RevocationList, c *x509.Certificate) error {
	for _, e := range l.Extensions {
		switch {
		case e.Id.Equal(oidIssuingPoint):
			if err := inDistributionPoint(e.Value, c); err != nil {
				return err
			}
		case e.Critical && !e.Id.Equal(oidAuthorityKey) && !e.Id.Equal(oidCRLNumber):
			return errPartialCRL
		}
	}
	return nil
}

// inDistributionPoint reads issuingDistributionPoint (RFC 5280 section 5.2.5).
func inDistributionPoint(value []byte, c *x509.Certificate) error {
	in := cryptobyte.String(value)
	var body, point cryptobyte.String
	var hasPoint bool
	tag := func(n uint8) cbasn1.Tag { return cbasn1.Tag(n).ContextSpecific() }
	flags := map[uint8]bool{}
	if !in.ReadASN1(&body, cbasn1.SEQUENCE) || !in.Empty() || !body.ReadOptionalASN1(&point, &hasPoint, tag(0).Constructed()) {
		return errUnreadableCRL
	}
	for n := uint8(1); n <= 5; n++ {
		var flag cryptobyte.String
		var has bool
		if !body.ReadOptionalASN1(&flag, &has, tag(n)) {
			return errUnreadableCRL
		}
		flags[n] = has && (n == 3 || len(flag) != 1 || flag[0] != 0)
	}
	switch {
	case !body.Empty():
		return errUnreadableCRL
	case flags[3] || flags[4] || flags[5]: // onlySomeReasons, indirectCRL, onlyContainsAttributeCerts
		return errPartialCRL
	case flags[1] && c.IsCA, flags[2] && !c.IsCA: // onlyContainsUserCerts, onlyContainsCACerts
		return errOtherCert
	case !hasPoint:
		return nil
	}
	return atPoint(point, c)
}

// atPoint: one of the CRL's own addresses is one that the certificate names.
func atPoint(point cryptobyte.String, c *x509.Certificate) error {
	var names cryptobyte.String
	if !point.ReadASN1(&names, cbasn1.Tag(0).Constructed().ContextSpecific()) { // fullName; relative names are not used
		return errPartialCRL
	}
	for !names.Empty() {
		var name cryptobyte.String
		var form cbasn1.Tag
		if !names.ReadAnyASN1(&name, &form) {
			return errUnreadableCRL
		}
		if form == cbasn1.Tag(6).ContextSpecific() && slices.Contains(c.CRLDistributionPoints, string(name)) {
			return nil
		}
	}
	return errOtherCert
}
