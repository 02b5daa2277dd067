package auth

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// now is the time of all tests.
var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// key reads one of the keys in testdata, which belong to nobody.
func key(t testing.TB, name string) *PrivateKey {
	t.Helper()
	k, err := ParsePrivateKey(file(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".pem"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// signer reads a key that PrivateKey may refuse.
func signer(t testing.TB, name string) crypto.Signer {
	t.Helper()
	block, _ := pem.Decode(file(t, name))
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return k.(crypto.Signer)
}

// authority is a certificate with its key: a CA, or one that acts as such.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func name(cn string) pkix.Name {
	return pkix.Name{Country: []string{"CH"}, Organization: []string{"Example"}, CommonName: cn}
}

type change func(*x509.Certificate)

func edited(c *x509.Certificate, changes []change) *x509.Certificate {
	for _, f := range changes {
		f(c)
	}
	return c
}

// newCA makes a root.
func newCA(t testing.TB, cn, keyName string, changes ...change) *authority {
	k := signer(t, keyName)
	return &authority{create(t, edited(caTemplate(cn), changes), nil, k.Public(), k), k}
}

func caTemplate(cn string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: serial(cn), Subject: name(cn), NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(9, 0, 0),
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
}

// serial tells certificates of different names apart.
func serial(cn string) *big.Int {
	sum := sha256.Sum256([]byte(cn))
	return new(big.Int).SetBytes(sum[:7])
}

func create(t testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, k crypto.Signer) *x509.Certificate {
	t.Helper()
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(zeros{}, template, parent, public, k)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// zeros is a reader for signatures that nobody relies on.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// sub makes a CA below.
func (a *authority) sub(t testing.TB, cn, keyName string, changes ...change) *authority {
	k := signer(t, keyName)
	return &authority{create(t, edited(caTemplate(cn), changes), a.cert, k.Public(), a.key), k}
}

// issue makes an end entity certificate for gw.example, with a DNS name of its own.
func (a *authority) issue(t testing.TB, keyName string, changes ...change) *x509.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(0x4711), Subject: name("gateway"), NotBefore: now.AddDate(0, -1, 0), NotAfter: now.AddDate(0, 2, 0),
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: []string{"gw.example"},
	}
	return create(t, edited(template, changes), a.cert, signer(t, keyName).Public(), a.key)
}

func dns(names ...string) change { return func(c *x509.Certificate) { c.DNSNames = names } }

func addresses(ips ...string) change {
	return func(c *x509.Certificate) {
		for _, s := range ips {
			ip := net.ParseIP(s)
			if v4 := ip.To4(); v4 != nil {
				ip = v4
			}
			c.IPAddresses = append(c.IPAddresses, ip)
		}
	}
}

// sent are CERT payloads.
func sent(certs ...*x509.Certificate) []*wire.Cert {
	var ps []*wire.Cert
	for _, c := range certs {
		ps = append(ps, &wire.Cert{Encoding: wire.CertX509Signature, Data: c.Raw})
	}
	return ps
}

func identity(t testing.TB, s string) Identity {
	t.Helper()
	id, err := ParseIdentity(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func pattern(t testing.TB, s string) Pattern {
	t.Helper()
	p, err := ParsePattern(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// claim is that of a gateway with an exact identity.
func claim(t testing.TB, id string, certs ...*x509.Certificate) Claim {
	return Claim{Certs: sent(certs...), ID: identity(t, id), Want: pattern(t, id), Responder: true, At: now}
}

// crl makes a list of revoked serial numbers, good for a day.
func (a *authority) crl(t testing.TB, changes func(*x509.RevocationList), revoked ...*x509.Certificate) *x509.RevocationList {
	t.Helper()
	template := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: now.Add(-time.Hour), NextUpdate: now.Add(23 * time.Hour)}
	for _, c := range revoked {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries,
			x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: now.AddDate(0, 0, -3), ReasonCode: 1})
	}
	if changes != nil {
		changes(template)
	}
	der, err := x509.CreateRevocationList(zeros{}, template, a.cert, a.key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := x509.ParseRevocationList(der)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func encodePEM(kind string, ders ...[]byte) []byte {
	var b bytes.Buffer
	for _, der := range ders {
		pem.Encode(&b, &pem.Block{Type: kind, Bytes: der})
	}
	return b.Bytes()
}

func nets(s string) []*net.IPNet {
	_, n, err := net.ParseCIDR(s)
	if err != nil {
		panic(err)
	}
	return []*net.IPNet{n}
}
