package auth

import (
	"crypto/x509"
	"fmt"
	"math/big"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// CVE-2017-9023 and its kin: certificates made to keep us busy. Each may be the issuer of each other, with the largest modulus and exponent that are accepted, and no
// chain ends at a root.
func TestCVE_2017_9023_Maze(t *testing.T) {
	k := signer(t, "rsa-8192")
	a := &authority{key: k}
	a.cert = create(t, caTemplate("Maze"), nil, k.Public(), k)
	var certs []*x509.Certificate
	for i := range 6 { // some 16 KiB, and more than a hundred paths
		c := caTemplate("Maze")
		c.SerialNumber, c.DNSNames = big.NewInt(int64(i+1)), []string{fmt.Sprintf("m%d.example", i)} // so that crypto/x509 takes them for others
		certs = append(certs, create(t, c, a.cert, k.Public(), k))
	}
	trust := newPKI(t).trust()
	c := claim(t, "m0.example", certs...)
	var took time.Duration
	within(t, maxVerify, func() {
		took = cpu(t, func() {
			if _, f := trust.Verify(c); f == nil || f.Code != FaultIssuer {
				t.Errorf("%v", f)
			}
		})
	})
	t.Logf("%v of CPU", took)
}

// Many names in one certificate, and many constraints in its CA.
func TestManyNames(t *testing.T) {
	root := newCA(t, "Root", "rsa-a")
	var permitted, names []string
	for i := range 400 {
		permitted = append(permitted, fmt.Sprintf("p%d.example", i))
		names = append(names, fmt.Sprintf("h.p%d.example", i))
	}
	sub := root.sub(t, "Sub", "p384", func(c *x509.Certificate) { c.PermittedDNSDomains = permitted })
	leaf := sub.issue(t, "p256", dns(names...))
	within(t, maxVerify, func() {
		if _, f := (&Trust{Roots: []*x509.Certificate{root.cert}}).Verify(claim(t, "h.p399.example", leaf, sub.cert)); f != nil {
			t.Error(f)
		}
	})
}

// Signatures with the costliest key.
func TestCostlyKey(t *testing.T) {
	k, err := NewPrivateKey(signer(t, "rsa-8192"))
	if err != nil {
		t.Fatal(err)
	}
	for _, proof := range []*wire.Auth{{Method: 1, Data: make([]byte, maxSignature)}, {Method: 14, Data: append(append([]byte{15}, unhex(t, "300d06092a864886f70d01010b0500")...), make([]byte, maxSignature)...)}} {
		proof.Data[len(proof.Data)-1] = 7
		within(t, maxParse, func() {
			took := cpu(t, func() {
				if _, f := VerifySignature(k.Public(), octetsToSign, proof, SignatureRules{Hashes: all}); f == nil {
					t.Error("accepted")
				}
			})
			t.Logf("method %d: %v of CPU", proof.Method, took)
		})
	}
}
