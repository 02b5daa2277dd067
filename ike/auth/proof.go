package auth

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"strings"

	"cygnet/ike/wire"
)

// proves reports whether a certificate proves an identity, and gives a DN in the certificate's own octets. Names stand in subjectAltName, a DN is the whole
// subject (RFC 4945 section 3.1); a common name proves nothing but as part of that.
func proves(c *x509.Certificate, id Identity) (Identity, bool) {
	switch id.Type {
	case wire.IDFQDN:
		return id, provesName(c, id.Data)
	case wire.IDRFC822Addr:
		return id, provesMail(c, id.Data)
	case wire.IDIPv4Addr, wire.IDIPv6Addr:
		for _, ip := range c.IPAddresses {
			if string(ip) == id.Data {
				return id, true
			}
		}
	case wire.IDDERASN1DN:
		if name, ok := readDN(c.RawSubject); ok && len(name) > 0 && equalDN(string(c.RawSubject), id.Data) {
			return Identity{wire.IDDERASN1DN, string(c.RawSubject)}, true
		}
	case wire.IDKeyID: // Android sends its name or mail address so
		return id, provesName(c, id.Data) || provesMail(c, id.Data)
	}
	return Identity{}, false
}

// provesName takes "*" for the first label of a certificate's name, as TLS does.
func provesName(c *x509.Certificate, name string) bool {
	for _, san := range c.DNSNames {
		if san == "" {
			continue
		}
		if lower(san) == lower(name) && !strings.HasPrefix(san, "*") {
			return true
		}
		if strings.HasPrefix(san, "*.") && strings.Count(san, ".") > 1 && underWildcard(san, name) {
			return true
		}
	}
	return false
}

func provesMail(c *x509.Certificate, address string) bool {
	for _, san := range c.EmailAddresses {
		if (Identity{wire.IDRFC822Addr, san}).Equal(Identity{wire.IDRFC822Addr, address}) && san != "" {
			return true
		}
	}
	return false
}

// maxNames bounds what is listed of a certificate.
const maxNames = 8

// names lists the identities that a certificate proves, the subject last.
func names(c *x509.Certificate) []Identity {
	var ids []Identity
	for _, n := range c.DNSNames {
		ids = append(ids, Identity{wire.IDFQDN, n})
	}
	for _, n := range c.EmailAddresses {
		ids = append(ids, Identity{wire.IDRFC822Addr, n})
	}
	for _, ip := range c.IPAddresses {
		if a, ok := netip.AddrFromSlice(ip); ok {
			typ := wire.IDIPv4Addr
			if a.Is6() {
				typ = wire.IDIPv6Addr
			}
			ids = append(ids, Identity{typ, string(ip)})
		}
	}
	if name, ok := readDN(c.RawSubject); ok && len(name) > 0 {
		ids = append(ids, Identity{wire.IDDERASN1DN, string(c.RawSubject)})
	}
	return ids
}

func namesText(c *x509.Certificate) string {
	ids := names(c)
	var words []string
	for i, id := range ids {
		if i == maxNames {
			words = append(words, fmt.Sprintf("and %d more", len(ids)-maxNames))
			break
		}
		words = append(words, id.String())
	}
	if len(words) == 0 {
		return "nothing"
	}
	return strings.Join(words, ", ")
}

// unproven says what the certificate proves instead of an identity, and how to make both agree.
func unproven(c *x509.Certificate, id Identity) (why, hint string) {
	why = fmt.Sprintf("the certificate proves %s, not %v", namesText(c), id)
	switch {
	case id.Type == wire.IDKeyID:
		hint = "a key ID is proved by a dNSName or rfc822Name of the same text alone"
	case id.Type == wire.IDDERASN1GN:
		hint = "an ID_DER_ASN1_GN is proved by no certificate here; let the peer claim the name itself"
	case id.Type == wire.IDDERASN1DN && reversed(c, id):
		hint = `the names are the same in the other order; "asn1dn:" before the words says that they stand as in the certificate, "dn:" that they stand as in RFC 4514`
	case id.Type == wire.IDDERASN1DN:
		hint = "a distinguished name is proved by the whole subject of the certificate, in its order"
	case lower(c.Subject.CommonName) == lower(id.Data), c.Subject.CommonName == id.String():
		hint = fmt.Sprintf("%v stands in the certificate as common name alone, which proves nothing: issue it with subjectAltName %s, or use one of the identities that it proves", id, sanWord(id))
	default:
		hint = fmt.Sprintf("issue the certificate with subjectAltName %s, or use one of the identities that it proves", sanWord(id))
	}
	return why, hint
}

func reversed(c *x509.Certificate, id Identity) bool {
	n, ok := readDN([]byte(id.Data))
	if !ok {
		return false
	}
	back := make(dn, len(n))
	for i, rdn := range n {
		back[len(n)-1-i] = rdn
	}
	subject, ok := readDN(c.RawSubject)
	return ok && subject.equal(back)
}

// sanWord is the subjectAltName that proves an identity, in OpenSSL's words.
func sanWord(id Identity) string {
	switch id.Type {
	case wire.IDFQDN:
		return "DNS:" + text(id.Data)
	case wire.IDRFC822Addr:
		return "email:" + text(id.Data)
	}
	return "IP:" + id.String()
}
