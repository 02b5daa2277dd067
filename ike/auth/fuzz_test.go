package auth

import (
	"bytes"
	"crypto/x509"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
	"golang.org/x/sys/unix"

	"cygnet/ike/wire"
)

// cpu runs f and returns the time that its thread computed: what a loaded machine does beside it does not count.
func cpu(t testing.TB, f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	read := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := read()
	f()
	return read() - before
}

// Bounds on the work that one peer's message makes (DESIGN.md). The race detector and coverage of a fuzzing run slow all down.
const (
	maxVerify = 250 * time.Millisecond // Verify, of the worst chain that we know
	maxParse  = 250 * time.Millisecond // one CRL, OCSP response or signature of the size of a message
)

func within(t testing.TB, bound time.Duration, f func()) {
	t.Helper()
	if took := cpu(t, f); took > bound {
		t.Errorf("%v of CPU, at most %v are allowed", took, bound)
	}
}

// speaks checks that a fault has words, and that they are printable and bounded.
func speaks(t *testing.T, f *Fault) {
	t.Helper()
	if f == nil {
		return
	}
	if f.Code == "" || f.Why == "" {
		t.Errorf("a fault without words: %+v", f)
	}
	for _, s := range []string{f.Why, f.Detail, f.Hint} {
		if len(s) > 32<<10 {
			t.Errorf("a fault with %d octets", len(s))
		}
		for _, r := range s {
			if r < ' ' || r == 0x7f {
				t.Errorf("%q is not printable", s)
				return
			}
		}
	}
}

// split cuts fuzzed octets into payloads: encoding, length in 256ths of what is left, data.
func split(data []byte) []*wire.Cert {
	var certs []*wire.Cert
	for len(data) > 3 && len(certs) < 20 {
		n := min(int(data[1])<<8|int(data[2]), len(data)-3)
		certs = append(certs, &wire.Cert{Encoding: wire.CertEncoding(data[0]), Data: data[3 : 3+n]})
		data = data[3+n:]
	}
	return certs
}

func join(certs []*wire.Cert) []byte {
	var b []byte
	for _, c := range certs {
		b = append(append(b, byte(c.Encoding), byte(len(c.Data)>>8), byte(len(c.Data))), c.Data...)
	}
	return b
}

func FuzzCertificates(f *testing.F) {
	p := newPKI(f)
	leaf := p.sub.issue(f, "p256", places, addresses("192.0.2.1"))
	trust := p.trust()
	trust.Revocation, trust.Keys = RevocationStrict, []*PublicKey{key(f, "ed25519-a").Public()}
	mixed := sent(leaf, p.sub.cert, p.root.cert)
	mixed = append(mixed, &wire.Cert{Encoding: wire.CertCRL, Data: p.sub.crl(f, nil).Raw}, &wire.Cert{Encoding: wire.CertCRL, Data: p.root.crl(f, nil).Raw},
		&wire.Cert{Encoding: wire.CertOCSPContent, Data: p.sub.answer(f, ocsp.Good)(leaf)})
	f.Add(join(mixed), "gw.example", "*")
	f.Add(join(sent(leaf, p.sub.cert)), "C=CH, O=Example, CN=gateway", "C=CH, O=*, CN=*")
	f.Add(join(sent(p.other.issue(f, "p256"))), "192.0.2.1", "192.0.2.1")
	f.Add(join([]*wire.Cert{{Encoding: 15, Data: trust.Keys[0].SPKI()}}), "keyid:x", "keyid:x")
	f.Add(join(sent(p.root.sub(f, "Bound", "p384", directories(f, true, "asn1dn:C=CH", "asn1dn:C=DE")).cert)), "gw.example", "*.example")
	f.Fuzz(func(t *testing.T, data []byte, claimed, wanted string) {
		id, err := ParseIdentity(claimed)
		if err != nil {
			return
		}
		want, err := ParsePattern(wanted)
		if err != nil {
			return
		}
		c := Claim{Certs: split(data), ID: id, Want: want, Responder: len(data)%2 == 0, At: now}
		within(t, maxVerify, func() {
			e, fault := trust.Verify(c)
			speaks(t, fault)
			if fault != nil && fault.Code != FaultUnknown {
				if e != nil {
					t.Error("evidence beside a fault")
				}
				return
			}
			proved(t, trust, &c, e)
		})
	})
}

// proved holds accepted evidence against what Verify promises, by other means than its own.
func proved(t *testing.T, trust *Trust, c *Claim, e *Evidence) {
	if !c.Want.Matches(c.ID) || !e.Identity.Equal(c.ID) || len(e.Keys) == 0 {
		t.Errorf("%v is accepted as %v", c.ID, e.Identity)
	}
	if len(e.Chain) == 0 {
		if _, exact := c.Want.Exact(); !exact || !e.Keys[0].Equal(trust.Keys[0]) {
			t.Errorf("a raw key proves %v", c.ID)
		}
		return
	}
	if !e.Chain[len(e.Chain)-1].Equal(trust.Roots[0]) || !bytes.Equal(e.Chain[0].Raw, c.Certs[0].Data) && len(c.Certs) == 1 {
		t.Error("a chain that does not end at the root")
	}
	for i, cert := range e.Chain[:len(e.Chain)-1] {
		if cert.CheckSignatureFrom(e.Chain[i+1]) != nil || now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
			t.Errorf("link %d is wrong", i)
		}
	}
}

func FuzzCRL(f *testing.F) {
	p := newPKI(f)
	leaf := p.root.issue(f, "p256", places)
	f.Add(p.root.crl(f, nil).Raw)
	f.Add(p.root.crl(f, nil, leaf).Raw)
	f.Add(encodePEM("X509 CRL", p.root.crl(f, nil, leaf).Raw))
	f.Add([]byte{0x30, 0x0a, 0xa0, 0x08, 0xa0, 0x06, 0x86, 0x04, 'h', 't', 't', 'p'})
	f.Fuzz(func(t *testing.T, data []byte) {
		within(t, maxParse, func() {
			inDistributionPoint(data, leaf)
			constraint := subtrees{}
			constraint.read(data)
			constraint.refuses(dn{{attribute{oid: "2.5.4.3"}}})
			lists, err := ParseCRLs(data)
			if err != nil {
				return
			}
			for _, l := range CheckRevocation([]*x509.Certificate{leaf, p.root.cert}, Revocations{CRLs: lists}, now) {
				if l.State == LinkGood && lists[0].CheckSignatureFrom(p.root.cert) != nil && len(lists) == 1 {
					t.Error("a CRL that nobody signed says good")
				}
			}
		})
	})
}

func FuzzOCSP(f *testing.F) {
	p := newPKI(f)
	leaf := p.root.issue(f, "p256", places)
	f.Add(p.root.answer(f, ocsp.Good)(leaf))
	f.Add(p.root.answer(f, ocsp.Revoked)(leaf))
	f.Add(p.root.answer(f, ocsp.Unknown)(leaf))
	f.Add(ocsp.UnauthorizedErrorResponse)
	f.Fuzz(func(t *testing.T, data []byte) {
		within(t, maxParse, func() {
			_, err := OCSPFresh(data, leaf, p.root.cert, now)
			if err != nil {
				if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
					t.Errorf("%q is not printable", err)
				}
				return
			}
			if _, err := ocsp.ParseResponseForCert(data, leaf, p.root.cert); err != nil {
				t.Errorf("good here, and elsewhere: %v", err)
			}
		})
	})
}

func FuzzSignature(f *testing.F) {
	var keys []*PublicKey
	made := map[string]bool{}
	for _, name := range []string{"rsa-a", "rsa-e3", "p256", "p521", "ed25519-a"} {
		k := key(f, name)
		keys = append(keys, k.Public())
		for _, rules := range []SignatureRules{{Hashes: all}, {Hashes: all, PKCS1: true}, {Hashes: all, PSSTrailer: true}, {}, {SHA1: true}} {
			if s, fault := k.Sign(octetsToSign, rules); fault == nil {
				f.Add(byte(s.Auth.Method), s.Auth.Data)
				made[string(byte(s.Auth.Method))+string(s.Auth.Data)] = true
			}
		}
	}
	f.Add(byte(14), []byte{15, 0x30, 0x0d, 6, 9})
	f.Fuzz(func(t *testing.T, method byte, data []byte) {
		parseAlgorithm(data)
		for _, k := range keys {
			within(t, maxParse, func() {
				scheme, fault := VerifySignature(k, octetsToSign, &wire.Auth{Method: wire.AuthMethod(method), Data: data}, SignatureRules{Hashes: all})
				speaks(t, fault)
				if fault == nil && !made[string(method)+string(data)] && !sameScheme(data, k, scheme) {
					t.Errorf("%s by %v: a signature that nobody made is accepted: %x", scheme, k, data)
				}
			})
		}
	})
}

// sameScheme: an accepted signature may differ from those that were made only in how its algorithm is written.
func sameScheme(data []byte, k *PublicKey, want string) bool {
	if len(data) == 0 || int(data[0]) >= len(data) {
		return false
	}
	s, err := parseAlgorithm(data[1 : 1+data[0]])
	return err == nil && s.String() == want && k.verify(s, octetsToSign, data[1+data[0]:])
}
