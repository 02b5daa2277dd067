package auth

import (
	"crypto/x509"
	"fmt"
	"strings"

	"cygnet/ike/wire"
)

// presented is what a peer's CERT payloads hold.
type presented struct {
	leaf   *x509.Certificate   // the first certificate (RFC 7296 section 3.6)
	others []*x509.Certificate // in no order that counts
	key    *PublicKey          // RFC 7670
	crls   []*x509.RevocationList
	ocsp   [][]byte
	notes  []string
}

// present sorts CERT payloads. An end entity that cannot be used is a Fault; others that cannot are passed over with a note.
func present(certs []*wire.Cert) (*presented, *Fault) {
	if len(certs) > wire.MaxCertificates {
		return nil, &Fault{Code: FaultMalformed, Why: fmt.Sprintf("the peer sent %d CERT payloads, at most %d are accepted", len(certs), wire.MaxCertificates)}
	}
	p := &presented{}
	for _, c := range certs {
		if f := p.add(c); f != nil {
			return nil, f
		}
	}
	return p, nil
}

func (p *presented) add(c *wire.Cert) *Fault {
	switch c.Encoding {
	case wire.CertX509Signature:
		return p.addCertificate(c.Data)
	case wire.CertRawPublicKey:
		key, err := parseSPKI(c.Data)
		if err != nil {
			return &Fault{Code: FaultKey, Why: "the peer sent a raw public key that cannot be used: " + err.Error()}
		}
		if p.key == nil {
			p.key = key
		}
	case wire.CertCRL:
		if l, err := x509.ParseRevocationList(c.Data); err == nil {
			p.crls = append(p.crls, l)
		} else {
			p.note("a CRL that cannot be read: %s", text(err.Error()))
		}
	case wire.CertOCSPContent:
		p.ocsp = append(p.ocsp, c.Data)
	case wire.CertHashURLX509, wire.CertHashURLX509Bundle:
		p.note("a certificate by hash and URL: such are never fetched")
	default:
		p.note("a CERT payload with encoding %d", c.Encoding)
	}
	return nil
}

func (p *presented) addCertificate(der []byte) *Fault {
	c, err := x509.ParseCertificate(der)
	if err == nil {
		err = checkKey(c.PublicKey)
	}
	switch {
	case err == nil && p.leaf == nil:
		p.leaf = c
	case err == nil:
		p.others = append(p.others, c)
	case p.leaf == nil:
		f := &Fault{Code: FaultMalformed, Why: "the peer's certificate cannot be used: " + text(strings.TrimPrefix(err.Error(), "x509: ")), Hint: "the peer's first CERT payload must hold its own X.509 certificate with a key of a kind and size that are accepted"}
		if c != nil {
			f.Code, f.Detail = FaultKey, "the certificate is that of "+Label(c)
		}
		return f
	default:
		p.note("a CA certificate that cannot be used: %s", text(err.Error()))
	}
	return nil
}

func (p *presented) note(format string, args ...any) {
	p.notes = append(p.notes, "ignored "+fmt.Sprintf(format, args...))
}
