package auth

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"
)

// Each form in which keys are kept.
func TestParsePrivateKey(t *testing.T) {
	ec := signer(t, "p384").(*ecdsa.PrivateKey)
	sec1, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := x509.MarshalPKCS1PrivateKey(signer(t, "rsa-a").(*rsa.PrivateKey))
	params := encodePEM("EC PARAMETERS", []byte{6, 5, 0x2b, 0x81, 4, 0, 0x22})
	for _, c := range []struct {
		what string
		data []byte
		want string
	}{
		{"PKCS #8 RSA", file(t, "rsa-a"), "RSA 2048"},
		{"PKCS #8 ECDSA", file(t, "p521"), "ECDSA P-521"},
		{"PKCS #8 Ed25519", file(t, "ed25519-a"), "Ed25519"},
		{"PKCS #1", encodePEM("RSA PRIVATE KEY", pkcs1), "RSA 2048"},
		{"SEC 1", append(params, encodePEM("EC PRIVATE KEY", sec1)...), "ECDSA P-384"},
		{"beside a certificate", append(encodePEM("CERTIFICATE", newCA(t, "x", "rsa-a").cert.Raw), file(t, "p256")...), "ECDSA P-256"},
	} {
		k, err := ParsePrivateKey(c.data)
		if err != nil || k.Public().Kind() != c.want {
			t.Errorf("%s: %v, %v", c.what, k, err)
		}
	}
	for _, c := range []struct {
		what, want string
		data       []byte
	}{
		{"nothing", "the file is empty", nil},
		{"DER", "no PEM block", pkcs1},
		{"a certificate", "holds CERTIFICATE but no private key", encodePEM("CERTIFICATE", []byte{1})},
		{"an encrypted PKCS #8", "is encrypted", encodePEM("ENCRYPTED PRIVATE KEY", []byte{1})},
		{"an encrypted PKCS #1", "is encrypted", []byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n")},
		{"OpenSSH", "OpenSSH's own format", encodePEM("OPENSSH PRIVATE KEY", []byte{1})},
		{"DSA", "a DSA PRIVATE KEY", encodePEM("DSA PRIVATE KEY", []byte{1})},
		{"two keys", "two private keys", append(file(t, "rsa-a"), file(t, "p256")...)},
		{"PKCS #1 as PKCS #8", "cannot be read", encodePEM("PRIVATE KEY", pkcs1)},
		{"garbage", "cannot be read", encodePEM("EC PRIVATE KEY", []byte{0x30, 0})},
	} {
		if k, err := ParsePrivateKey(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %q", c.what, k, err, c.want)
		}
	}
	if _, err := NewPrivateKey((*rsa.PrivateKey)(nil)); err == nil {
		t.Error("no key is a key")
	}
}

// A private key is shown in no format.
func TestPrivateKeyIsHidden(t *testing.T) {
	k := key(t, "ed25519-a")
	c := &Credential{Key: k}
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{fmt.Sprint(k), fmt.Sprintf("%v %+v %#v %s %q %x %d", k, k, k, k, k, k, k), fmt.Sprintf("%+v", *c), string(b)} {
		if !strings.Contains(s, redactedKey) || strings.Contains(s, "0x") || strings.Contains(s, "signer") {
			t.Errorf("a private key prints as %s", s)
		}
	}
}

func TestParsePublicKeys(t *testing.T) {
	a, b := key(t, "rsa-a").Public(), key(t, "p256").Public()
	keys, err := ParsePublicKeys(append(encodePEM("PUBLIC KEY", a.SPKI(), b.SPKI()), encodePEM("CERTIFICATE", newCA(t, "x", "rsa-b").cert.Raw)...))
	if err != nil || len(keys) != 3 || !keys[0].Equal(a) || !keys[1].Equal(b) || !keys[2].Equal(key(t, "rsa-b").Public()) || keys[0].Equal(b) {
		t.Errorf("%v, %v", keys, err)
	}
	for want, data := range map[string][]byte{
		"no PEM block":                  []byte("ssh-ed25519 AAAA"),
		"where the peer's public key":   file(t, "rsa-a"),
		"CERTIFICATE REQUEST block":     encodePEM("CERTIFICATE REQUEST", []byte{1}),
		"key 1 of the file: the public": encodePEM("PUBLIC KEY", []byte{0x30, 0}),
	} {
		if _, err := ParsePublicKeys(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

func TestParseCertificates(t *testing.T) {
	root := newCA(t, "root", "rsa-a").cert
	leaf := newCA(t, "root", "rsa-a").issue(t, "p256")
	both := append(append(encodePEM("CERTIFICATE", leaf.Raw), file(t, "p256")...), encodePEM("CERTIFICATE", root.Raw)...)
	if certs, err := ParseCertificates(both); err != nil || len(certs) != 2 || !certs[0].Equal(leaf) {
		t.Errorf("%d certificates, %v", len(certs), err)
	}
	if certs, err := ParseCertificates(root.Raw); err != nil || len(certs) != 1 {
		t.Errorf("DER: %d certificates, %v", len(certs), err)
	}
	crl := newCA(t, "root", "rsa-a").crl(t, nil)
	if lists, err := ParseCRLs(encodePEM("X509 CRL", crl.Raw, crl.Raw)); err != nil || len(lists) != 2 {
		t.Errorf("%d CRLs, %v", len(lists), err)
	}
	if lists, err := ParseCRLs(crl.Raw); err != nil || len(lists) != 1 {
		t.Errorf("DER: %d CRLs, %v", len(lists), err)
	}
	for _, c := range []struct {
		want string
		data []byte
	}{
		{"the file is empty", nil},
		{"as DER it is no certificate", crl.Raw},
		{"PRIVATE KEY but no certificate", file(t, "p256")},
		{"TRUSTED format", encodePEM("TRUSTED CERTIFICATE", root.Raw)},
		{"certificate 2 of the file cannot be read", append(encodePEM("CERTIFICATE", root.Raw), encodePEM("CERTIFICATE", root.Raw[:100])...)},
	} {
		if _, err := ParseCertificates(c.data); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
	for _, data := range [][]byte{nil, root.Raw, file(t, "p256"), encodePEM("X509 CRL", []byte{0x30, 0})} {
		if _, err := ParseCRLs(data); err == nil {
			t.Errorf("%.30q holds CRLs", data)
		}
	}
	if b, _ := pem.Decode(both); b == nil {
		t.Error("the file was changed")
	}
}
