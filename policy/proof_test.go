package policy

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"
	"time"

	"cygnet/ike/auth"
	"cygnet/xfrm/alg"
)

// issued is a certificate with its key, as files.
type issued struct {
	cert      *x509.Certificate
	key       *ecdsa.PrivateKey
	pem       []byte
	secret    []byte
	publicKey []byte
}

var proofTime = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// issue makes a certificate for a name, by a CA or by itself; without a usage it is for any.
func issue(t *testing.T, name string, days int, by *issued, usage ...x509.ExtKeyUsage) *issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: proofTime.Add(-time.Hour), NotAfter: proofTime.Add(time.Duration(days) * 24 * time.Hour),
		DNSNames: []string{name}, BasicConstraintsValid: true, IsCA: by == nil, ExtKeyUsage: usage}
	parent, signer := c, key
	if by != nil {
		parent, signer = by.cert, by.key
	} else {
		c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	i := &issued{key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	i.cert, _ = x509.ParseCertificate(der)
	k, _ := x509.MarshalPKCS8PrivateKey(key)
	i.secret = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: k})
	p, _ := x509.MarshalPKIXPublicKey(&key.PublicKey)
	i.publicKey = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: p})
	return i
}

// proofFiles are a CA, our certificate and the peer's.
func proofFiles(t *testing.T) (Files, map[string][]byte) {
	ca := issue(t, "ca.example", 400, nil)
	own, peer := issue(t, "gw-a.example", 90, ca), issue(t, "gw-b.example", 90, ca)
	files := map[string][]byte{"psk": []byte("correct horse battery staple"), "ca.pem": ca.pem, "own.pem": own.pem, "own.key": own.secret, "own.pub": own.publicKey, "peer.pem": peer.pem,
		"peer.pub": peer.publicKey, "peer.key": peer.secret, "junk": []byte("junk")}
	read := func(path string) ([]byte, error) {
		if b, ok := files[path]; ok {
			return b, nil
		}
		return nil, errors.New(path + " does not exist")
	}
	return Files{Public: read, Secret: func(path string) (alg.Secret, error) {
		b, err := read(path)
		return alg.NewSecret(append([]byte(nil), b...)), err
	}}, files
}

// proofs is a connection whose ends have these further keys.
func proofs(local, remote, more string) []Source {
	join := func(s string) string {
		if s == "" {
			return ""
		}
		return ", " + s
	}
	return []Source{{"x.toml", []byte("[connection.b]\nlocal = { address = \"192.0.2.1\"" + join(local) + " }\nremote = { address = \"198.51.100.7\"" + join(remote) + " }\n" + more +
		"\n[connection.b.child.lan]\nlocal = [\"10.1.0.0/16\"]\nremote = [\"10.2.0.0/16\"]\n")}}
}

func TestProofs(t *testing.T) {
	files, _ := proofFiles(t)
	const (
		own  = `cert = "own.pem", key = { file = "own.key" }`
		id   = `id = "gw-a.example"`
		peer = `id = "gw-b.example"`
		psk  = `psk = { file = "psk" }`
	)
	for _, c := range []struct {
		name, local, remote, more string
		want                      []string // codes of problems; nil: it is accepted
		text                      string   // in the canonical text, or in a problem
	}{
		{"certificates", id + ", " + own, peer + `, ca = "ca.pem"`, "", nil, "ours: certificate in own.pem, key in own.key; the peer's: CA in ca.pem; revocation soft"},
		{"the certificate's own name", own, peer + `, ca = "ca.pem"`, "", nil, "local   192.0.2.1, gw-a.example"},
		{"certificate and PSK", id + ", " + own, peer, psk, nil, "the peer's: PSK in psk"},
		{"PSK and certificate", id, peer + `, ca = ["ca.pem"]`, psk, nil, "ours: PSK in psk"},
		{"raw keys", id + `, key = { file = "own.key" }`, peer + `, public_key = "peer.pub"`, "", nil, "public key in peer.pub"},
		{"pinned", id + ", " + own, peer + `, cert = "peer.pem"`, `rsa = "pkcs1"`, nil, "we sign with RSA PKCS1"},
		{"pattern", id + ", " + own, `id = "*.example", ca = "ca.pem"`, "", nil, "*.example"},
		{"pattern with PSK", id, `id = "*.example"`, psk, []string{"contradiction"}, "whoever knows the pre-shared key"},
		{"pattern with one certificate", id + ", " + own, `id = "*.example", cert = "peer.pem"`, "", []string{"contradiction"}, "one peer's"},
		{"no key", id + `, cert = "own.pem"`, peer + `, ca = "ca.pem"`, psk, []string{"missing-key"}, "a certificate and no key"},
		{"no key, no PSK", id + `, cert = "own.pem"`, peer + `, ca = "ca.pem"`, "", []string{"missing-key"}, "a certificate and no key"},
		{"the key itself, no PSK", id + `, cert = "own.pem", key = "-----BEGIN PRIVATE KEY-----"`, peer + `, ca = "ca.pem"`, "", []string{"wrong-type"}, "secrets do not stand in the configuration"},
		{"nothing proves the peer", id + ", " + own, peer, "", []string{"missing-key"}, `nothing proves the peer; add ca = "ca/example.pem" to remote`},
		{"nothing proves us", id, peer + `, ca = "ca.pem"`, "", []string{"missing-key"}, "nothing proves us; add cert = "},
		{"CRL of our own", id + ", " + own + `, crl = "ca.crl"`, peer + `, ca = "ca.pem"`, "", []string{"unknown-key"}, "crl is the peer's: it belongs into remote"},
		{"CRL beside it", id + ", " + own, peer + `, ca = "ca.pem"`, `crl = "ca.crl"`, []string{"unknown-key"}, "crl is the peer's: it belongs into remote"},
		{"the peer's private key", id + ", " + own, peer + `, ca = "ca.pem", key = { file = "peer.key" }`, "", []string{"unknown-key"}, "key is our own private key: it belongs into local"},
		{"PSK in remote", id + ", " + own, peer + ", " + psk, "", []string{"unknown-key", "missing-key"}, "psk belongs into the connection"},
		{"another's key", id + `, cert = "own.pem", key = { file = "peer.key" }`, peer + `, ca = "ca.pem"`, "", []string{"bad-key"}, "key"},
		{"no certificate in it", id + `, cert = "junk", key = { file = "own.key" }`, peer + `, ca = "ca.pem"`, psk, []string{"bad-file"}, "junk"},
		{"no such file", id + ", " + own, peer + `, ca = "gone.pem"`, "", []string{"unreadable"}, "gone.pem does not exist"},
		{"the key itself", id + `, cert = "own.pem", key = "-----BEGIN PRIVATE KEY-----"`, peer + `, ca = "ca.pem"`, psk, []string{"wrong-type"}, "secrets do not stand in the configuration"},
		{"another's name", `id = "gw-c.example", ` + own, peer + `, ca = "ca.pem"`, "", []string{"id-unproven"}, "gw-c.example"},
		{"PSK in vain", id + ", " + own, peer + `, ca = "ca.pem"`, psk, []string{"contradiction"}, "is never used"},
		{"revocation without certificates", id, peer, psk + "\nrevocation = \"strict\"", []string{"contradiction"}, "pre-shared key"},
		{"CRL without CA", id, peer + `, crl = "ca.pem"`, psk, []string{"bad-file"}, "CRL"},
		{"end entity as CA", id + ", " + own, peer + `, ca = "peer.pem"`, "", []string{"bad-trust"}, "gw-b.example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, problems := Parse(proofs(c.local, c.remote, c.more), files)
			text := ""
			if s != nil {
				text = s.Text()
			}
			var codes []string
			for _, p := range problems {
				codes = append(codes, p.Code)
				text += p.String() + "\n"
				if strings.Contains(p.String(), "KEY---") {
					t.Errorf("a problem shows a key: %s", p)
				}
			}
			if len(c.want) > 0 != Fatal(problems) || len(codes) == 0 && len(c.want) > 0 || len(codes) > 0 && len(c.want) > 0 && codes[0] != c.want[0] || len(c.want) == 0 && len(codes) > 0 {
				t.Errorf("problems %v, want %v\n%s", codes, c.want, text)
			}
			if !strings.Contains(text, c.text) {
				t.Errorf("%q is not in:\n%s", c.text, text)
			}
		})
	}
}

// TestUnfitCertificate: a certificate that is not for signatures is warned of, for the peer that refuses it does not say why.
func TestUnfitCertificate(t *testing.T) {
	files, content := proofFiles(t)
	ca := issue(t, "gw-a.example", 90, nil) // its keyUsage is keyCertSign
	content["own.pem"], content["own.key"] = ca.pem, ca.secret
	s, problems := Parse(proofs(`id = "gw-a.example", cert = "own.pem", key = { file = "own.key" }`, `id = "gw-b.example", ca = "ca.pem"`, ""), files)
	if s == nil || len(problems) != 1 || !problems[0].Warning || !strings.Contains(problems[0].String(), "CN=gw-a.example: its keyUsage has neither digitalSignature") {
		t.Errorf("%v", problems)
	}
}

// TestUsersCertificateOfAGateway: a certificate for clients calls gateways, and does not make one; who only answers is a gateway.
func TestUsersCertificateOfAGateway(t *testing.T) {
	files, content := proofFiles(t)
	user := issue(t, "gw-a.example", 90, issue(t, "ca.example", 400, nil), x509.ExtKeyUsageClientAuth)
	content["own.pem"], content["own.key"] = user.pem, user.secret
	calls := proofs(`cert = "own.pem", key = { file = "own.key" }`, `id = "gw-b.example", ca = "ca.pem"`, "")
	if _, problems := Parse(calls, files); len(problems) != 0 {
		t.Errorf("who calls: %v", problems)
	}
	answers := []Source{{calls[0].Name, bytes.Replace(calls[0].Data, []byte(`address = "198.51.100.7"`), []byte(`address = "%any"`), 1)}}
	if _, problems := Parse(answers, files); len(problems) != 1 || !problems[0].Warning || !strings.Contains(problems[0].String(), "its extendedKeyUsage is clientAuth alone: it is a user's, not a gateway's") {
		t.Errorf("who only answers: %v", problems)
	}
}

// TestSameProofs: what stands in the files counts, and so does which files they are.
func TestSameProofs(t *testing.T) {
	files, content := proofFiles(t)
	src := proofs(`id = "gw-a.example", cert = "own.pem", key = { file = "own.key" }`, `id = "gw-b.example", ca = "ca.pem"`, "")
	read := func() *Connection {
		s, problems := Parse(src, files)
		if s == nil {
			t.Fatal(problems)
		}
		return s.Connections[0]
	}
	a := read()
	if b := read(); !a.SameProofs(b) || !a.Same(b) {
		t.Error("the same files are not the same")
	}
	ca := issue(t, "ca.example", 400, nil)
	own := issue(t, "gw-a.example", 90, ca)
	content["own.pem"], content["own.key"] = own.pem, own.secret
	b := read()
	if a.SameProofs(b) || a.Same(b) {
		t.Error("another certificate is the same")
	}
	content["ca.pem"] = ca.pem
	if c := read(); b.SameProofs(c) {
		t.Error("another CA is the same")
	}
}

// TestExactBeforePattern: of two connections the one that wants the caller alone comes first, wherever it stands.
func TestExactBeforePattern(t *testing.T) {
	id := func(s string) auth.Identity { i, _ := auth.ParseIdentity(s); return i }
	p, err := auth.ParsePattern("*.example")
	if err != nil {
		t.Fatal(err)
	}
	many := &Connection{Name: "many", Local: End{ID: id("gw")}, Remote: End{Match: p}}
	one := &Connection{Name: "one", Local: End{ID: id("gw")}, Remote: End{ID: id("a.example")}}
	for peer, want := range map[string]string{"a.example": "one", "b.example": "many"} {
		if c, _ := ForIdentities([]*Connection{many, one}, id(peer), nil); c == nil || c.Name != want {
			t.Errorf("%s gets %v", peer, c)
		}
	}
	if c, mm := ForIdentities([]*Connection{many, one}, id("a.b.example"), nil); c != nil || !strings.Contains(mm.Text, "*.example") {
		t.Errorf("%v %v", c, mm)
	}
}

func TestExpiring(t *testing.T) {
	files, _ := proofFiles(t)
	s, problems := Parse(proofs(`id = "gw-a.example", cert = "own.pem", key = { file = "own.key" }`, `id = "gw-b.example", ca = "ca.pem"`, ""), files)
	if s == nil {
		t.Fatal(problems)
	}
	for _, c := range []struct {
		days int
		want []string
	}{
		{-1, []string{"is not valid before", "is not valid before"}}, {0, nil}, {59, nil}, {61, []string{"ends on 2026-08-30 12:00 UTC, in 29 days"}}, {91, []string{"ended on 2026-08-30 12:00 UTC"}},
	} {
		ps := Expiring(s, proofTime.Add(time.Duration(c.days)*24*time.Hour))
		ok := len(ps) == len(c.want)
		for i := range ps {
			ok = ok && strings.Contains(ps[i].Text, c.want[i]) && ps[i].Warning && ps[i].File == "x.toml" && ps[i].Line > 0
		}
		if !ok {
			t.Errorf("day %d: %v", c.days, ps)
		}
	}
}

// TestCRLOfAnotherCA: such a list revokes nothing, and who relies on it must know.
func TestCRLOfAnotherCA(t *testing.T) {
	files, content := proofFiles(t)
	crl := func(ca *issued) []byte {
		der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: proofTime, NextUpdate: proofTime.Add(time.Hour)}, ca.cert, ca.key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
	}
	own, another := issue(t, "ca.example", 400, nil), issue(t, "another.example", 400, nil)
	content["ca.pem"] = own.pem
	for name, want := range map[string]int{"own": 0, "another": 1} {
		content["list"] = crl(map[string]*issued{"own": own, "another": another}[name])
		_, problems := Parse(proofs(`id = "gw-a.example"`, `id = "gw-b.example", ca = "ca.pem", crl = "list"`, `psk = { file = "psk" }`), files)
		if len(problems) != want || want > 0 && (problems[0].Code != "crl-of-another" || !problems[0].Warning || !strings.Contains(problems[0].Text, "CN=another.example")) {
			t.Errorf("%s: %v", name, problems)
		}
	}
}
