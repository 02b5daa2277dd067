package ike

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// wall is the time of these tests by the calendar.
var wall = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// keyFile reads "rsa-a.key" and the like.
func keyFile(path string) (alg.Secret, error) {
	b, err := os.ReadFile("auth/testdata/" + strings.TrimSuffix(path, ".key") + ".pem")
	return alg.NewSecret(b), err
}

// certificateFile makes "ca.pem", or "NAME/KEY.pem": a certificate of the CA for a name and a key; "NAME/KEY.pem?expired" is past its time,
// "NAME/KEY.pub" the public key alone; "ca.crl" a list that
// revokes them all.
func certificateFile(path string) ([]byte, error) {
	if path == "ca.pem" {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: testCA().Raw}), nil
	}
	if path == "ca.crl" { // revokes all that this function makes
		der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: wall.Add(-time.Minute), NextUpdate: wall.Add(time.Hour),
			RevokedCertificateEntries: []x509.RevocationListEntry{{SerialNumber: big.NewInt(7), RevocationTime: wall.Add(-time.Minute)}}}, testCA(), signer("ed25519-c"))
		return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), err
	}
	path, flaw, _ := strings.Cut(path, "?")
	name, key, _ := strings.Cut(path, "/")
	if k, ok := strings.CutSuffix(key, ".pub"); ok {
		der, err := x509.MarshalPKIXPublicKey(signer(k).Public())
		return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), err
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(7), Subject: pkix.Name{Organization: []string{"Example"}, CommonName: name}, NotBefore: wall.Add(-time.Hour),
		NotAfter: wall.Add(90 * 24 * time.Hour), DNSNames: []string{name}, KeyUsage: x509.KeyUsageDigitalSignature}
	switch flaw {
	case "expired":
		c.NotBefore, c.NotAfter = wall.Add(-time.Hour), wall.Add(-time.Minute)
	case "ocsp":
		c.OCSPServer = []string{"http://ocsp.example/"}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, testCA(), signer(strings.TrimSuffix(key, ".pem")).Public(), signer("ed25519-c"))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), err
}

func signer(name string) crypto.Signer {
	b, err := os.ReadFile("auth/testdata/" + name + ".pem")
	if err != nil {
		panic(err)
	}
	block, _ := pem.Decode(b)
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		panic(err)
	}
	return k.(crypto.Signer)
}

var testCA = sync.OnceValue(func() *x509.Certificate {
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"Example"}, CommonName: "Test CA"}, NotBefore: wall.Add(-time.Hour),
		NotAfter: wall.Add(1000 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign}
	k := signer("ed25519-c")
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		panic(err)
	}
	c, err = x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return c
})

// certified is gwA or gwB with other proofs: what stands behind local and remote, and further keys. psk says whether the PSK stays.
func certified(gw, local, remote, more string, psk bool) string {
	lines := strings.Split(gw, "\n")
	var out []string
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l, "local  = {") && local != "":
			l = strings.TrimSuffix(l, " }") + ", " + local + " }"
		case strings.HasPrefix(l, "remote = {") && remote != "":
			l = strings.TrimSuffix(l, " }") + ", " + remote + " }"
		case strings.HasPrefix(l, "psk"):
			if !psk {
				l = ""
			}
			l += "\n" + more
		}
		out = append(out, l)
	}
	return strings.Join(out, "\n")
}

func byCert(name, key string) string {
	return fmt.Sprintf(`cert = "%s/%s.pem", key = { file = "%s.key" }`, name, key, key)
}

const byCA = `ca = "ca.pem"`

// TestCertificates: each kind of key, either way, and mixed with a PSK; both operators read what proved the other.
func TestCertificates(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup setup
		a, b  string // what A and B read of their peer
	}{
		{"RSA-PSS", setup{a: certified(gwA, byCert("gw-a.example", "rsa-a"), byCA, "", false), b: certified(gwB, byCert("gw-b.example", "rsa-b"), byCA, "", false)}, "RSA-PSS", "RSA-PSS"},
		{"PKCS1", setup{a: certified(gwA, byCert("gw-a.example", "rsa-a"), byCA, `rsa = "pkcs1"`, false), b: certified(gwB, byCert("gw-b.example", "rsa-b"), byCA, "", false)}, "RSA-PSS", "PKCS #1 v1.5"},
		{"ECDSA", setup{a: certified(gwA, byCert("gw-a.example", "p256"), byCA, "", false), b: certified(gwB, byCert("gw-b.example", "p384"), byCA, "", false)}, "ECDSA with SHA2-384", "ECDSA with SHA2-256"},
		{"Ed25519", setup{a: certified(gwA, byCert("gw-a.example", "ed25519-a"), byCA, "", false), b: certified(gwB, byCert("gw-b.example", "p521"), byCA, "", false)}, "ECDSA with SHA2-512", "Ed25519"},
		{"mixed", setup{a: certified(gwA, "", byCA, "", true), b: certified(gwB, byCert("gw-b.example", "ed25519-b"), "", "", true)}, "Ed25519", "(PSK)"},
		{"raw keys", setup{a: certified(gwA, `key = { file = "ed25519-a.key" }`, `public_key = "x/ed25519-b.pub"`, "", false), b: certified(gwB, `key = { file = "ed25519-b.key" }`, `public_key = "x/ed25519-a.pub"`, "", false)}, "Ed25519", "Ed25519"},
		{"pinned", setup{a: certified(gwA, byCert("gw-a.example", "p256"), `cert = "gw-b.example/p384.pem"`, "", false), b: certified(gwB, byCert("gw-b.example", "p384"), byCA, "", false)}, "ECDSA with SHA2-384", "ECDSA with SHA2-256"},
		{"pattern", setup{a: certified(gwA, byCert("gw-a.example", "p256"), byCA, "", false),
			b: certified(strings.Replace(gwB, `"gw-a.example"`, `"*.example"`, 1), byCert("gw-b.example", "p384"), byCA, "", false)}, "ECDSA with SHA2-384", "ECDSA with SHA2-256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newPair(t, c.setup)
			n.up()
			n.a.wants(CodeAuthenticated, "peer proved gw-b.example", c.a)
			n.b.wants(CodeAuthenticated, "peer proved gw-a.example", c.b)
			if p := n.a.sa.Status().Proof; !strings.Contains(c.a+p, strings.Trim(c.a, "()")) || p == "" {
				t.Errorf("status: %q", p)
			}
		})
	}
}

// RFC 7296 section 2.15: each side proves itself by a method of its own, a certificate one way and the PSK the other.
func TestTrap_7296_106_TwoMethods(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup setup
		a, b  string // what A and B read of their peer
	}{
		{"the responder has the certificate", setup{a: certified(gwA, "", byCA, "", true), b: certified(gwB, byCert("gw-b.example", "p384"), "", "", true)}, "ECDSA with SHA2-384", "(PSK)"},
		{"the initiator has it", setup{a: certified(gwA, byCert("gw-a.example", "p256"), "", "", true), b: certified(gwB, "", byCA, "", true)}, "(PSK)", "ECDSA with SHA2-256"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newPair(t, c.setup)
			n.up()
			n.a.wants(CodeAuthenticated, "peer proved gw-b.example", c.a)
			n.b.wants(CodeAuthenticated, "peer proved gw-a.example", c.b)
		})
	}
}

// against is what an initiator that was refused reads of its own proof.
func against(configuration string) []string {
	switch {
	case !strings.Contains(configuration, "key = {"):
		return []string{"or has another PSK", "psk.file"}
	case !strings.Contains(configuration, `cert = "gw-`):
		return []string{"or does not have our public key (Ed25519 key ", "conn.d/test.toml:2: local.key"}
	}
	return []string{"or does not believe our certificate (CN=gw-", ",O=Example, issued by CN=Test CA,O=Example, until 2026-", "conn.d/test.toml:2: local.cert"}
}

// TestCertificateRefusals: the peer hears AUTHENTICATION_FAILED and nothing else; the operator on either side reads why.
func TestCertificateRefusals(t *testing.T) {
	good := func(gw, name, key string) string { return certified(gw, byCert(name, key), byCA, "", false) }
	for _, c := range []struct {
		name string
		a, b string
		say  []string // of the responder
	}{
		{"expired", certified(gwA, `cert = "gw-a.example/p256.pem?expired", key = { file = "p256.key" }`, byCA, "", false), good(gwB, "gw-b.example", "p384"), []string{"192.0.2.1:4500", "gw-a.example", "2026-06-01"}},
		{"unknown CA", good(gwA, "gw-a.example", "p256"), certified(gwB, byCert("gw-b.example", "p384"), `cert = "gw-a.example/rsa-a.pem"`, "", false), []string{"conn.d/test.toml:3: remote.c"}},
		{"PSK where a certificate is wanted", gwA, good(gwB, "gw-b.example", "p384"), []string{"proves gw-a.example by a pre-shared key, connection site-a wants a signature", "conn.d/test.toml:3: remote.ca"}},
		{"certificate where a PSK is wanted", good(gwA, "gw-a.example", "p256"), gwB, []string{"by a signature (method ", "wants a pre-shared key", "conn.d/test.toml:3"}},
		{"unknown identity", good(strings.Replace(gwA, "gw-a.example", "gw-x.example", 1), "gw-x.example", "p256"), good(gwB, "gw-b.example", "p384"), []string{"the peer says it is gw-x.example"}},
		{"other key", certified(gwA, `key = { file = "ed25519-a.key" }`, byCA, "", false), certified(gwB, byCert("gw-b.example", "p384"), `public_key = "x/ed25519-b.pub"`, "", false), []string{"conn.d/test.toml:3: remote."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newPair(t, setup{a: c.a, b: c.b})
			var answers [][]wire.Payload
			n.tamper(func(o *opened) bool {
				if o.is(wire.IKEAuth, true) {
					answers = append(answers, o.ps)
				}
				return false
			})
			n.fails()
			if len(answers) != 1 || len(answers[0]) != 1 || !notified(answers[0], wire.NotifyAuthenticationFailed) {
				t.Errorf("answers %v", answers)
			}
			n.a.wants(CodeAuthFailed, append(against(c.a), "198.51.100.7:4500 refuses us (AUTHENTICATION_FAILED)")...)
			code := CodeAuthFailed
			if strings.Contains(c.name, "identity") {
				code = CodeBadIdentity
			}
			n.b.wants(code, c.say...)
		})
	}
}

// TestRevocationIsAsked: of a chain that is right otherwise, once, in either role; no answer is a refusal with "strict" alone.
func TestRevocationIsAsked(t *testing.T) {
	for _, mode := range []string{"soft", "strict", "off"} {
		t.Run(mode, func(t *testing.T) {
			b := certified(gwB, byCert("gw-b.example", "p384"), byCA, fmt.Sprintf("revocation = %q", mode), false)
			n := newPair(t, setup{a: certified(gwA, `cert = "gw-a.example/p256.pem?ocsp", key = { file = "p256.key" }`, byCA, "", false), b: b})
			if mode == "strict" {
				n.fails()
				n.b.wants(CodeAuthFailed, "is at hand; http://ocsp.example/ did not help: connection refused", "conn.d/test.toml:5: revocation")
			} else {
				n.up()
				if said := strings.Contains(n.b.sa.Status().Proof, "revocation not known"); said != (mode == "soft") {
					t.Errorf("status says of the proof %q", n.b.sa.Status().Proof)
				}
			}
			urls := make([]string, 0)
			for _, s := range n.b.asked {
				urls = append(urls, s.URL)
			}
			want := []string{"http://ocsp.example/"}
			if mode == "off" {
				want = nil
			}
			if !slices.Equal(urls, want) && len(urls)+len(want) > 0 {
				t.Errorf("asked %v", urls)
			}
		})
	}
}

// TestNobodyIsAskedForAStranger: a certificate of another CA, or a signature that is wrong, sends us nowhere.
func TestNobodyIsAskedForAStranger(t *testing.T) {
	a := certified(gwA, `cert = "gw-a.example/p256.pem?ocsp", key = { file = "p256.key" }`, byCA, "", false)
	n := newPair(t, setup{a: a, b: certified(gwB, byCert("gw-b.example", "p384"), byCA, `revocation = "strict"`, false)})
	n.tamper(func(o *opened) bool {
		if !o.is(wire.IKEAuth, false) {
			return false
		}
		p, _ := wire.Find[*wire.Auth](o.ps)
		p.Data = slices.Clone(p.Data)
		p.Data[len(p.Data)-1] ^= 1
		return true
	})
	n.fails()
	n.b.wants(CodeAuthFailed)
	if len(n.b.asked) > 0 {
		t.Errorf("asked %v", n.b.asked)
	}
}

// TestCertificateRequests: a responder asks for certificates in IKE_SA_INIT, since many initiators send none unasked, and names the hashes that it
// takes; it sends its own certificate to whoever asks for none.
func TestCertificateRequests(t *testing.T) {
	n := newPair(t, setup{a: certified(gwA, byCert("gw-a.example", "p256"), byCA, "", false), b: certified(gwB, byCert("gw-b.example", "p384"), byCA, "", false)})
	var init, answer []wire.Payload
	n.hook = func(d datagram) []datagram {
		if m, _ := wire.Decode(d.data); m.Exchange == wire.IKESAInit && m.Response() {
			init = m.Payloads
		}
		return []datagram{d}
	}
	n.up()
	if q, ok := wire.Find[*wire.CertReq](init); !ok || q.Encoding != wire.CertX509Signature || len(q.Authorities) != 20 || peerHashes(init) == nil {
		t.Errorf("IKE_SA_INIT response: %v", init)
	}
	n = newPair(t, setup{a: certified(gwA, byCert("gw-a.example", "p256"), byCA, "", false), b: certified(gwB, byCert("gw-b.example", "p384"), byCA, "", false)})
	n.tamper(func(o *opened) bool {
		if o.is(wire.IKEAuth, true) {
			answer = o.ps
			return false
		}
		if o.is(wire.IKEAuth, false) {
			o.drop(wire.PayloadCertReq)
			return true
		}
		return false
	})
	n.up()
	if !has(answer, wire.PayloadCert) {
		t.Error("the responder sends no certificate")
	}
}

// TestNoCalendar: who does not know the date believes no certificate; the year of a machine without a clock, and not today, is what it is judged by.
func TestNoCalendar(t *testing.T) {
	n := newPair(t, setup{a: certified(gwA, byCert("gw-a.example", "p256"), byCA, "", false), b: certified(gwB, byCert("gw-b.example", "p384"), byCA, "", false)})
	n.b.config.Wall = nil
	n.fails()
	n.b.wants(CodeAuthFailed, "1970")
}

// TestConfiguredCRL: a list from a file of ours counts.
func TestConfiguredCRL(t *testing.T) {
	n := newPair(t, setup{a: certified(gwA, byCert("gw-a.example", "p256"), byCA, "", false), b: certified(gwB, byCert("gw-b.example", "p384"), byCA+`, crl = "ca.crl"`, "", false)})
	n.fails()
	n.b.wants(CodeAuthFailed, "the certificate of CN=gw-a.example", "was revoked on 2026-06-01")
}

// TestClassicSignature: with a peer before RFC 7427 RSA signs by method 1. Without SHA-1 the operator reads what the peer may have against it; with SHA-1 the
// other side must permit it too.
func TestClassicSignature(t *testing.T) {
	const sha1 = `sha1_signatures = "yes"`
	for _, c := range []struct {
		a, b      string
		note, up  bool
		forgetful bool // b has not heard which hashes a takes
	}{{"", "", false, true, false}, {"", "", true, true, true}, {sha1, sha1, false, true, true}, {"", sha1, false, false, true}} {
		n := newPair(t, setup{a: certified(gwA, "", byCA, c.a, true), b: certified(gwB, byCert("gw-b.example", "rsa-b"), "", c.b, true)})
		n.a.step(Initiate{})
		n.run(time.Minute, func() bool {
			if n.b.sa == nil {
				return false
			}
			p, ok := n.b.sa.phase.(*authenticating)
			if ok && c.forgetful {
				p.hashes = nil
			}
			return ok
		})
		n.run(time.Minute, func() bool { return n.a.finish != nil || n.a.children() == 1 && n.b.children() == 1 })
		if (n.a.children() == 1) != c.up {
			n.dump()
			t.Errorf("%+v: up %v", c, !c.up)
		}
		noted := slices.ContainsFunc(n.b.texts(CodeIgnored), func(s string) bool { return strings.HasPrefix(s, "the peer does not know RFC 7427") })
		if noted != c.note {
			t.Errorf("%+v: said %q", c, n.b.texts(CodeIgnored))
		}
	}
}
