package auth

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"flag"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/faults.txt anew")

// pki is a root, a CA below it, and another root that has nothing to do with them.
type pki struct {
	root, sub, other *authority
}

func newPKI(t testing.TB) pki {
	root := newCA(t, "Root", "rsa-a")
	return pki{root, root.sub(t, "Sub", "p384"), newCA(t, "Other Root", "rsa-b")}
}

func (p pki) trust() *Trust { return &Trust{Roots: []*x509.Certificate{p.root.cert}} }

func valid(from, to time.Time) change {
	return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = from, to }
}

func usage(us ...x509.ExtKeyUsage) change { return func(c *x509.Certificate) { c.ExtKeyUsage = us } }

func extension(oid asn1.ObjectIdentifier, critical bool, value []byte) change {
	return func(c *x509.Certificate) {
		c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: oid, Critical: critical, Value: value})
	}
}

// directories are name constraints on directory names.
func directories(t testing.TB, critical bool, permitted, excluded string) change {
	tree := func(tag byte, name string) []byte {
		if name == "" {
			return nil
		}
		n := []byte(identity(t, name).Data)
		base := append([]byte{0xa4, byte(len(n))}, n...)
		sub := append([]byte{0x30, byte(len(base))}, base...)
		return append([]byte{tag, byte(len(sub))}, sub...)
	}
	body := append(tree(0xa0, permitted), tree(0xa1, excluded)...)
	return extension(oidNameConstraints, critical, append([]byte{0x30, byte(len(body))}, body...))
}

// Chains that are right, and what they prove.
func TestVerify(t *testing.T) {
	p := newPKI(t)
	leaf := p.sub.issue(t, "p256", dns("gw.example", "*.branch.example"), addresses("192.0.2.1", "2001:db8::1"),
		func(c *x509.Certificate) { c.EmailAddresses = []string{"admin@Example"} })
	for _, id := range []string{"gw.example", "GW.Example", "a.branch.example", "192.0.2.1", "2001:db8::1", "admin@example", "dn:CN=gateway,O=Example,C=CH", "C=CH, O=EXAMPLE, CN=Gateway",
		"keyid:gw.example", "keyid:admin@Example"} {
		e, f := p.trust().Verify(claim(t, id, leaf, p.sub.cert))
		if f != nil {
			t.Errorf("%s: %v", id, f)
			continue
		}
		if len(e.Chain) != 3 || len(e.Keys) != 1 || !e.Keys[0].Equal(key(t, "p256").Public()) {
			t.Errorf("%s: %+v", id, e)
		}
		if e.Identity.Type == wire.IDDERASN1DN && e.Identity.Data != string(leaf.RawSubject) {
			t.Errorf("%s: the identity is not in the certificate's octets", id)
		}
		if want := "certificate of CN=gateway,O=Example,C=CH, issued by CN=Sub,O=Example,C=CH"; e.How != want {
			t.Errorf("how: %s", e.How)
		}
	}
	for _, id := range []string{"gateway", "CN=gateway", "branch.example", "a.b.branch.example", "x.gw.example", "fqdn:*.branch.example", "192.0.2.2", "::ffff:192.0.2.1", "other@example", "Admin@example",
		"fqdn:192.0.2.1", "fqdn:admin@example", "C=CH, CN=gateway", "asn1dn:CN=gateway,O=Example,C=CH", "keyid:192.0.2.1", "keyid:gateway", "C=CH, O=Example, CN=gateway, CN=x", "fqdn:gw.example."} {
		if _, f := p.trust().Verify(claim(t, id, leaf, p.sub.cert)); f == nil || f.Code != FaultIdentity {
			t.Errorf("%s: %v", id, f)
		}
	}
	// The order of all but the first does not count, nor what is not needed; our own intermediates need not be sent.
	many := claim(t, "gw.example", leaf, p.other.cert, p.sub.cert, p.root.cert)
	many.Certs = append(many.Certs, &wire.Cert{Encoding: 12, Data: []byte("hash and URL")}, &wire.Cert{Encoding: 1}, &wire.Cert{Encoding: 4, Data: []byte("junk")}, &wire.Cert{Encoding: 7}, &wire.Cert{Encoding: 200})
	e, f := p.trust().Verify(many)
	if f != nil || len(e.Notes) != 5 && len(e.Notes) != 7 {
		t.Errorf("%v, notes %q", f, e.Notes)
	}
	own := p.trust()
	own.Intermediates = []*x509.Certificate{p.sub.cert}
	if _, f := own.Verify(claim(t, "gw.example", leaf)); f != nil {
		t.Error(f)
	}
}

// RFC 7296 section 3.6: four certificates at least are taken, and the first is the one whose key signs.
func TestTrap_7296_89_Certificates(t *testing.T) {
	p := newPKI(t)
	one := p.sub.sub(t, "One", "rsa-b")
	two := one.sub(t, "Two", "rsa-c")
	leaf := two.issue(t, "p256")
	if e, f := p.trust().Verify(claim(t, "gw.example", leaf, two.cert, one.cert, p.sub.cert)); f != nil || len(e.Chain) != 5 {
		t.Errorf("four certificates: %v", f)
	}
	if _, f := p.trust().Verify(claim(t, "gw.example", two.cert, leaf, one.cert, p.sub.cert)); f == nil {
		t.Error("the identity of the second certificate is taken")
	}
	chain := []*x509.Certificate{leaf}
	for range wire.MaxCertificates {
		chain = append(chain, two.cert)
	}
	if _, f := p.trust().Verify(claim(t, "gw.example", chain...)); f == nil || f.Code != FaultMalformed {
		t.Errorf("%d certificates: %v", len(chain), f)
	}
}

// What is proved must be wanted, too.
func TestUnwanted(t *testing.T) {
	p := newPKI(t)
	c := claim(t, "gw.example", p.root.issue(t, "p256"))
	for want, ok := range map[string]bool{"*": true, "gw.example": true, "*.example": true, "gx.example": false, "*.gw.example": false, "*@example": false, "C=CH, O=Example, CN=*": false, "keyid:gw.example": false} {
		c.Want = pattern(t, want)
		if _, f := p.trust().Verify(c); (f == nil) != ok || f != nil && f.Code != FaultUnwanted {
			t.Errorf("%s: %v", want, f)
		}
	}
}

// A chain of more than wire.MaxChain certificates is refused.
func TestLongChain(t *testing.T) {
	root := newCA(t, "Root", "rsa-a")
	ca, sent := root, []*x509.Certificate(nil)
	for i := range wire.MaxChain - 1 {
		if i == wire.MaxChain-2 {
			if _, f := (&Trust{Roots: []*x509.Certificate{root.cert}}).Verify(claim(t, "gw.example", append([]*x509.Certificate{ca.issue(t, "p256")}, sent...)...)); f != nil {
				t.Errorf("a chain of %d: %v", wire.MaxChain, f)
			}
		}
		ca = ca.sub(t, fmt.Sprint("CA ", i), "p384")
		sent = append(sent, ca.cert)
	}
	if _, f := (&Trust{Roots: []*x509.Certificate{root.cert}}).Verify(claim(t, "gw.example", append([]*x509.Certificate{ca.issue(t, "p256")}, sent...)...)); f == nil || f.Code != FaultIssuer {
		t.Errorf("a chain of %d: %v", wire.MaxChain+1, f)
	}
}

// Extended key usages and key usages, by role.
func TestUsage(t *testing.T) {
	p := newPKI(t)
	for _, c := range []struct {
		what            string
		change          change
		gateway, client bool
	}{
		{"none", usage(), true, true},
		{"serverAuth", usage(x509.ExtKeyUsageServerAuth), true, true},
		{"clientAuth", usage(x509.ExtKeyUsageClientAuth), false, true},
		{"both", usage(x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth), true, true},
		{"any", usage(x509.ExtKeyUsageAny), true, true},
		{"clientAuth and ipsecIKE", func(c *x509.Certificate) {
			c.ExtKeyUsage, c.UnknownExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, []asn1.ObjectIdentifier{oidIPsecIKE}
		}, true, true},
		{"iKEIntermediate", func(c *x509.Certificate) {
			c.ExtKeyUsage, c.UnknownExtKeyUsage = nil, []asn1.ObjectIdentifier{oidIKEIntermediate}
		}, true, true},
		{"ipsecTunnel", usage(x509.ExtKeyUsageIPSECTunnel), true, true},
		{"codeSigning", usage(x509.ExtKeyUsageCodeSigning), false, false},
		{"unknown", func(c *x509.Certificate) {
			c.ExtKeyUsage, c.UnknownExtKeyUsage = nil, []asn1.ObjectIdentifier{{1, 2, 3}}
		}, false, false},
		{"nonRepudiation", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageContentCommitment }, true, true},
		{"no keyUsage", func(c *x509.Certificate) { c.KeyUsage = 0 }, true, true},
		{"keyEncipherment", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }, false, false},
	} {
		leaf := p.root.issue(t, "p256", c.change)
		for _, responder := range []bool{true, false} {
			cl := claim(t, "gw.example", leaf)
			cl.Responder = responder
			_, f := p.trust().Verify(cl)
			if want := responder && c.gateway || !responder && c.client; (f == nil) != want || f != nil && f.Code != FaultUsage {
				t.Errorf("%s, of a responder %v: %v", c.what, responder, f)
			}
		}
	}
	bound := p.root.sub(t, "Mail CA", "p384", usage(x509.ExtKeyUsageEmailProtection))
	if _, f := p.trust().Verify(claim(t, "gw.example", bound.issue(t, "p256"), bound.cert)); f == nil || f.Code != FaultUsage {
		t.Errorf("a CA for mail: %v", f)
	}
	web := p.root.sub(t, "Web CA", "p384", usage(x509.ExtKeyUsageServerAuth))
	if _, f := p.trust().Verify(claim(t, "gw.example", web.issue(t, "p256"), web.cert)); f != nil {
		t.Errorf("a CA for the web: %v", f)
	}
	users := p.root.sub(t, "Users CA", "p384", usage(x509.ExtKeyUsageClientAuth))
	for what, change := range map[string]change{"none": usage(), "serverAuth": usage(x509.ExtKeyUsageServerAuth), "any": usage(x509.ExtKeyUsageAny)} {
		cl := claim(t, "gw.example", users.issue(t, "p256", change), users.cert)
		cl.Responder = false
		if _, f := p.trust().Verify(cl); f != nil {
			t.Errorf("a CA for users, %s, of an initiator: %v", what, f)
		}
		cl.Responder = true
		if _, f := p.trust().Verify(cl); f == nil || f.Code != FaultUsage {
			t.Errorf("a CA for users issues a gateway, %s: %v", what, f)
		}
	}
}

// Name constraints count for each kind of identity.
func TestNameConstraints(t *testing.T) {
	root := newCA(t, "Root", "rsa-a")
	trust := &Trust{Roots: []*x509.Certificate{root.cert}}
	for _, c := range []struct {
		what   string
		ca     change
		leaf   change
		refuse bool
	}{
		{"dNSName within", func(c *x509.Certificate) {
			c.PermittedDNSDomains, c.PermittedDNSDomainsCritical = []string{"example"}, true
		}, dns("gw.example"), false},
		{"dNSName without", func(c *x509.Certificate) {
			c.PermittedDNSDomains, c.PermittedDNSDomainsCritical = []string{"other"}, true
		}, dns("gw.example"), true},
		{"dNSName excluded in capitals", func(c *x509.Certificate) { c.ExcludedDNSDomains = []string{"EXAMPLE"} }, dns("gw.example"), true},
		{"rfc822Name", func(c *x509.Certificate) { c.ExcludedEmailAddresses = []string{"example"} }, func(c *x509.Certificate) { c.EmailAddresses = []string{"a@example"} }, true},
		{"iPAddress", func(c *x509.Certificate) { c.ExcludedIPRanges = nets("192.0.2.0/24") }, addresses("192.0.2.1"), true},
		{"directoryName within", directories(t, true, "asn1dn:C=CH,O=Example", ""), nil, false},
		{"directoryName within, other strings", directories(t, true, "asn1dn:C=ch,O=EXAMPLE", ""), nil, false},
		{"directoryName without", directories(t, true, "asn1dn:C=CH,O=Other", ""), nil, true},
		{"directoryName without, not critical", directories(t, false, "asn1dn:C=CH,O=Other", ""), nil, true},
		{"directoryName excluded", directories(t, true, "", "asn1dn:C=CH"), nil, true},
		{"directoryName not excluded", directories(t, true, "", "asn1dn:C=DE"), nil, false},
		{"registeredID", extension(oidNameConstraints, false, []byte{0x30, 0x08, 0xa0, 0x06, 0x30, 0x04, 0x88, 0x02, 0x2a, 0x03}), nil, true},
		{"registeredID, critical", extension(oidNameConstraints, true, []byte{0x30, 0x08, 0xa0, 0x06, 0x30, 0x04, 0x88, 0x02, 0x2a, 0x03}), nil, true},
	} {
		ca := root.sub(t, "Sub", "p384", c.ca)
		var changes []change
		if c.leaf != nil {
			changes = append(changes, c.leaf)
		}
		_, f := trust.Verify(claim(t, "gw.example", ca.issue(t, "p256", changes...), ca.cert))
		if (f != nil) != c.refuse {
			t.Errorf("%s: %v", c.what, f)
		}
		if f != nil && (!strings.Contains(f.Why, Label(ca.cert)) || strings.Contains(f.Why, Label(root.cert))) {
			t.Errorf("%s: it does not say which CA: %v", c.what, f)
		}
	}
}

// CVE-2020-16088: a certificate that is right does not make a signature right that another key made.
func TestCVE_2020_16088_OtherKey(t *testing.T) {
	p := newPKI(t)
	e, f := p.trust().Verify(claim(t, "gw.example", p.root.issue(t, "p256")))
	if f != nil {
		t.Fatal(f)
	}
	rules := SignatureRules{Hashes: all}
	good, _ := key(t, "p256").Sign(octetsToSign, rules)
	if scheme, f := e.VerifySignature(octetsToSign, good.Auth, rules); f != nil || scheme != "ECDSA with SHA2-256" {
		t.Errorf("%q, %v", scheme, f)
	}
	for _, other := range []string{"p384", "rsa-a", "rsa-b", "ed25519-a"} { // the CA's own among them
		bad, _ := key(t, other).Sign(octetsToSign, rules)
		if _, f := e.VerifySignature(octetsToSign, bad.Auth, rules); f == nil || f.Code != FaultSignature {
			t.Errorf("signed by %s: %v", other, f)
		}
	}
	if _, f := (&Evidence{}).VerifySignature(octetsToSign, good.Auth, rules); f == nil {
		t.Error("no key verifies")
	}
}

// Raw public keys: in a payload, in a certificate around it, or not sent at all; for one identity.
func TestRawKeys(t *testing.T) {
	a, b := key(t, "ed25519-a"), key(t, "ed25519-b")
	trust := &Trust{Keys: []*PublicKey{a.Public(), b.Public()}}
	raw := func(k *PrivateKey) []*wire.Cert {
		c, err := NewCredential(k, nil)
		if err != nil {
			t.Fatal(err)
		}
		return []*wire.Cert{c.Payloads(nil)[0].(*wire.Cert)}
	}
	c := claim(t, "gw.example")
	if c.Certs = raw(b); c.Certs[0].Encoding != wire.CertRawPublicKey {
		t.Errorf("a raw key is sent with encoding %d", c.Certs[0].Encoding)
	}
	if e, f := trust.Verify(c); f != nil || len(e.Keys) != 1 || !e.Keys[0].Equal(b.Public()) {
		t.Errorf("%v, %v", e, f)
	}
	c.Certs = nil
	e, f := trust.Verify(c)
	if f != nil || len(e.Keys) != 2 {
		t.Fatalf("no payload: %v, %v", e, f)
	}
	signed, _ := b.Sign(octetsToSign, SignatureRules{Hashes: all})
	if _, f := e.VerifySignature(octetsToSign, signed.Auth, SignatureRules{Hashes: all}); f != nil {
		t.Errorf("the second key: %v", f)
	}
	c.Certs = sent(newCA(t, "self", "ed25519-a").cert)
	if _, f := trust.Verify(c); f != nil {
		t.Errorf("in a certificate: %v", f)
	}
	for what, certs := range map[string][]*wire.Cert{
		"another key": raw(key(t, "ed25519-c")), "another certificate": sent(newCA(t, "self", "rsa-a").cert), "junk": {{Encoding: wire.CertRawPublicKey, Data: []byte{0x30}}},
		"a short RSA key": {{Encoding: wire.CertRawPublicKey, Data: mustSPKI(t, "rsa-1024")}},
	} {
		c.Certs = certs
		if _, f := trust.Verify(c); f == nil {
			t.Errorf("%s is accepted", what)
		}
	}
	for _, want := range []string{"*", "*.example"} {
		c.Certs, c.Want = raw(a), pattern(t, want)
		if _, f := trust.Verify(c); f == nil || f.Code != FaultIdentity {
			t.Errorf("a raw key proves an identity of %s: %v", want, f)
		}
		if c.Certs = nil; true {
			if _, f := trust.Verify(c); f == nil {
				t.Errorf("no payload proves an identity of %s", want)
			}
		}
	}
}

func mustSPKI(t testing.TB, name string) []byte {
	der, err := x509.MarshalPKIXPublicKey(signer(t, name).Public())
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// A pinned certificate needs no CA; it stands for one identity, or for what is in it.
func TestPinned(t *testing.T) {
	p := newPKI(t)
	leaf := p.other.issue(t, "p256")
	trust := &Trust{Pinned: []*x509.Certificate{leaf}}
	for _, c := range []struct {
		id, want string
		ok       bool
	}{
		{"gw.example", "gw.example", true}, {"other.example", "other.example", true}, {"gw.example", "*", true}, {"other.example", "*", false}, {"other.example", "*.example", false},
	} {
		cl := claim(t, c.id, leaf)
		cl.Want = pattern(t, c.want)
		if _, f := trust.Verify(cl); (f == nil) != c.ok {
			t.Errorf("%+v: %v", c, f)
		}
	}
	if _, f := trust.Verify(claim(t, "gw.example")); f != nil {
		t.Errorf("no payload: %v", f)
	}
	late := claim(t, "gw.example", leaf)
	late.At = leaf.NotAfter.Add(time.Second)
	if _, f := trust.Verify(late); f == nil || f.Code != FaultDate {
		t.Errorf("expired: %v", f)
	}
	if late.Certs = nil; true {
		if _, f := trust.Verify(late); f == nil {
			t.Error("expired and not sent")
		}
	}
	if _, f := trust.Verify(claim(t, "gw.example", p.other.issue(t, "p384"))); f == nil {
		t.Error("another certificate of the same CA is accepted")
	}
}

// The zero Trust accepts nothing, and no host CA is ever used.
func TestNoTrust(t *testing.T) {
	p := newPKI(t)
	for _, certs := range [][]*x509.Certificate{nil, {p.root.issue(t, "p256")}, {p.root.cert}} {
		if _, f := (&Trust{}).Verify(claim(t, "gw.example", certs...)); f == nil {
			t.Errorf("%d certificates are accepted", len(certs))
		}
	}
	null := Claim{ID: Identity{wire.IDNull, ""}, At: now, Certs: sent(p.root.issue(t, "p256"))}
	if _, f := p.trust().Verify(null); f == nil {
		t.Error("ID_NULL is proved")
	}
	empty := Claim{ID: Identity{wire.IDDERASN1DN, "\x30\x00"}, At: now, Certs: sent(p.root.issue(t, "p256", func(c *x509.Certificate) { c.Subject = pkix.Name{} }))}
	if _, f := p.trust().Verify(empty); f == nil {
		t.Error("an empty name is proved")
	}
}

func TestRequests(t *testing.T) {
	p := newPKI(t)
	trust := &Trust{Roots: []*x509.Certificate{p.root.cert, p.root.cert, p.other.cert}, Keys: []*PublicKey{key(t, "p256").Public()}}
	var got []string
	for _, r := range trust.Requests() {
		q := r.(*wire.CertReq)
		got = append(got, fmt.Sprintf("%d:%d", q.Encoding, len(q.Authorities)))
	}
	if s := strings.Join(got, " "); s != "4:40 14:0 15:0" {
		t.Errorf("requests %s", s)
	}
	reqs := []*wire.CertReq{trust.Requests()[0].(*wire.CertReq)}
	if WantsStaple(reqs) || !WantsStaple([]*wire.CertReq{trust.Requests()[1].(*wire.CertReq)}) {
		t.Error("the wish for OCSP is not seen")
	}
}

// RFC 7670 section 3: a raw key has encoding 15 and its request no authorities.
func TestTrap_7670_4_RawKey(t *testing.T) {
	k := key(t, "ed25519-a")
	reqs := (&Trust{Keys: []*PublicKey{k.Public()}}).Requests()
	if len(reqs) != 1 || reqs[0].(*wire.CertReq).Encoding != 15 || len(reqs[0].(*wire.CertReq).Authorities) != 0 {
		t.Errorf("requests %v", reqs)
	}
	c, _ := NewCredential(k, nil)
	if ps := c.Payloads([]byte("staple")); len(ps) != 1 || string(ps[0].(*wire.Cert).Data) != string(k.Public().SPKI()) {
		t.Errorf("payloads %v", ps)
	}
}

// RFC 7296 section 3.6 and 3.7: hash and URL is never fetched, and does not pass for a certificate.
func TestTrap_7296_65_HashAndURL(t *testing.T) {
	p := newPKI(t)
	c := claim(t, "gw.example")
	c.Certs = []*wire.Cert{{Encoding: wire.CertHashURLX509, Data: []byte("01234567890123456789http://192.0.2.1/cert")}}
	_, f := p.trust().Verify(c)
	if f == nil || f.Code != FaultNone || !strings.Contains(f.Detail, "never fetched") {
		t.Errorf("%v, %+v", f, f)
	}
}

func TestCredential(t *testing.T) {
	p := newPKI(t)
	leaf := p.sub.issue(t, "p256", dns("*.branch.example", "gw.example"))
	c, err := NewCredential(key(t, "p256"), []*x509.Certificate{p.other.cert, p.root.cert, p.sub.cert, leaf})
	if err != nil {
		t.Fatal(err)
	}
	ps := c.Payloads([]byte("staple"))
	if len(ps) != 3 || string(ps[0].(*wire.Cert).Data) != string(leaf.Raw) || string(ps[1].(*wire.Cert).Data) != string(p.sub.cert.Raw) || ps[2].(*wire.Cert).Encoding != wire.CertOCSPContent {
		t.Errorf("%d payloads", len(ps))
	}
	if id, ok := c.DefaultID(); !ok || id.String() != "gw.example" {
		t.Errorf("default identity %v", id)
	}
	if id, f := c.Prove(identity(t, "C=CH, O=EXAMPLE, CN=gateway")); f != nil || id.Data != string(leaf.RawSubject) {
		t.Errorf("%v, %v", id, f)
	}
	if _, f := c.Prove(identity(t, "other.example")); f == nil || f.Setting != SettingLocalID {
		t.Error("another identity is proved")
	}
	for want, f := range map[string]func() (*Credential, error){
		"belongs to none": func() (*Credential, error) { return NewCredential(key(t, "p521"), []*x509.Certificate{leaf}) },
		"without private": func() (*Credential, error) { return NewCredential(nil, []*x509.Certificate{leaf}) },
		"at most 12":      func() (*Credential, error) { return NewCredential(key(t, "p256"), make([]*x509.Certificate, 13)) },
	} {
		if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestTrustCheck(t *testing.T) {
	p := newPKI(t)
	if err := p.trust().Check(); err != nil {
		t.Error(err)
	}
	for want, trust := range map[string]*Trust{
		"is no CA":     {Roots: []*x509.Certificate{p.root.issue(t, "p256")}},
		"1024 bits":    {Intermediates: []*x509.Certificate{newCA(t, "Weak", "rsa-1024").cert}},
		"keyCertSign":  {Roots: []*x509.Certificate{newCA(t, "Mute", "rsa-a", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }).cert}},
		"RSA key of 1": {Pinned: []*x509.Certificate{newCA(t, "Weak", "rsa-1024").cert}},
	} {
		if err := trust.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	// Nothing of the kind is used all the same.
	weak := newCA(t, "Weak", "rsa-1024")
	if _, f := (&Trust{Roots: []*x509.Certificate{weak.cert}}).Verify(claim(t, "gw.example", weak.issue(t, "p256"))); f == nil {
		t.Error("a CA key of 1024 bits counts")
	}
}

// TestFaults holds what operators read against testdata/faults.txt.
func TestFaults(t *testing.T) {
	var b strings.Builder
	for _, c := range faults(t) {
		if c.fault == nil {
			t.Errorf("%s: no fault", c.what)
			continue
		}
		fmt.Fprintf(&b, "== %s\ncode    %s\nwhy     %s\n", c.what, c.fault.Code, c.fault.Why)
		for _, line := range [][2]string{{"detail", c.fault.Detail}, {"hint", c.fault.Hint}, {"setting", c.fault.Setting}} {
			if line[1] != "" {
				fmt.Fprintf(&b, "%-8s%s\n", line[0], line[1])
			}
		}
		b.WriteByte('\n')
	}
	path := filepath.Join("testdata", "faults.txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		got, had := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
		for i := range got {
			if i >= len(had) || got[i] != had[i] {
				t.Fatalf("line %d of %s differs (go test -run TestFaults -rewrite writes it anew):\n%s", i+1, path, got[i])
			}
		}
		t.Fatalf("%s has more lines", path)
	}
}

type faultCase struct {
	what  string
	fault *Fault
}

func faults(t *testing.T) []faultCase {
	p := newPKI(t)
	verify := func(trust *Trust, c Claim) *Fault { _, f := trust.Verify(c); return f }
	of := func(id string, certs ...*x509.Certificate) *Fault { return verify(p.trust(), claim(t, id, certs...)) }
	leaf := p.sub.issue(t, "p256")
	wants := claim(t, "gw.example", leaf, p.sub.cert)
	wants.Want = pattern(t, "*.branch.example")
	namesake := newCA(t, "Root", "rsa-b")
	sha1 := p.root.issue(t, "p256", func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA256WithRSA })
	short := p.root.sub(t, "Short CA", "p384", func(c *x509.Certificate) { c.MaxPathLenZero = true })
	below := short.sub(t, "Below", "rsa-b")
	expired := p.root.sub(t, "Old Sub", "p384", valid(now.AddDate(-3, 0, 0), now.AddDate(0, 0, -1)))
	early := p.root.issue(t, "p256", valid(now.AddDate(0, 0, 1), now.AddDate(1, 0, 0)))
	bound := p.root.sub(t, "Bound CA", "p384", func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"other.example"} })
	dirBound := p.root.sub(t, "Bound CA", "p384", directories(t, true, "asn1dn:C=CH,O=Other", ""))
	self := newCA(t, "self-made", "rsa-c", dns("gw.example"))
	weak := newCA(t, "weak", "rsa-1024")
	_, signFault := key(t, "ed25519-a").Sign(octetsToSign, SignatureRules{})
	_, hashFault := key(t, "rsa-a").Sign(octetsToSign, SignatureRules{Hashes: []wire.HashID{wire.HashSHA1}})
	own, _ := NewCredential(key(t, "p256"), []*x509.Certificate{leaf})
	_, ownFault := own.Prove(identity(t, "vpn.example"))
	check := func(with string, method wire.AuthMethod, data []byte, rules SignatureRules) *Fault {
		_, f := VerifySignature(key(t, with).Public(), octetsToSign, &wire.Auth{Method: method, Data: data}, rules)
		return f
	}
	old, _ := key(t, "rsa-a").Sign(octetsToSign, SignatureRules{SHA1: true})
	good, _ := key(t, "rsa-a").Sign(octetsToSign, SignatureRules{Hashes: all})
	strict := p.trust()
	strict.Revocation = RevocationStrict
	direct := p.root.issue(t, "p256")
	revoked := claim(t, "gw.example", direct)
	revoked.Proofs.CRLs = []*x509.RevocationList{p.root.crl(t, nil, direct)}
	stale := claim(t, "gw.example", direct)
	stale.Proofs.CRLs = []*x509.RevocationList{p.root.crl(t, func(l *x509.RevocationList) {
		l.ThisUpdate, l.NextUpdate = now.AddDate(0, 0, -9), now.AddDate(0, 0, -2)
	})}
	keys := &Trust{Keys: []*PublicKey{key(t, "ed25519-a").Public()}}
	anyKey := claim(t, "gw.example")
	anyKey.Want = Pattern{}
	otherKey := claim(t, "gw.example")
	otherKey.Certs = []*wire.Cert{{Encoding: 15, Data: key(t, "ed25519-b").Public().SPKI()}}
	url := claim(t, "gw.example")
	url.Certs = []*wire.Cert{{Encoding: 12, Data: []byte("x")}}
	junk := claim(t, "gw.example")
	junk.Certs = []*wire.Cert{{Encoding: 4, Data: []byte("junk\x1b[31m")}}
	return []faultCase{
		{"the peer is another than the connection wants", verify(p.trust(), wants)},
		{"no certificate", of("gw.example")},
		{"a certificate by hash and URL", verify(p.trust(), url)},
		{"no certificate at all", verify(p.trust(), junk)},
		{"the certificate has a weak key", of("gw.example", weak.cert)},
		{"an intermediate is missing", of("gw.example", leaf)},
		{"another CA", of("gw.example", p.other.issue(t, "p256"))},
		{"a CA of the same name with another key", of("gw.example", namesake.issue(t, "p256"))},
		{"a self-signed certificate", of("gw.example", self.cert)},
		{"the issuer is no CA", of("gw.example", (&authority{leaf, signer(t, "p256")}).issue(t, "p521"), leaf, p.sub.cert)},
		{"the certificate expired", verify(p.trust(), at(claim(t, "gw.example", leaf, p.sub.cert), leaf.NotAfter.Add(time.Hour)))},
		{"the certificate is not valid yet", of("gw.example", early)},
		{"a CA of the chain expired", of("gw.example", expired.issue(t, "p256"), expired.cert)},
		{"the identity is not in the certificate", of("vpn.example", leaf, p.sub.cert)},
		{"the identity is in the common name alone", of("gateway", leaf, p.sub.cert)},
		{"an address that is not in the certificate", of("192.0.2.1", leaf, p.sub.cert)},
		{"a distinguished name in the other order", of("asn1dn:CN=gateway,O=Example,C=CH", leaf, p.sub.cert)},
		{"another distinguished name", of("C=CH, CN=gateway", leaf, p.sub.cert)},
		{"a key ID", of("keyid:0x00", leaf, p.sub.cert)},
		{"a general name", verify(p.trust(), Claim{Certs: sent(leaf, p.sub.cert), ID: Identity{wire.IDDERASN1GN, "\x82\x02gw"}, At: now})},
		{"a certificate for something else", of("gw.example", p.root.issue(t, "p256", usage(x509.ExtKeyUsageCodeSigning)))},
		{"a user's certificate at a gateway", of("gw.example", p.root.issue(t, "p256", usage(x509.ExtKeyUsageClientAuth)))},
		{"a key for encryption", of("gw.example", p.root.issue(t, "p256", func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment }))},
		{"a name that the CA may not issue", of("gw.example", bound.issue(t, "p256"), bound.cert)},
		{"a directory name that the CA may not issue", of("gw.example", dirBound.issue(t, "p256"), dirBound.cert)},
		{"too many CAs below one", of("gw.example", below.issue(t, "p256"), below.cert, short.cert)},
		{"a critical extension", of("gw.example", p.root.issue(t, "p256", extension(asn1.ObjectIdentifier{1, 2, 3}, true, []byte{5, 0})))},
		{"not signed as it says", of("gw.example", tampered(t, sha1))},
		{"revoked", verify(strict, revoked)},
		{"revocation unknown", verify(strict, claim(t, "gw.example", direct))},
		{"an old CRL", verify(strict, stale)},
		{"another raw key", verify(keys, otherKey)},
		{"a certificate where a raw key is wanted", verify(keys, claim(t, "gw.example", leaf))},
		{"a raw key for anybody", verify(keys, anyKey)},
		{"nothing is trusted", verify(&Trust{}, claim(t, "gw.example", leaf))},
		{"another pinned certificate", verify(&Trust{Pinned: []*x509.Certificate{direct}}, claim(t, "gw.example", leaf))},
		{"signed by another key", check("rsa-b", 14, good.Auth.Data, SignatureRules{Hashes: all})},
		{"SHA-1", check("rsa-a", 1, old.Auth.Data, SignatureRules{})},
		{"a hash that we did not list", check("rsa-a", 14, good.Auth.Data, SignatureRules{Hashes: []wire.HashID{wire.HashSHA256}})},
		{"RFC 7427 out of the blue", check("rsa-a", 14, good.Auth.Data, SignatureRules{})},
		{"PSS with default parameters", check("rsa-a", 14, append([]byte{15}, unhex(t, "300d06092a864886f70d01010a3000")...), SignatureRules{Hashes: all})},
		{"SHA-1 by RFC 7427", check("rsa-a", 14, append([]byte{15}, unhex(t, "300d06092a864886f70d0101050500")...), SignatureRules{Hashes: all})},
		{"RSA with a key of another kind", check("p256", 1, old.Auth.Data, SignatureRules{})},
		{"ECDSA with a key of another kind", check("rsa-a", 9, make([]byte, 64), SignatureRules{})},
		{"a PSK instead", check("rsa-a", 2, make([]byte, 32), SignatureRules{Hashes: all})},
		{"our Ed25519 key and an old peer", signFault},
		{"a peer that accepts SHA-1 alone", hashFault},
		{"our certificate does not prove our identity", ownFault},
	}
}

func at(c Claim, t time.Time) Claim {
	c.At = t
	return c
}

// tampered changes the serial number of a certificate after it was signed.
func tampered(t testing.TB, c *x509.Certificate) *x509.Certificate {
	t.Helper()
	i := strings.Index(string(c.Raw), string(big.NewInt(0x4711).Bytes()))
	der := append([]byte{}, c.Raw...)
	der[i]++
	bad, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return bad
}
