package policy

import (
	"crypto/x509"
	"fmt"
	"time"

	"cygnet/ike/auth"
)

// ExpiryWarning is how long before its end a certificate is warned of: a month to get a new one.
const ExpiryWarning = 30 * 24 * time.Hour

// Expiring tells the certificates of a configuration that have ended at now, are not valid yet, or end within ExpiryWarning. Each file is told once, with
// the first connection that names it.
func Expiring(s *Snapshot, now time.Time) (problems []Problem) {
	seen := make(map[string]bool)
	for _, c := range s.Connections {
		if own := c.Local.Proof.Credential; own != nil {
			problems = append(problems, c.expiring("local.cert", own.Chain, now, seen)...)
		}
		if t := c.Remote.Proof.Trust; t != nil {
			problems = append(problems, c.expiring("remote.ca", t.Roots, now, seen)...)
			problems = append(problems, c.expiring("remote.ca", t.Intermediates, now, seen)...)
			problems = append(problems, c.expiring("remote.cert", t.Pinned, now, seen)...)
		}
	}
	return problems
}

func (c *Connection) expiring(key string, certs []*x509.Certificate, now time.Time, seen map[string]bool) (problems []Problem) {
	line := c.Line
	if n, ok := c.Lines[key]; ok {
		line = n
	}
	warn := func(cert *x509.Certificate, code, hint, format string, args ...any) {
		if !seen[string(cert.Raw)] {
			seen[string(cert.Raw)] = true
			problems = append(problems, Problem{File: c.File, Line: line, Code: code, Warning: true,
				Text: fmt.Sprintf("%s: the certificate of %s ", key, auth.Label(cert)) + fmt.Sprintf(format, args...), Hint: hint})
		}
	}
	const renew = "put a new one into the file, and then: ikectl reload"
	for _, cert := range certs {
		switch left := cert.NotAfter.Sub(now); {
		case left <= 0:
			warn(cert, "certificate-ended", renew, "ended on %s", auth.Date(cert.NotAfter))
		case now.Before(cert.NotBefore):
			warn(cert, "certificate-early", "set the clock if it is wrong; else wait, or issue the certificate anew", "is not valid before %s; the clock of this host says %s", auth.Date(cert.NotBefore), auth.Date(now))
		case left < ExpiryWarning:
			warn(cert, "certificate-ending", renew, "ends on %s, in %d days", auth.Date(cert.NotAfter), int(left.Hours())/24)
		}
	}
	return problems
}
