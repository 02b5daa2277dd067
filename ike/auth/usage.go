package auth

import (
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"slices"
	"strings"
)

// Extended key usages that IKE knows and crypto/x509 has no name for.
var (
	oidIPsecIKE        = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 17} // RFC 4945 section 5.1.3.12
	oidIKEIntermediate = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 8, 2, 2}  // what it was before, which macOS looks for
)

// UsageHint is what to do about a certificate that is not for IKE.
const UsageHint = "issue it with keyUsage digitalSignature and extendedKeyUsage serverAuth for a gateway, clientAuth for a user"

// usable says why a certificate may not sign AUTH, or "".
//
// keyUsage, when it is there, has digitalSignature or nonRepudiation (RFC 4945 section 5.1.3.2). Extended key usage, when it is there, has one of
// anyExtendedKeyUsage, ipsecIKE, its predecessors, serverAuth or clientAuth: public CAs issue the last two alone. A gateway may answer with a serverAuth
// certificate and call with it, since it has one certificate; a clientAuth certificate alone makes nobody a responder, else each user could stand in for the gateway.
func usable(c *x509.Certificate, responder bool) string {
	if c.KeyUsage != 0 && c.KeyUsage&(x509.KeyUsageDigitalSignature|x509.KeyUsageContentCommitment) == 0 {
		return "its keyUsage has neither digitalSignature nor nonRepudiation"
	}
	return allows(c, responder, "it is a user's, not a gateway's")
}

// mayIssue says why a CA may not issue certificates for this, or "": extended key usages of a CA bound those below it, as all who check them have it. A CA for users makes
// no gateway.
func mayIssue(ca *x509.Certificate, responder bool) string {
	return allows(ca, responder, "it is for users, not for gateways")
}

// allows says why the extended key usages of a certificate forbid what it is used for, or ""; users are the words for one that is for users alone.
func allows(c *x509.Certificate, responder bool, users string) string {
	client := slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	switch {
	case !restricted(c) || allowsIKE(c) || slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth), client && !responder:
		return ""
	case client:
		return "its extendedKeyUsage is clientAuth alone: " + users
	}
	return "its extendedKeyUsage is " + usages(c) + ", not serverAuth, clientAuth or ipsecIKE"
}

func restricted(c *x509.Certificate) bool { return len(c.ExtKeyUsage)+len(c.UnknownExtKeyUsage) > 0 }

func allowsIKE(c *x509.Certificate) bool {
	for _, u := range c.ExtKeyUsage {
		switch u {
		case x509.ExtKeyUsageAny, x509.ExtKeyUsageIPSECEndSystem, x509.ExtKeyUsageIPSECTunnel, x509.ExtKeyUsageIPSECUser:
			return true
		}
	}
	return slices.ContainsFunc(c.UnknownExtKeyUsage, func(o asn1.ObjectIdentifier) bool { return o.Equal(oidIPsecIKE) || o.Equal(oidIKEIntermediate) })
}

// usages lists at most a few: a stranger chose them.
func usages(c *x509.Certificate) string {
	var words []string
	for _, u := range c.ExtKeyUsage {
		words = append(words, usageName(u))
	}
	for _, o := range c.UnknownExtKeyUsage {
		words = append(words, text(o.String()))
	}
	if n := len(words) - maxNames; n > 0 {
		words = append(words[:maxNames], fmt.Sprintf("and %d more", n))
	}
	return strings.Join(words, ", ")
}

func usageName(u x509.ExtKeyUsage) string {
	switch u {
	case x509.ExtKeyUsageServerAuth:
		return "serverAuth"
	case x509.ExtKeyUsageClientAuth:
		return "clientAuth"
	case x509.ExtKeyUsageCodeSigning:
		return "codeSigning"
	case x509.ExtKeyUsageEmailProtection:
		return "emailProtection"
	case x509.ExtKeyUsageTimeStamping:
		return "timeStamping"
	case x509.ExtKeyUsageOCSPSigning:
		return "OCSPSigning"
	}
	return "another"
}
