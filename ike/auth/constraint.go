package auth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"slices"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"
)

var oidNameConstraints = asn1.ObjectIdentifier{2, 5, 29, 30}

// subtrees are the directoryName constraints of a CA (RFC 5280 section 4.2.1.10). crypto/x509 checks those on DNS names, mail, IP addresses and URIs, and
// knows no others.
type subtrees struct {
	permitted, excluded []dn
	unknown             bool // there are constraints that nobody here checks
}

// unlimited: the certificate of a CA names no names to which it may issue.
func unlimited(c *x509.Certificate) bool {
	return !slices.ContainsFunc(c.Extensions, func(e pkix.Extension) bool { return e.Id.Equal(oidNameConstraints) })
}

func constraints(c *x509.Certificate) subtrees {
	var s subtrees
	for _, e := range c.Extensions {
		if e.Id.Equal(oidNameConstraints) {
			s.read(e.Value)
		}
	}
	return s
}

func (s *subtrees) read(value []byte) {
	in := cryptobyte.String(value)
	var body, permitted, excluded cryptobyte.String
	tag := func(n uint8) cbasn1.Tag { return cbasn1.Tag(n).Constructed().ContextSpecific() }
	if !in.ReadASN1(&body, cbasn1.SEQUENCE) || !body.ReadOptionalASN1(&permitted, nil, tag(0)) || !body.ReadOptionalASN1(&excluded, nil, tag(1)) {
		s.unknown = true
		return
	}
	s.permitted = s.readTrees(permitted)
	s.excluded = s.readTrees(excluded)
}

func (s *subtrees) readTrees(in cryptobyte.String) (names []dn) {
	for !in.Empty() {
		var tree, base cryptobyte.String
		var form cbasn1.Tag
		if !in.ReadASN1(&tree, cbasn1.SEQUENCE) || !tree.ReadAnyASN1(&base, &form) || !tree.Empty() { // no minimum or maximum
			s.unknown = true
			return names
		}
		switch form {
		case cbasn1.Tag(1).ContextSpecific(), cbasn1.Tag(2).ContextSpecific(), cbasn1.Tag(6).ContextSpecific(), cbasn1.Tag(7).ContextSpecific():
		case cbasn1.Tag(4).ContextSpecific().Constructed():
			n, ok := readDN(base)
			s.unknown = s.unknown || !ok
			names = append(names, n)
		default:
			s.unknown = true
		}
	}
	return names
}

// refuses says why a CA may not issue a certificate to a subject, or "".
func (s subtrees) refuses(subject dn) string {
	if len(subject) == 0 {
		return ""
	}
	for _, base := range s.excluded {
		if subject.under(base) {
			return "it may not issue to names under " + text(base.String())
		}
	}
	if len(s.permitted) > 0 && !slices.ContainsFunc(s.permitted, subject.under) {
		return "it may issue to names under " + text(s.permitted[0].String()) + " alone"
	}
	return ""
}

// overstepped looks at each CA of a chain, and says which may not issue what stands below it.
func overstepped(chain []*x509.Certificate) string {
	for i, ca := range chain[1:] {
		s := constraints(ca)
		if s.unknown {
			return fmt.Sprintf("the CA %s has name constraints of a form that is not supported", Label(ca))
		}
		if s.permitted == nil && s.excluded == nil {
			continue
		}
		for _, below := range chain[:i+1] {
			subject, ok := readDN(below.RawSubject)
			if !ok {
				return fmt.Sprintf("the subject of a certificate under %s cannot be read, and its names are constrained", Label(ca))
			}
			if why := s.refuses(subject); why != "" {
				return fmt.Sprintf("the CA %s issued %s, but %s", Label(ca), Label(below), why)
			}
		}
	}
	return ""
}

// withoutNames is the certificate as crypto/x509 shall see it: constraints on directory names, which overstepped checks, are not unknown to us.
func withoutNames(c *x509.Certificate) *x509.Certificate {
	if !slices.ContainsFunc(c.UnhandledCriticalExtensions, oidNameConstraints.Equal) || constraints(c).unknown {
		return c
	}
	known := *c
	known.UnhandledCriticalExtensions = slices.DeleteFunc(slices.Clone(c.UnhandledCriticalExtensions), oidNameConstraints.Equal)
	return &known
}
