package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"fmt"
	"math/big"
	"slices"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"cygnet/ike/wire"
)

// maxSignature is that of RSA with 8192 bits.
const maxSignature = wire.MaxRSABits / 8

// VerifySignature checks AUTH over the peer's SignedOctets and names the scheme, also of one that does not verify.
func VerifySignature(key *PublicKey, octets []byte, proof *wire.Auth, rules SignatureRules) (name string, f *Fault) {
	s, signature, f := readProof(key, octets, proof, rules)
	if f != nil {
		return "", f
	}
	if !key.verify(s, octets, signature) {
		return s.String(), &Fault{
			Code: FaultSignature,
			Why:  fmt.Sprintf("the peer's signature (%v, method %d) does not fit its %v", s, proof.Method, key),
			Hint: "the peer signs with another key than that of its certificate, or something between us changes IKE messages",
		}
	}
	return s.String(), nil
}

// readProof finds out what is said to be signed how, and whether that is acceptable; the signature is not looked at.
func readProof(key *PublicKey, octets []byte, proof *wire.Auth, rules SignatureRules) (scheme, []byte, *Fault) {
	switch proof.Method {
	case wire.AuthDigitalSignature:
		return readDigital(key, proof.Data, rules)
	case wire.AuthRSASignature:
		if rsaKey, ok := key.key.(*rsa.PublicKey); ok {
			return readRSA(rsaKey, octets, proof.Data, rules)
		}
		return scheme{}, nil, unfit(key, "RSA (method 1)")
	}
	for _, c := range classicECDSA {
		if c.method != proof.Method {
			continue
		}
		s := scheme{algorithm: ecdsaRaw, hash: c.hash}
		name := fmt.Sprintf("ECDSA with P-%d (method %d)", c.bits, c.method)
		if k, ok := key.key.(*ecdsa.PublicKey); !ok || k.Params().BitSize != c.bits {
			return scheme{}, nil, unfit(key, name)
		}
		if want := 2 * ((c.bits + 7) / 8); len(proof.Data) != want { // RFC 4754 section 7
			return scheme{}, nil, &Fault{Code: FaultSignature, Why: fmt.Sprintf("the peer's signature by %s has %d octets, not %d", name, len(proof.Data), want)}
		}
		return s, proof.Data, nil
	}
	return scheme{}, nil, &Fault{
		Code: FaultMethod,
		Why:  fmt.Sprintf("the peer proves itself by method %d, we want a signature", proof.Method),
		Hint: "set the peer to authenticate itself by certificate or public key",
	}
}

func unfit(key *PublicKey, what string) *Fault {
	return &Fault{Code: FaultSignature, Why: fmt.Sprintf("the peer signs by %s, its key is %v", what, key)}
}

// readDigital reads length | AlgorithmIdentifier | signature (RFC 7427 section 3).
func readDigital(key *PublicKey, data []byte, rules SignatureRules) (scheme, []byte, *Fault) {
	method := func(why string) *Fault {
		return &Fault{Code: FaultMethod, Why: "the peer's signature by method 14: " + why}
	}
	if rules.Hashes == nil {
		return scheme{}, nil, method("RFC 7427 was not agreed on in IKE_SA_INIT")
	}
	if len(data) == 0 || int(data[0]) > len(data)-1 {
		return scheme{}, nil, method("its algorithm is longer than the payload")
	}
	end := 1 + int(data[0]) // an octet of 255 plus one is 256
	s, err := parseAlgorithm(data[1:end])
	if err != nil {
		return scheme{}, nil, method(err.Error())
	}
	switch {
	case s.hash == wire.HashSHA1:
		f := method(fmt.Sprintf("%v is not accepted, with no configuration (RFC 8247 section 3)", s))
		f.Hint = "let the peer sign with SHA2-256 or better"
		return scheme{}, nil, f
	case !slices.Contains(rules.Hashes, s.hash): // section 4: one that the other side listed
		return scheme{}, nil, method(fmt.Sprintf("%v, we listed %s", s, hashNames(rules.Hashes)))
	}
	fits := false
	switch key.key.(type) {
	case *rsa.PublicKey:
		fits = s.algorithm == rsaPKCS1 || s.algorithm == rsaPSS
	case *ecdsa.PublicKey:
		fits = s.algorithm == ecdsaDER
	case ed25519.PublicKey:
		fits = s.algorithm == edDSA
	}
	if !fits {
		return scheme{}, nil, unfit(key, s.String())
	}
	return s, data[end:], nil
}

// readRSA finds the hash of method 1. The default is SHA-1, and peers that know better use another without a word (RFC 7296 section 3.8), so the hash is whichever verifies;
// all of them are tried against one and the same encoding, which crypto/rsa builds and compares as a whole: nothing is parsed out of a decrypted signature.
func readRSA(key *rsa.PublicKey, octets, signature []byte, rules SignatureRules) (scheme, []byte, *Fault) {
	for _, h := range []wire.HashID{wire.HashSHA256, wire.HashSHA384, wire.HashSHA512, wire.HashSHA1} {
		s := scheme{algorithm: rsaPKCS1, hash: h}
		if !verifyRSA(key, s, octets, signature) {
			continue
		}
		if h == wire.HashSHA1 && !rules.SHA1 {
			return scheme{}, nil, &Fault{
				Code:    FaultMethod,
				Why:     "the peer signs by RSA with SHA-1 (method 1), which the configuration does not allow",
				Hint:    "let the peer use RFC 7427 or SHA2; for one that can do neither, " + SettingSHA1 + ` = "yes" permits SHA-1`,
				Setting: SettingSHA1,
			}
		}
		return s, signature, nil
	}
	return scheme{algorithm: rsaPKCS1, hash: wire.HashSHA256}, signature, nil // which VerifySignature will refuse
}

func (k *PublicKey) verify(s scheme, octets, signature []byte) bool {
	if len(signature) == 0 || len(signature) > maxSignature {
		return false
	}
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		return verifyRSA(key, s, octets, signature)
	case *ecdsa.PublicKey:
		return verifyECDSA(key, s, octets, signature)
	case ed25519.PublicKey:
		return s.algorithm == edDSA && ed25519.Verify(key, octets, signature)
	}
	return false
}

func verifyRSA(key *rsa.PublicKey, s scheme, octets, signature []byte) bool {
	hash, sum := s.digest(octets)
	switch s.algorithm {
	case rsaPKCS1:
		return rsa.VerifyPKCS1v15(key, hash, sum, signature) == nil
	case rsaPSS:
		return rsa.VerifyPSS(key, hash, sum, signature, &rsa.PSSOptions{SaltLength: s.salt}) == nil
	}
	return false
}

func verifyECDSA(key *ecdsa.PublicKey, s scheme, octets, signature []byte) bool {
	_, sum := s.digest(octets)
	switch s.algorithm {
	case ecdsaDER:
		return ecdsa.VerifyASN1(key, sum, signature)
	case ecdsaRaw:
		n := len(signature) / 2
		var b cryptobyte.Builder
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1BigInt(new(big.Int).SetBytes(signature[:n]))
			b.AddASN1BigInt(new(big.Int).SetBytes(signature[n:]))
		})
		return ecdsa.VerifyASN1(key, sum, b.BytesOrPanic())
	}
	return false
}
