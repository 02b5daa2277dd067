package auth

import (
	"crypto"
	_ "crypto/sha1" // registers SHA-1, which method 1 uses where the configuration allows it
	_ "crypto/sha256"
	_ "crypto/sha512"
	"encoding/asn1"
	"errors"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"cygnet/ike/wire"
)

// algorithm is the family of a signature.
type algorithm uint8

const (
	rsaPKCS1 algorithm = iota + 1
	rsaPSS
	ecdsaDER // SEQUENCE { r, s } of RFC 7427
	ecdsaRaw // r | s of RFC 4754
	edDSA
)

// scheme is a signature algorithm with its hash.
type scheme struct {
	algorithm algorithm
	hash      wire.HashID
	salt      int // of PSS, in octets
}

func (s scheme) String() string {
	switch s.algorithm {
	case rsaPKCS1:
		return "RSA PKCS #1 v1.5 with " + hashName(s.hash)
	case rsaPSS:
		return "RSA-PSS with " + hashName(s.hash)
	case ecdsaDER, ecdsaRaw:
		return "ECDSA with " + hashName(s.hash)
	case edDSA:
		return "Ed25519"
	}
	return "no signature"
}

func (s scheme) digest(octets []byte) (crypto.Hash, []byte) {
	h := hashRow(s.hash).hash
	state := h.New()
	state.Write(octets)
	return h, state.Sum(nil)
}

// hash is a hash algorithm with its numbers.
type hash struct {
	id   wire.HashID
	hash crypto.Hash
	name string
	oid  asn1.ObjectIdentifier // of the hash itself, in PSS parameters
	rsa  asn1.ObjectIdentifier // with RSASSA-PKCS1-v1_5 (RFC 8017 appendix A.2.4)
	ec   asn1.ObjectIdentifier // with ECDSA (RFC 5758 section 3.2)
}

// hashes are those of IANA's "IKEv2 Hash Algorithms" that sign something here.
var hashes = []hash{
	{wire.HashSHA1, crypto.SHA1, "SHA-1", asn1.ObjectIdentifier{1, 3, 14, 3, 2, 26}, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 5}, asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 1}},
	{wire.HashSHA256, crypto.SHA256, "SHA2-256", asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 11}, asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}},
	{wire.HashSHA384, crypto.SHA384, "SHA2-384", asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 2}, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 12}, asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 3}},
	{wire.HashSHA512, crypto.SHA512, "SHA2-512", asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 3}, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 13}, asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 4}},
}

var (
	oidPSS     = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}
	oidMGF1    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 8}
	oidEd25519 = asn1.ObjectIdentifier{1, 3, 101, 112}
	oidEd448   = asn1.ObjectIdentifier{1, 3, 101, 113}
)

// hashRow is the zero hash for a number that signs nothing here.
func hashRow(id wire.HashID) hash {
	for _, h := range hashes {
		if h.id == id {
			return h
		}
	}
	return hash{}
}

func hashName(id wire.HashID) string {
	if name := hashRow(id).name; name != "" {
		return name
	}
	if id == wire.HashIdentity {
		return "Identity"
	}
	return fmt.Sprintf("hash %d", id)
}

// parseAlgorithm reads the AlgorithmIdentifier of method 14 (RFC 7427 appendix A). Parameters of PKCS #1 v1.5 are NULL; absent ones, which RFC 8017
// tells receivers to take, and NULL ones with ECDSA, which some peers send, are let through: neither changes what is verified.
func parseAlgorithm(der []byte) (scheme, error) {
	in := cryptobyte.String(der)
	var body cryptobyte.String
	var oid asn1.ObjectIdentifier
	if !in.ReadASN1(&body, cbasn1.SEQUENCE) || !in.Empty() || !body.ReadASN1ObjectIdentifier(&oid) {
		return scheme{}, errors.New("it is no AlgorithmIdentifier")
	}
	if oid.Equal(oidPSS) {
		return parsePSS(body)
	}
	plain := body.Empty() || string(body) == "\x05\x00"
	for _, h := range hashes {
		switch {
		case oid.Equal(h.rsa) && plain:
			return scheme{algorithm: rsaPKCS1, hash: h.id}, nil
		case oid.Equal(h.ec) && plain:
			return scheme{algorithm: ecdsaDER, hash: h.id}, nil
		case oid.Equal(h.rsa), oid.Equal(h.ec):
			return scheme{}, errors.New("the algorithm has parameters, and should have none")
		}
	}
	switch {
	case oid.Equal(oidEd25519) && body.Empty(): // RFC 8420 appendix A.1: parameters MUST be absent
		return scheme{algorithm: edDSA, hash: wire.HashIdentity}, nil
	case oid.Equal(oidEd25519):
		return scheme{}, errors.New("Ed25519 has parameters, and should have none")
	case oid.Equal(oidEd448):
		return scheme{}, errors.New("it is Ed448, which is not supported")
	}
	return scheme{}, fmt.Errorf("the algorithm %s is not known", text(oid.String()))
}

// parsePSS reads RSASSA-PSS-params (RFC 8017 appendix A.2.3). Each default in it means SHA-1 or its length, so nothing may be left out but the trailer
// field, which peers do send (1, the only value).
func parsePSS(body cryptobyte.String) (scheme, error) {
	if body.Empty() || string(body) == "\x05\x00" {
		return scheme{}, errors.New("RSASSA-PSS without parameters means SHA-1, which is not accepted (RFC 8247 section 3.2)")
	}
	var params, hash, mgf, salt, trailer cryptobyte.String
	var hasHash, hasMGF, hasSalt, hasTrailer bool
	tag := func(n uint8) cbasn1.Tag { return cbasn1.Tag(n).Constructed().ContextSpecific() }
	if !body.ReadASN1(&params, cbasn1.SEQUENCE) || !body.Empty() ||
		!params.ReadOptionalASN1(&hash, &hasHash, tag(0)) || !params.ReadOptionalASN1(&mgf, &hasMGF, tag(1)) ||
		!params.ReadOptionalASN1(&salt, &hasSalt, tag(2)) || !params.ReadOptionalASN1(&trailer, &hasTrailer, tag(3)) || !params.Empty() {
		return scheme{}, errors.New("the parameters of RSASSA-PSS cannot be read")
	}
	if !hasHash || !hasMGF {
		return scheme{}, errors.New("RSASSA-PSS with default parameters means SHA-1, which is not accepted (RFC 8247 section 3.2)")
	}
	s := scheme{algorithm: rsaPSS, salt: 20}
	var ok bool
	if s.hash, ok = readHash(&hash); !ok || !hash.Empty() {
		return scheme{}, errors.New("RSASSA-PSS names a hash that is not known")
	}
	var mgfBody cryptobyte.String
	var mgfOID asn1.ObjectIdentifier
	if !mgf.ReadASN1(&mgfBody, cbasn1.SEQUENCE) || !mgf.Empty() || !mgfBody.ReadASN1ObjectIdentifier(&mgfOID) || !mgfOID.Equal(oidMGF1) {
		return scheme{}, errors.New("RSASSA-PSS has a mask generation function other than MGF1")
	}
	mgfHash, ok := readHash(&mgfBody)
	if !ok || !mgfBody.Empty() || mgfHash != s.hash {
		return scheme{}, fmt.Errorf("RSASSA-PSS with %s has another hash in MGF1", hashName(s.hash))
	}
	if hasSalt && (!salt.ReadASN1Integer(&s.salt) || !salt.Empty()) {
		return scheme{}, errors.New("RSASSA-PSS has a salt length that is no number")
	}
	if n := hashRow(s.hash).hash.Size(); s.salt != n { // RFC 8247 section 3.2 has no other; huge and negative ones broke others (CVE-2021-41990)
		return scheme{}, fmt.Errorf("RSASSA-PSS with %s has a salt of %d octets, and should have %d", hashName(s.hash), s.salt, n)
	}
	field := 1
	if hasTrailer && (!trailer.ReadASN1Integer(&field) || !trailer.Empty() || field != 1) {
		return scheme{}, errors.New("RSASSA-PSS has a trailer field other than 1")
	}
	return s, nil
}

// readHash reads the AlgorithmIdentifier of a hash, whose parameters are NULL or absent (RFC 8017 appendix A.2.1).
func readHash(in *cryptobyte.String) (wire.HashID, bool) {
	var body cryptobyte.String
	var oid asn1.ObjectIdentifier
	if !in.ReadASN1(&body, cbasn1.SEQUENCE) || !body.ReadASN1ObjectIdentifier(&oid) || !body.Empty() && string(body) != "\x05\x00" {
		return 0, false
	}
	for _, h := range hashes {
		if oid.Equal(h.oid) {
			return h.id, true
		}
	}
	return 0, false
}

// algorithmID is the object that we send: parameters as RFC 7427 appendix A and RFC 8420 appendix A have them, NULL with PKCS #1 v1.5 and with hashes, absent with ECDSA
// and Ed25519. trailer writes the trailer field of PSS out, which DER forbids and some peers demand.
func algorithmID(s scheme, trailer bool) []byte {
	var b cryptobyte.Builder
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		switch s.algorithm {
		case rsaPSS:
			b.AddASN1ObjectIdentifier(oidPSS)
			b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) { addPSS(b, s, trailer) })
		case edDSA:
			b.AddASN1ObjectIdentifier(oidEd25519)
		case rsaPKCS1:
			b.AddASN1ObjectIdentifier(hashRow(s.hash).rsa)
			b.AddASN1NULL()
		case ecdsaDER:
			b.AddASN1ObjectIdentifier(hashRow(s.hash).ec)
		}
	})
	return b.BytesOrPanic() // it holds no more than constants
}

func addPSS(b *cryptobyte.Builder, s scheme, trailer bool) {
	tag := func(n uint8) cbasn1.Tag { return cbasn1.Tag(n).Constructed().ContextSpecific() }
	hash := func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(hashRow(s.hash).oid)
			b.AddASN1NULL()
		})
	}
	b.AddASN1(tag(0), hash)
	b.AddASN1(tag(1), func(b *cryptobyte.Builder) {
		b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
			b.AddASN1ObjectIdentifier(oidMGF1)
			hash(b)
		})
	})
	b.AddASN1(tag(2), func(b *cryptobyte.Builder) { b.AddASN1Int64(int64(s.salt)) })
	if trailer {
		b.AddASN1(tag(3), func(b *cryptobyte.Builder) { b.AddASN1Int64(1) })
	}
}
