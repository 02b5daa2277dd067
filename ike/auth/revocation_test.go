package auth

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"cygnet/ike/wire"
)

// answer makes an OCSP response for a certificate.
func (a *authority) answer(t testing.TB, status int, changes ...func(*ocsp.Response)) func(c *x509.Certificate) []byte {
	return func(c *x509.Certificate) []byte {
		return a.answerBy(t, a.cert, a.key, status, changes...)(c)
	}
}

func (a *authority) answerBy(t testing.TB, responder *x509.Certificate, k crypto.Signer, status int, changes ...func(*ocsp.Response)) func(c *x509.Certificate) []byte {
	return func(c *x509.Certificate) []byte {
		t.Helper()
		template := ocsp.Response{Status: status, SerialNumber: c.SerialNumber, ThisUpdate: now.Add(-time.Hour), NextUpdate: now.Add(23 * time.Hour),
			RevokedAt: now.AddDate(0, 0, -3), RevocationReason: 4}
		if responder != a.cert {
			template.Certificate = responder
		}
		for _, f := range changes {
			f(&template)
		}
		der, err := ocsp.CreateResponse(a.cert, responder, template, k)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
}

func places(c *x509.Certificate) {
	c.OCSPServer = []string{"http://ocsp.example/", "https://ocsp.example/", "ldap://x", "http://two.example/", "http://three.example/"}
	c.CRLDistributionPoints = []string{"http://crl.example/ca.crl"}
}

func TestCRL(t *testing.T) {
	p := newPKI(t)
	leaf := p.root.issue(t, "p256", places)
	point := func(flags ...byte) func(*x509.RevocationList) {
		return func(l *x509.RevocationList) {
			body := append([]byte{0x30, byte(len(flags))}, flags...)
			l.ExtraExtensions = []pkix.Extension{{Id: oidIssuingPoint, Critical: true, Value: body}}
		}
	}
	full := func(url string) []byte {
		name := append([]byte{0x86, byte(len(url))}, url...)
		inner := append([]byte{0xa0, byte(len(name))}, name...)
		return append([]byte{0xa0, byte(len(inner))}, inner...)
	}
	for _, c := range []struct {
		what string
		list *x509.RevocationList
		want LinkState
		why  string
	}{
		{"good", p.root.crl(t, nil), LinkGood, ""},
		{"another is revoked", p.root.crl(t, nil, p.root.issue(t, "p384", func(c *x509.Certificate) { c.SerialNumber = big.NewInt(99) })), LinkGood, ""},
		{"revoked", p.root.crl(t, nil, leaf), LinkRevoked, "compromised"},
		{"revoked in an old list", p.root.crl(t, func(l *x509.RevocationList) {
			l.ThisUpdate, l.NextUpdate = now.AddDate(-1, 0, 0), now.AddDate(-1, 0, 1)
		}, leaf), LinkRevoked, ""},
		{"on hold", p.root.crl(t, func(l *x509.RevocationList) { l.RevokedCertificateEntries[0].ReasonCode = 6 }, leaf), LinkRevoked, "hold"},
		{"old", p.root.crl(t, func(l *x509.RevocationList) {
			l.ThisUpdate, l.NextUpdate = now.AddDate(0, 0, -9), now.Add(-time.Minute)
		}), LinkUnknown, "was to be renewed"},
		{"of tomorrow", p.root.crl(t, func(l *x509.RevocationList) { l.ThisUpdate = now.Add(time.Hour) }), LinkUnknown, "is dated"},
		{"of another CA", p.other.crl(t, nil), LinkUnknown, "no CRL"},
		{"of a namesake", newCA(t, "Root", "rsa-b").crl(t, nil), LinkUnknown, "is not signed by it"},
		{"of a namesake, revoked", newCA(t, "Root", "rsa-b").crl(t, nil, leaf), LinkUnknown, "is not signed by it"},
		{"delta", p.root.crl(t, func(l *x509.RevocationList) {
			l.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 27}, Critical: true, Value: []byte{2, 1, 1}}}
		}), LinkUnknown, "delta"},
		{"of users", p.root.crl(t, point(0x81, 1, 0xff)), LinkGood, ""},
		{"of CAs", p.root.crl(t, point(0x82, 1, 0xff)), LinkUnknown, "no CRL"},
		{"of some reasons", p.root.crl(t, point(0x83, 2, 0, 0x40)), LinkUnknown, "partial"},
		{"indirect", p.root.crl(t, point(0x84, 1, 0xff)), LinkUnknown, "indirect"},
		{"of attribute certificates", p.root.crl(t, point(0x85, 1, 0xff)), LinkUnknown, "partial"},
		{"of our point", p.root.crl(t, point(full("http://crl.example/ca.crl")...)), LinkGood, ""},
		{"of another point", p.root.crl(t, point(full("http://crl.example/other.crl")...)), LinkUnknown, "no CRL"},
		{"of a point that cannot be read", p.root.crl(t, point(0x86, 0)), LinkUnknown, "cannot be read"},
	} {
		l := CheckRevocation([]*x509.Certificate{leaf, p.root.cert}, Revocations{CRLs: []*x509.RevocationList{c.list}}, now)
		if len(l) != 1 || l[0].State != c.want || !strings.Contains(l[0].Why, c.why) || l[0].State == LinkGood && (l[0].By != "CRL" || !l[0].Until.Equal(now.Add(23*time.Hour))) {
			t.Errorf("%s: %+v", c.what, l)
		}
	}
	users := Revocations{CRLs: []*x509.RevocationList{p.root.crl(t, point(0x81, 1, 0xff))}}
	if l := CheckRevocation([]*x509.Certificate{p.sub.cert, p.root.cert}, users, now); l[0].State != LinkUnknown {
		t.Errorf("a CRL of users about a CA: %+v", l)
	}
	mute := newCA(t, "Mute", "rsa-a", func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCRLSign })
	list := mute.crl(t, nil)
	mute.cert.KeyUsage = x509.KeyUsageCertSign
	if l := CheckRevocation([]*x509.Certificate{mute.issue(t, "p256"), mute.cert}, Revocations{CRLs: []*x509.RevocationList{list}}, now); l[0].State != LinkUnknown {
		t.Errorf("a CA that may sign no CRL: %+v", l)
	}
}

func TestOCSP(t *testing.T) {
	p := newPKI(t)
	leaf := p.root.issue(t, "p256", places)
	responder := func(ca *authority, changes ...change) *x509.Certificate {
		all := append([]change{usage(x509.ExtKeyUsageOCSPSigning), func(c *x509.Certificate) { c.SerialNumber, c.Subject = big.NewInt(7), name("Responder") }}, changes...)
		return ca.issue(t, "p384", all...)
	}
	k := signer(t, "p384")
	bare := func(r *ocsp.Response) { r.Certificate = nil }
	hashed := func(h crypto.Hash) func(*ocsp.Response) { return func(r *ocsp.Response) { r.IssuerHash = h } }
	other := p.root.issue(t, "p521", func(c *x509.Certificate) { c.SerialNumber = big.NewInt(99) })
	changed := p.root.answer(t, ocsp.Good)(leaf)
	changed[len(changed)-1] ^= 1
	for _, c := range []struct {
		what     string
		response []byte
		want     LinkState
		why      string
	}{
		{"good", p.root.answer(t, ocsp.Good)(leaf), LinkGood, ""},
		{"good by SHA2-256", p.root.answer(t, ocsp.Good, hashed(crypto.SHA256))(leaf), LinkGood, ""},
		{"revoked", p.root.answer(t, ocsp.Revoked)(leaf), LinkRevoked, "superseded"},
		{"revoked long ago", p.root.answer(t, ocsp.Revoked, func(r *ocsp.Response) { r.ThisUpdate, r.NextUpdate = now.AddDate(0, 0, -9), now.AddDate(0, 0, -8) })(leaf), LinkRevoked, ""},
		{"unknown", p.root.answer(t, ocsp.Unknown)(leaf), LinkUnknown, "does not know"},
		{"of another certificate", p.root.answer(t, ocsp.Good)(other), LinkUnknown, "no CRL or OCSP"},
		{"old", p.root.answer(t, ocsp.Good, func(r *ocsp.Response) { r.NextUpdate = now.Add(-time.Second) })(leaf), LinkUnknown, "to be renewed"},
		{"without end, fresh", p.root.answer(t, ocsp.Good, func(r *ocsp.Response) { r.ThisUpdate, r.NextUpdate = now.Add(-time.Minute), time.Time{} })(leaf), LinkGood, ""},
		{"without end, old", p.root.answer(t, ocsp.Good, func(r *ocsp.Response) { r.ThisUpdate, r.NextUpdate = now.Add(-2*time.Hour), time.Time{} })(leaf), LinkUnknown, "to be renewed"},
		{"of tomorrow", p.root.answer(t, ocsp.Good, func(r *ocsp.Response) { r.ThisUpdate = now.Add(time.Hour) })(leaf), LinkUnknown, "is dated"},
		{"changed", changed, LinkUnknown, "signed neither"},
		{"by another CA", p.root.answerBy(t, p.other.cert, p.other.key, ocsp.Good, bare)(leaf), LinkUnknown, "signed neither"},
		{"by a responder", p.root.answerBy(t, responder(p.root), k, ocsp.Good)(leaf), LinkGood, ""},
		{"by a responder that is not shown", p.root.answerBy(t, responder(p.root), k, ocsp.Good, bare)(leaf), LinkUnknown, "signed neither"},
		{"by a certificate without OCSPSigning", p.root.answerBy(t, responder(p.root, usage(x509.ExtKeyUsageServerAuth)), k, ocsp.Good)(leaf), LinkUnknown, "not for OCSPSigning"},
		{"by a certificate for anything", p.root.answerBy(t, responder(p.root, usage(x509.ExtKeyUsageAny)), k, ocsp.Good)(leaf), LinkUnknown, "not for OCSPSigning"},
		{"by a responder of another CA", p.root.answerBy(t, responder(p.other), k, ocsp.Good)(leaf), LinkUnknown, "has no certificate from"},
		{"by a responder that expired", p.root.answerBy(t, responder(p.root, valid(now.AddDate(-1, 0, 0), now.AddDate(0, 0, -1))), k, ocsp.Good)(leaf), LinkUnknown, "is valid from"},
		{"an error", ocsp.TryLaterErrorResponse, LinkUnknown, "try later"},
		{"junk", []byte("junk"), LinkUnknown, "cannot be read"},
		{"more behind it", append(p.root.answer(t, ocsp.Good)(leaf), 0), LinkUnknown, "cannot be read"},
		{"a critical extension", p.root.answer(t, ocsp.Good, func(r *ocsp.Response) {
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}
		})(leaf), LinkUnknown, "critical"},
	} {
		l := CheckRevocation([]*x509.Certificate{leaf, p.root.cert}, Revocations{OCSP: [][]byte{c.response}}, now)
		if len(l) != 1 || l[0].State != c.want || !strings.Contains(l[0].Why, c.why) {
			t.Errorf("%s: %v %q", c.what, l[0].State, l[0].Why)
		}
		if until, err := OCSPFresh(c.response, leaf, p.root.cert, now); (err == nil) != (c.want == LinkGood) || err == nil && until.Before(now) {
			t.Errorf("%s: fresh until %v, %v", c.what, until, err)
		}
	}
}

// One responder may serve two CAs with one key: its word on a certificate of the one is none on that of the other with the same serial number, though the certificate that
// it shows can be exchanged.
func TestOCSPOfAnotherCA(t *testing.T) {
	a := newCA(t, "A", "rsa-a")
	sign := func(ca *authority) *x509.Certificate {
		return ca.issue(t, "p384", usage(x509.ExtKeyUsageOCSPSigning), func(c *x509.Certificate) { c.Subject = name("Responder") })
	}
	ofA := a.issue(t, "p256")
	for what, b := range map[string]*authority{
		"another": newCA(t, "B", "rsa-b"), "one of the same name": newCA(t, "A", "rsa-b"), "one with the same key": newCA(t, "B", "rsa-a"),
	} {
		// A response about that CA's certificate, with A's certificate for the responder.
		response := b.answerBy(t, sign(b), signer(t, "p384"), ocsp.Good, func(r *ocsp.Response) { r.Certificate = sign(a) })(b.issue(t, "p256"))
		if l := CheckRevocation([]*x509.Certificate{ofA, a.cert}, Revocations{OCSP: [][]byte{response}}, now); l[0].State != LinkUnknown {
			t.Errorf("the word of %s is taken for A's: %+v", what, l[0])
		}
	}
}

// Modes, in Verify; a bad word beats every good one.
func TestRevocationModes(t *testing.T) {
	p := newPKI(t)
	leaf := p.sub.issue(t, "p256", places)
	good := Revocations{CRLs: []*x509.RevocationList{p.sub.crl(t, nil), p.root.crl(t, nil)}}
	half := Revocations{OCSP: [][]byte{p.sub.answer(t, ocsp.Good)(leaf)}}
	bad := Revocations{CRLs: []*x509.RevocationList{p.sub.crl(t, nil, leaf), p.root.crl(t, nil)}, OCSP: half.OCSP}
	badCA := Revocations{CRLs: []*x509.RevocationList{p.sub.crl(t, nil), p.root.crl(t, nil, p.sub.cert)}, OCSP: half.OCSP}
	for _, c := range []struct {
		mode   RevocationMode
		proofs Revocations
		want   FaultCode
		ask    bool
	}{
		{RevocationOff, bad, "", false}, {RevocationOff, Revocations{}, "", false},
		{RevocationSoft, Revocations{}, "", true}, {RevocationSoft, half, "", false}, {RevocationSoft, good, "", false}, {RevocationSoft, bad, FaultRevoked, false}, {RevocationSoft, badCA, FaultRevoked, false},
		{RevocationStrict, Revocations{}, FaultUnknown, true}, {RevocationStrict, half, FaultUnknown, false}, {RevocationStrict, good, "", false}, {RevocationStrict, bad, FaultRevoked, false}, {RevocationStrict, badCA, FaultRevoked, false},
	} {
		trust := p.trust()
		trust.Revocation = c.mode
		cl := claim(t, "gw.example", leaf, p.sub.cert)
		cl.Proofs = c.proofs
		e, f := trust.Verify(cl)
		code := FaultCode("")
		if f != nil {
			code = f.Code
		}
		if code != c.want || (e == nil) != (code == FaultRevoked) {
			t.Errorf("%v: %v, want %q", c.mode, f, c.want)
			continue
		}
		if e != nil && (len(e.Ask) > 0) != c.ask {
			t.Errorf("%v: asks %v", c.mode, e.Ask)
		}
	}
}

// CVE-2022-40617: nothing is asked for a chain that is not verified; what is asked is bounded.
func TestTrap_CVE_5_URLs(t *testing.T) {
	p := newPKI(t)
	trust := p.trust()
	leaf := p.root.issue(t, "p256", places)
	e, f := trust.Verify(claim(t, "gw.example", leaf))
	if f != nil {
		t.Fatal(f)
	}
	var got []string
	for _, s := range e.Ask {
		got = append(got, s.Kind.String()+" "+s.URL)
		if s.Kind == SourceOCSP {
			if r, err := ocsp.ParseRequest(s.Request); err != nil || r.SerialNumber.Cmp(leaf.SerialNumber) != 0 {
				t.Errorf("request %x: %v", s.Request, err)
			}
		}
	}
	if want := "OCSP http://ocsp.example/, OCSP http://two.example/, CRL http://crl.example/ca.crl"; strings.Join(got, ", ") != want {
		t.Errorf("asked: %q", got)
	}
	for what, c := range map[string]Claim{
		"another CA":       claim(t, "gw.example", p.other.issue(t, "p256", places)),
		"another identity": claim(t, "other.example", leaf),
		"for another use":  claim(t, "gw.example", p.root.issue(t, "p256", places, usage(x509.ExtKeyUsageCodeSigning))),
		"expired":          claim(t, "gw.example", p.root.issue(t, "p256", places, valid(now.AddDate(-1, 0, 0), now.AddDate(0, 0, -1)))),
	} {
		if e, f := trust.Verify(c); e != nil || f == nil {
			t.Errorf("%s: %+v", what, e)
		}
	}
	own, err := NewCredential(key(t, "p256"), []*x509.Certificate{leaf, p.root.cert})
	if err != nil {
		t.Fatal(err)
	}
	if s := own.Sources(); len(s) != 2 || s[0].Kind != SourceOCSP {
		t.Errorf("sources of our own: %+v", s)
	}
}

// RFC 4806: a response that comes with the certificate counts.
func TestStaple(t *testing.T) {
	p := newPKI(t)
	trust := p.trust()
	trust.Revocation = RevocationStrict
	leaf := p.root.issue(t, "p256")
	own, err := NewCredential(key(t, "p256"), []*x509.Certificate{leaf})
	if err != nil {
		t.Fatal(err)
	}
	for status, want := range map[int]FaultCode{ocsp.Good: "", ocsp.Revoked: FaultRevoked, ocsp.Unknown: FaultUnknown} {
		c := claim(t, "gw.example")
		for _, pl := range own.Payloads(p.root.answer(t, status)(leaf)) {
			c.Certs = append(c.Certs, pl.(*wire.Cert))
		}
		_, f := trust.Verify(c)
		if want == "" && f != nil || want != "" && (f == nil || f.Code != want) {
			t.Errorf("status %d: %v", status, f)
		}
	}
	c := claim(t, "gw.example", leaf)
	c.Certs = append(c.Certs, &wire.Cert{Encoding: wire.CertCRL, Data: p.root.crl(t, nil, leaf).Raw})
	if _, f := trust.Verify(c); f == nil || f.Code != FaultRevoked {
		t.Errorf("a CRL in a CERT payload: %v", f)
	}
}

func TestRevocationMode(t *testing.T) {
	for _, s := range []string{"strict", "soft", "off"} {
		if m, err := ParseRevocationMode(s); err != nil || m.String() != s {
			t.Errorf("%q is %v, %v", s, m, err)
		}
	}
	if _, err := ParseRevocationMode("yes"); err == nil {
		t.Error("yes is a mode")
	}
	for n := range 12 {
		if reason(n) == "" {
			t.Errorf("reason %d has no words", n)
		}
	}
}
