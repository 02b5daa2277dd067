package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"math/big"
	"slices"
	"strings"
	"testing"

	"cygnet/ike/wire"
)

var digestInfo256 = []byte{0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20}

// rsaProofs wraps a signature in both methods that take PKCS #1 v1.5.
func rsaProofs(t *testing.T, signature []byte) []*wire.Auth {
	return []*wire.Auth{
		{Method: wire.AuthRSASignature, Data: signature},
		{Method: wire.AuthDigitalSignature, Data: slices.Concat([]byte{15}, unhex(t, "300d06092a864886f70d01010b0500"), signature)},
	}
}

// CVE-2018-16151: what an owner of no key can make whose cube is right where a lenient verifier looks: garbage behind the hash, in the parameters, in the padding.
func TestCVE_2018_16151_Bleichenbacher(t *testing.T) {
	k := key(t, "rsa-e3")
	n := k.public.key.(*rsa.PublicKey).N.BitLen() / 8
	sum := sha256.Sum256(octetsToSign)
	refused := func(what string, signature []byte) {
		t.Helper()
		for _, proof := range rsaProofs(t, signature) {
			if _, f := VerifySignature(k.Public(), octetsToSign, proof, SignatureRules{Hashes: all, SHA1: true}); f == nil {
				t.Errorf("method %d: %s is accepted", proof.Method, what)
			}
		}
	}
	// The cube root of 00 01 ff.. 00 DigestInfo hash garbage, rounded up: its cube begins with all of that.
	prefix := slices.Concat([]byte{0, 1}, bytes.Repeat([]byte{0xff}, 8), []byte{0}, digestInfo256, sum[:])
	target := new(big.Int).SetBytes(append(bytes.Clone(prefix), make([]byte, n-len(prefix))...))
	root := cubeRoot(target)
	cube := new(big.Int).Exp(root, big.NewInt(3), nil).FillBytes(make([]byte, n))
	if !bytes.HasPrefix(cube, prefix) {
		t.Fatal("the forgery is none")
	}
	refused("garbage behind the hash", root.FillBytes(make([]byte, n)))

	// With the private key every encoding can be made that a lenient parser might let through.
	encoded := func(parts ...[]byte) []byte {
		tail := slices.Concat(parts...)
		return slices.Concat([]byte{0, 1}, bytes.Repeat([]byte{0xff}, n-3-len(tail)), []byte{0}, tail)
	}
	undo := func(em []byte) []byte {
		priv := k.signer.(*rsa.PrivateKey)
		return new(big.Int).Exp(new(big.Int).SetBytes(em), priv.D, priv.N).FillBytes(make([]byte, n))
	}
	right := undo(encoded(digestInfo256, sum[:]))
	for _, proof := range rsaProofs(t, right) {
		if _, f := VerifySignature(k.Public(), octetsToSign, proof, SignatureRules{Hashes: all}); f != nil {
			t.Fatalf("the right encoding is refused: %v", f)
		}
	}
	changed := func(at int, b byte) []byte {
		em := encoded(digestInfo256, sum[:])
		em[at] = b
		return undo(em)
	}
	start := n - len(digestInfo256) - len(sum)
	refused("another first octet", changed(0, 1))
	refused("block type 2", changed(1, 2))
	refused("block type 0", changed(1, 0))
	refused("a hole in the padding", changed(100, 0xfe))
	refused("no zero before DigestInfo", changed(start-1, 0xff))
	refused("a length in BER", undo(encoded([]byte{0x30, 0x81}, digestInfo256[1:], sum[:])))
	refused("a longer SEQUENCE", changed(start+1, 0x32))
	refused("a longer hash length", changed(start+18, 0x21))
	refused("no NULL", undo(encoded([]byte{0x30, 0x2f, 0x30, 0x0b}, digestInfo256[4:15], []byte{0x04, 0x20}, sum[:])))
	refused("parameters full of garbage", undo(encoded([]byte{0x30, 0x61, 0x30, 0x3d}, digestInfo256[4:15], []byte{0x05, 0x30}, make([]byte, 0x30), []byte{0x04, 0x20}, sum[:])))
	refused("the hash alone", undo(encoded(sum[:])))
	refused("half of the hash", undo(encoded(digestInfo256[:18], []byte{0x10}, sum[:16])))
	refused("an empty hash", undo(encoded(digestInfo256[:18], []byte{0})))
	refused("short padding and garbage", undo(slices.Concat(prefix, make([]byte, n-len(prefix)))))
}

func cubeRoot(n *big.Int) *big.Int {
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(n.BitLen()/3+2))
	for low.Cmp(high) < 0 {
		mid := new(big.Int).Add(low, high)
		mid.Rsh(mid, 1)
		if new(big.Int).Exp(mid, big.NewInt(3), nil).Cmp(n) < 0 {
			low = mid.Add(mid, big.NewInt(1))
		} else {
			high = mid
		}
	}
	return low
}

// Values that are out of range or of the wrong length (RFC 8017 section 8.2.2).
func TestRSAOutOfRange(t *testing.T) {
	k := key(t, "rsa-a")
	pub := k.public.key.(*rsa.PublicKey)
	n := pub.Size()
	signature, err := k.sign(scheme{algorithm: rsaPKCS1, hash: wire.HashSHA256}, octetsToSign)
	if err != nil {
		t.Fatal(err)
	}
	plusN := new(big.Int).Add(new(big.Int).SetBytes(signature), pub.N)
	for what, s := range map[string][]byte{
		"zero": make([]byte, n), "one": append(make([]byte, n-1), 1), "nothing": {}, "n": pub.N.Bytes(),
		"n-1":         new(big.Int).Sub(pub.N, big.NewInt(1)).Bytes(),
		"s+n":         plusN.Bytes(),
		"zero before": append([]byte{0}, signature...), "zero behind": append(bytes.Clone(signature), 0), "short": signature[1:],
		"huge": bytes.Repeat([]byte{0xff}, 60000),
	} {
		for _, proof := range rsaProofs(t, s) {
			if _, f := VerifySignature(k.Public(), octetsToSign, proof, SignatureRules{Hashes: all, SHA1: true}); f == nil {
				t.Errorf("method %d: %s is accepted", proof.Method, what)
			}
		}
		pss := algorithmID(scheme{rsaPSS, wire.HashSHA256, 32}, true)
		if _, f := VerifySignature(k.Public(), octetsToSign, &wire.Auth{Method: 14, Data: slices.Concat([]byte{byte(len(pss))}, pss, s)}, SignatureRules{Hashes: all}); f == nil {
			t.Errorf("PSS: %s is accepted", what)
		}
	}
}

// CVE-2021-41990: the salt that was made is the salt that is said.
func TestCVE_2021_41990_SaltLength(t *testing.T) {
	k := key(t, "rsa-a")
	priv := k.signer.(*rsa.PrivateKey)
	sum := sha256.Sum256(octetsToSign)
	object := algorithmID(scheme{rsaPSS, wire.HashSHA256, 32}, false)
	for _, salt := range []int{0, 1, 31, 32, 33, 64, 222} {
		s, err := rsa.SignPSS(zeros{}, priv, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: salt})
		if salt == 0 { // which means something else to crypto/rsa
			s, err = rsa.SignPSS(zeros{}, priv, crypto.SHA256, sum[:], &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto})
		}
		if err != nil {
			t.Fatal(err)
		}
		_, f := VerifySignature(k.Public(), octetsToSign, &wire.Auth{Method: 14, Data: slices.Concat([]byte{byte(len(object))}, object, s)}, SignatureRules{Hashes: all})
		if (f == nil) != (salt == 32) {
			t.Errorf("a salt of %d octets: %v", salt, f)
		}
	}
}

// CVE-2026-14957, CVE-2017-9022, CVE-2018-17540: RSA keys that are none are refused before anything is computed with them.
func TestTrap_CVE_3_RSAKeys(t *testing.T) {
	good := key(t, "rsa-a").public.key.(*rsa.PublicKey)
	even := new(big.Int).Sub(good.N, big.NewInt(1))
	large := new(big.Int).Lsh(big.NewInt(1), wire.MaxRSABits+1)
	large.Add(large, big.NewInt(1))
	for what, k := range map[string]*rsa.PublicKey{
		"exponent 0": {N: good.N, E: 0}, "exponent 1": {N: good.N, E: 1}, "exponent 2": {N: good.N, E: 2}, "even exponent": {N: good.N, E: 65538},
		"negative exponent": {N: good.N, E: -3}, "exponent of 2^31+1": {N: good.N, E: 1<<31 + 1},
		"modulus 0": {N: big.NewInt(0), E: 3}, "modulus 1": {N: big.NewInt(1), E: 3}, "negative modulus": {N: new(big.Int).Neg(good.N), E: 3},
		"even modulus": {N: even, E: 3}, "tiny modulus": {N: big.NewInt(15), E: 3}, "1024 bits": {N: new(big.Int).Rsh(good.N, 1024).SetBit(new(big.Int).Rsh(good.N, 1024), 0, 1), E: 3},
		"8194 bits": {N: large, E: 3},
	} {
		if _, err := newPublicKey(k); err == nil {
			t.Errorf("%s is a key", what)
		}
	}
	if _, err := newPublicKey(good); err != nil {
		t.Error(err)
	}
	if _, err := ParsePrivateKey(file(t, "rsa-1024")); err == nil || !strings.Contains(err.Error(), "1024 bits: from 2048 to 8192") {
		t.Errorf("a key of 1024 bits: %v", err)
	}
	k, err := ecdsa.GenerateKey(elliptic.P224(), zeros{})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []any{&k.PublicKey, nil, "key"} {
		if _, err := newPublicKey(bad); err == nil {
			t.Errorf("%T is a key", bad)
		}
	}
}
