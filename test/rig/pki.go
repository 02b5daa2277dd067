package rig

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
)

// KeyKind is a kind of key pair: "RSA 2048", "RSA 3072", "P-256", "P-384", "Ed25519".
type KeyKind string

// NewKey makes a key pair.
func NewKey(kind KeyKind) (crypto.Signer, error) {
	switch kind {
	case "RSA 2048":
		return rsa.GenerateKey(rand.Reader, 2048)
	case "RSA 3072":
		return rsa.GenerateKey(rand.Reader, 3072)
	case "P-256":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "P-384":
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "Ed25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("unknown kind of key %q", kind)
}

// Proof is how one end of a Tunnel proves itself by signatures.
type Proof struct {
	Key    crypto.Signer
	Cert   *x509.Certificate   // nil: by the public key alone
	Sends  []*x509.Certificate // the CAs that this end has, and sends with its certificate
	Trust  []*x509.Certificate // the CAs that the other end believes in
	CRL    []byte              // PEM, a file of the other end
	PKCS1  bool                // it signs with RSASSA-PKCS1-v1_5, not with RSASSA-PSS
	Libre  string              // how Libreswan names its method: "ecdsa", "rsa-sha1"; "rsa" is by PKCS1
	Silent bool                // as strongSwan: it does not ask for certificates
}

// Serial of the certificate in the hexadecimal digits that all ends show.
func (p *Proof) Serial() string { return fmt.Sprintf("%x", p.Cert.SerialNumber) }

// CA is a certification authority.
type CA struct {
	Cert   *x509.Certificate
	Key    crypto.Signer
	Parent *CA           // nil: a root
	serial *atomic.Int64 // one count for a root and all below it, so that a number means one certificate
}

// NewCA makes a root, or a CA below parent.
func NewCA(name string, kind KeyKind, parent *CA) (*CA, error) {
	key, err := NewKey(kind)
	if err != nil {
		return nil, err
	}
	ca := &CA{Key: key, Parent: parent, serial: new(atomic.Int64)}
	ca.serial.Store(0x5100)
	issuer := ca
	if parent != nil {
		issuer, ca.serial = parent, parent.serial
	}
	ca.Cert, err = issuer.sign(&x509.Certificate{
		Subject: subject(name), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		NotAfter: time.Now().AddDate(5, 0, 0),
	}, key.Public())
	return ca, err
}

func subject(name string) pkix.Name {
	return pkix.Name{Country: []string{"CH"}, Organization: []string{"Example"}, CommonName: name}
}

// sign issues a certificate; a CA without one of its own signs it for itself.
func (ca *CA) sign(c *x509.Certificate, key crypto.PublicKey) (*x509.Certificate, error) {
	c.SerialNumber = big.NewInt(ca.serial.Add(1))
	if c.NotBefore.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	issuer := ca.Cert
	if issuer == nil {
		issuer = c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, issuer, key, ca.Key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// Leaf is what an end entity's certificate says.
type Leaf struct {
	CN        string
	Names     []string // DNS names, mail and IP addresses of its subjectAltName
	Key       crypto.Signer
	NotBefore time.Time // zero: an hour ago
	NotAfter  time.Time // zero: in 90 days
	CRL, OCSP string    // URLs
	Signer    bool      // it may sign OCSP responses
}

// Issue issues a certificate, and returns the proof of an end that sends it with the CAs below the root, to one that believes in the root.
func (ca *CA) Issue(l Leaf) (*Proof, error) {
	c := &x509.Certificate{Subject: subject(l.CN), NotBefore: l.NotBefore, NotAfter: l.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature}
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().AddDate(0, 0, 90)
	}
	for _, n := range l.Names {
		if ip, err := netip.ParseAddr(n); err == nil {
			c.IPAddresses = append(c.IPAddresses, ip.AsSlice())
		} else if strings.Contains(n, "@") {
			c.EmailAddresses = append(c.EmailAddresses, n)
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	if l.CRL != "" {
		c.CRLDistributionPoints = []string{l.CRL}
	}
	if l.OCSP != "" {
		c.OCSPServer = []string{l.OCSP}
	}
	if l.Signer {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning}
	}
	cert, err := ca.sign(c, l.Key.Public())
	if err != nil {
		return nil, err
	}
	p := &Proof{Key: l.Key, Cert: cert, Libre: "ecdsa"}
	if _, ok := l.Key.(*rsa.PrivateKey); ok {
		p.Libre = "rsa"
	}
	for ; ca.Parent != nil; ca = ca.Parent {
		p.Sends = append(p.Sends, ca.Cert)
	}
	p.Trust = []*x509.Certificate{ca.Cert}
	return p, nil
}

// CRL is a signed list of revoked certificates, as PEM.
func (ca *CA) CRL(revoked ...*x509.Certificate) ([]byte, error) {
	now := time.Now()
	list := &x509.RevocationList{Number: big.NewInt(ca.serial.Add(1)), ThisUpdate: now.Add(-time.Hour), NextUpdate: now.AddDate(0, 0, 7)}
	for _, c := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: now.Add(-time.Hour), ReasonCode: 1})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, ca.Cert, ca.Key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der}), nil
}

// CertPEM is certificates in one file.
func CertPEM(certs ...*x509.Certificate) string {
	var b strings.Builder
	for _, c := range certs {
		pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
	}
	return b.String()
}

// KeyPEM is a private key in PKCS #8.
func KeyPEM(key crypto.Signer) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err) // a kind that NewKey does not make
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// PublicPEM is the public key of a key pair.
func PublicPEM(key crypto.Signer) string {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}
