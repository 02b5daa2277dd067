package auth

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cygnet/ike/wire"
)

// verifyChain finds a chain from the end entity to a root. Each is checked by crypto/x509, which bounds its search by the number of signatures, with our own
// pools alone; then by what IKE demands.
func (t *Trust) verifyChain(p *presented, responder bool, at time.Time) ([]*x509.Certificate, *Fault) {
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	for _, c := range t.Roots {
		if checkKey(c.PublicKey) == nil {
			roots.AddCert(withoutNames(c))
		}
	}
	for _, c := range slices.Concat(t.Intermediates, p.others) {
		if checkKey(c.PublicKey) == nil {
			between.AddCert(withoutNames(c))
		}
	}
	chains, err := p.leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, CurrentTime: at,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}, // usable and mayIssue know IKE's
	})
	if err != nil {
		return nil, t.explain(p, at, err)
	}
	var first *Fault
	for _, chain := range chains {
		f := judge(chain, responder)
		if f == nil {
			return chain, nil
		}
		if first == nil {
			first = f
		}
	}
	return nil, first
}

// judge looks at what crypto/x509 leaves open in a chain.
func judge(chain []*x509.Certificate, responder bool) *Fault {
	leaf := chain[0]
	if len(chain) > wire.MaxChain {
		return &Fault{Code: FaultIssuer, Why: fmt.Sprintf("the chain of %s has %d certificates, at most %d are accepted", Label(leaf), len(chain), wire.MaxChain)}
	}
	if why := usable(leaf, responder); why != "" {
		return &Fault{Code: FaultUsage, Why: fmt.Sprintf("the certificate of %s is not for this: %s", Label(leaf), why),
			Hint: UsageHint}
	}
	for _, ca := range chain[1:] {
		if why := mayIssue(ca, responder); why != "" {
			return &Fault{Code: FaultUsage, Why: fmt.Sprintf("the CA %s may not issue certificates for this: %s", Label(ca), why), Hint: "use another CA"}
		}
	}
	if why := overstepped(chain); why != "" {
		return &Fault{Code: FaultConstraint, Why: why, Hint: "use a CA that may issue this, or issue the certificate to another name"}
	}
	return nil
}

// explain walks from the end entity up as far as it goes, and says what stops it there. err is what crypto/x509 said.
func (t *Trust) explain(p *presented, at time.Time, err error) *Fault {
	chain := []*x509.Certificate{p.leaf}
	for len(chain) <= wire.MaxChain {
		c := chain[len(chain)-1]
		if f := flaw(c, len(chain)-2, at); f != nil {
			f.Detail = chainText(chain, "")
			return f
		}
		if slices.ContainsFunc(t.Roots, c.Equal) {
			return t.exhausted(chain, err)
		}
		issuer, f := t.issuer(c, chain, p.others)
		if f != nil {
			return f
		}
		chain = append(chain, issuer)
	}
	return &Fault{Code: FaultIssuer, Why: fmt.Sprintf("the chain of %s does not end within %d certificates", Label(p.leaf), wire.MaxChain), Detail: chainText(chain, "")}
}

// exhausted: each link is right for itself.
func (t *Trust) exhausted(chain []*x509.Certificate, err error) *Fault {
	f := &Fault{Code: FaultIssuer, Why: fmt.Sprintf("the chain of %s is refused: %s", Label(chain[0]), text(strings.TrimPrefix(err.Error(), "x509: "))), Detail: chainText(chain, "")}
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.CANotAuthorizedForThisName {
		f.Code, f.Hint = FaultConstraint, "use a CA that may issue this, or issue the certificate to another name"
		limited := slices.DeleteFunc(slices.Clone(chain[1:]), unlimited)
		f.Why = fmt.Sprintf("%s may not issue to the names of %s: %s", labels(limited), Label(chain[0]), text(invalid.Detail))
	}
	return f
}

// flaw looks at one certificate with a number of CAs between it and the end entity; -1 for the end entity itself.
func flaw(c *x509.Certificate, below int, at time.Time) *Fault {
	what := "certificate of"
	if below >= 0 {
		what = "CA certificate"
	}
	if f := dated(c, what, at); f != nil {
		return f
	}
	if open := withoutNames(c).UnhandledCriticalExtensions; len(open) > 0 {
		return &Fault{Code: FaultMalformed, Why: fmt.Sprintf("the %s %s has a critical extension that is not known here: %s", what, Label(c), text(open[0].String()))}
	}
	if below > 0 && c.BasicConstraintsValid && c.MaxPathLen >= 0 && below > c.MaxPathLen {
		return &Fault{Code: FaultConstraint, Why: fmt.Sprintf("the CA %s allows at most %d CAs below it, and has %d", Label(c), c.MaxPathLen, below),
			Hint: "issue the certificate directly under that CA, or use another"}
	}
	return nil
}

func dated(c *x509.Certificate, what string, at time.Time) *Fault {
	switch {
	case at.Before(c.NotBefore):
		return &Fault{Code: FaultDate, Why: fmt.Sprintf("the %s %s is not valid before %s, and it is %s now", what, Label(c), Date(c.NotBefore), Date(at)),
			Hint: "if the date here is right, wait or issue it anew; else set the clock"}
	case at.After(c.NotAfter):
		return &Fault{Code: FaultDate, Why: fmt.Sprintf("the %s %s expired on %s, and it is %s now", what, Label(c), Date(c.NotAfter), Date(at)),
			Hint: "its owner must renew it; if the date here is wrong, set the clock"}
	}
	return nil
}

// issuer finds the CA that signed the last certificate of a chain, roots first.
func (t *Trust) issuer(c *x509.Certificate, chain, sent []*x509.Certificate) (*x509.Certificate, *Fault) {
	why := "" // a CA of the right name is not the one
	for _, ca := range slices.Concat(t.Roots, t.Intermediates, sent) {
		if !bytes.Equal(ca.RawSubject, c.RawIssuer) || slices.ContainsFunc(chain, ca.Equal) {
			continue
		}
		because := ""
		if err := checkKey(ca.PublicKey); err != nil {
			because = "it has " + err.Error()
		} else if err := c.CheckSignatureFrom(ca); err != nil {
			because = notIssued(c, err)
		} else {
			return ca, nil
		}
		if why == "" {
			why = because
		}
	}
	name := dnText(c.RawIssuer)
	f := &Fault{Code: FaultIssuer, Detail: chainText(chain, name) + "; trusted: " + labels(t.Roots), Setting: SettingCA}
	switch {
	case why != "":
		f.Why = fmt.Sprintf("%s names %s as its issuer, but the CA of that name at hand did not issue it: %s", Label(c), name, why)
		f.Hint = "perhaps the CA was made anew; take the CA file from the peer's side"
	case bytes.Equal(c.RawIssuer, c.RawSubject):
		f.Why = fmt.Sprintf("%s signed itself, and is none of the CAs that are trusted here", Label(c))
		f.Hint = fmt.Sprintf("put it into %s, or into %s if it is the peer's own certificate", SettingCA, SettingCert)
	default:
		f.Why = fmt.Sprintf("%s is issued by %s, which the peer did not send and nobody here trusts; trusted: %s", Label(c), name, labels(t.Roots))
		f.Hint = fmt.Sprintf("if %s is between the peer and its root, let the peer send it behind its own certificate; else put it into %s", name, SettingCA)
	}
	return nil, f
}

// notIssued says in our words why a signature on a certificate is not accepted.
func notIssued(c *x509.Certificate, err error) string {
	var weak x509.InsecureAlgorithmError
	var constraint x509.ConstraintViolationError
	switch {
	case errors.As(err, &weak):
		return fmt.Sprintf("it is signed by %v, which is not accepted", c.SignatureAlgorithm)
	case errors.As(err, &constraint):
		return "it is no CA, or may not sign certificates"
	case errors.Is(err, x509.ErrUnsupportedAlgorithm):
		return "it is signed by an algorithm that is not supported"
	}
	return "the signature does not fit that CA's key"
}

// Label names a certificate by its subject, or by what it proves if it has none.
func Label(c *x509.Certificate) string {
	if name, ok := readDN(c.RawSubject); ok && len(name) == 0 {
		return namesText(c)
	}
	return dnText(c.RawSubject)
}

func labels(certs []*x509.Certificate) string {
	if len(certs) == 0 {
		return "none"
	}
	var words []string
	for i, c := range certs {
		if i == maxNames {
			words = append(words, fmt.Sprintf("and %d more", len(certs)-maxNames))
			break
		}
		words = append(words, Label(c))
	}
	return strings.Join(words, " and ")
}

// chainText lists a chain with its dates, from the end entity up.
func chainText(chain []*x509.Certificate, missing string) string {
	links := make([]string, 0, len(chain)+1)
	for _, c := range chain {
		links = append(links, fmt.Sprintf("%s (serial %x, %s to %s)", Label(c), c.SerialNumber, Date(c.NotBefore), Date(c.NotAfter)))
	}
	if missing != "" {
		links = append(links, text(missing)+" (missing)")
	}
	return "chain: " + strings.Join(links, ", issued by ")
}

// Date is a time as the texts about certificates have it.
func Date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }
