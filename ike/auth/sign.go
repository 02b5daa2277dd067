package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"

	"cygnet/ike/wire"
)

// SignatureRules say which signatures a connection makes and accepts.
type SignatureRules struct {
	// Hashes is nil when SIGNATURE_HASH_ALGORITHMS did not go both ways: only the methods 1, 9, 10 and 11 are left. Else it is the peer's
	// list for signing and ours for verifying.
	Hashes []wire.HashID
	SHA1   bool // the configuration allows SHA-1 with method 1; with RFC 7427 it is never accepted (RFC 8247 section 3)
	PKCS1  bool // signing with method 14: RSASSA-PKCS1-v1_5 instead of RSASSA-PSS

	// PSSTrailer writes the trailer field of RSASSA-PSS out. DER leaves it out; FortiGate demands it.
	PSSTrailer bool
}

// Signed is a signature that was made.
type Signed struct {
	Auth   *wire.Auth
	Scheme string // "RSA-PSS with SHA2-512"
	Note   string // why the peer may refuse it and what to do then, or ""
}

// Sign makes AUTH over SignedOctets: RFC 7427 when the peer knows it, else methods 1, 9, 10 or 11. Nothing random goes into it: the same key and octets
// give the same signature. It belongs in a job.
func (k *PrivateKey) Sign(octets []byte, rules SignatureRules) (*Signed, *Fault) {
	s, method, note, f := k.public.choose(rules)
	if f != nil {
		return nil, f
	}
	signature, err := k.sign(s, octets)
	if err != nil {
		return nil, &Fault{Code: FaultOwnKey, Why: fmt.Sprintf("our %v does not sign by %v: %v", k.public, s, err), Setting: SettingLocal}
	}
	if method == wire.AuthDigitalSignature {
		id := algorithmID(s, rules.PSSTrailer)
		signature = slices.Concat([]byte{byte(len(id))}, id, signature)
	}
	return &Signed{&wire.Auth{Method: method, Data: signature}, s.String(), note}, nil
}

// choose finds the strongest scheme that fits the key and what the peer said.
func (k *PublicKey) choose(rules SignatureRules) (s scheme, m wire.AuthMethod, note string, f *Fault) {
	if rules.Hashes == nil {
		return k.chooseClassic(rules)
	}
	wants := []wire.HashID{wire.HashSHA512, wire.HashSHA384, wire.HashSHA256}
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		s.algorithm = rsaPSS
		if rules.PKCS1 {
			s.algorithm = rsaPKCS1
		}
	case *ecdsa.PublicKey: // the hash as long as the curve is best, then longer ones, which are truncated
		s.algorithm = ecdsaDER
		switch bits := key.Params().BitSize; {
		case bits <= 256:
			wants = []wire.HashID{wire.HashSHA256, wire.HashSHA384, wire.HashSHA512}
		case bits <= 384:
			wants = []wire.HashID{wire.HashSHA384, wire.HashSHA512, wire.HashSHA256}
		}
	case ed25519.PublicKey:
		s.algorithm = edDSA
		wants = []wire.HashID{wire.HashIdentity} // RFC 8420 section 2: to no peer that does not list it
	}
	for _, h := range wants {
		if slices.Contains(rules.Hashes, h) {
			s.hash = h
			if s.algorithm == rsaPSS {
				s.salt = hashRow(h).hash.Size()
			}
			return s, wire.AuthDigitalSignature, "", nil
		}
	}
	return s, 0, "", &Fault{
		Code:    FaultOwnKey,
		Why:     fmt.Sprintf("our %v signs with %s, the peer accepts %s", k, hashNames(wants), hashNames(rules.Hashes)),
		Hint:    "use a key of another kind here, or let the peer accept one of these hashes",
		Setting: SettingLocal,
	}
}

// chooseClassic is for peers without RFC 7427. What SHA-1 is good for they decide: the hash of method 1 is SHA-1 unless both sides know better
// (RFC 7296 section 3.8).
func (k *PublicKey) chooseClassic(rules SignatureRules) (scheme, wire.AuthMethod, string, *Fault) {
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		if rules.SHA1 {
			return scheme{algorithm: rsaPKCS1, hash: wire.HashSHA1}, wire.AuthRSASignature, "", nil
		}
		return scheme{algorithm: rsaPKCS1, hash: wire.HashSHA256}, wire.AuthRSASignature,
			"the peer does not know RFC 7427; if it refuses our RSA signature it takes SHA-1 alone: " + SettingSHA1 + ` = "yes" permits that`, nil
	case *ecdsa.PublicKey:
		for _, c := range classicECDSA {
			if c.bits == key.Params().BitSize {
				return scheme{algorithm: ecdsaRaw, hash: c.hash}, c.method, "", nil
			}
		}
	}
	return scheme{}, 0, "", &Fault{
		Code:    FaultOwnKey,
		Why:     fmt.Sprintf("our %v signs by RFC 7427 and RFC 8420 alone, which the peer does not know", k),
		Hint:    "use an RSA or ECDSA key for this peer",
		Setting: SettingLocal,
	}
}

// classicECDSA are the methods of RFC 4754.
var classicECDSA = []struct {
	method wire.AuthMethod
	bits   int
	hash   wire.HashID
}{
	{wire.AuthECDSA256, 256, wire.HashSHA256},
	{wire.AuthECDSA384, 384, wire.HashSHA384},
	{wire.AuthECDSA521, 521, wire.HashSHA512},
}

// sign needs no randomness: ECDSA draws its nonce, and PSS its salt, from key and message (RFC 6979; for PSS any salt will do).
func (k *PrivateKey) sign(s scheme, octets []byte) ([]byte, error) {
	if s.algorithm == edDSA {
		return k.signer.Sign(nil, octets, crypto.Hash(0))
	}
	hash, sum := s.digest(octets)
	switch s.algorithm {
	case rsaPSS:
		key := k.signer.(*rsa.PrivateKey)
		return rsa.SignPSS(saltReader(key, sum), key, hash, sum, &rsa.PSSOptions{SaltLength: s.salt})
	case ecdsaRaw:
		key := k.signer.(*ecdsa.PrivateKey)
		der, err := key.Sign(nil, sum, hash)
		if err != nil {
			return nil, err
		}
		return rawECDSA(der, key.Params().BitSize)
	}
	return k.signer.Sign(nil, sum, hash)
}

// saltReader is a stream that only the owner of the key can foretell.
func saltReader(key *rsa.PrivateKey, digest []byte) io.Reader {
	mac := hmac.New(sha512.New, key.D.Bytes())
	mac.Write([]byte("cygnet PSS salt"))
	mac.Write(digest)
	return bytes.NewReader(mac.Sum(nil)) // 64 octets: the longest salt
}

// rawECDSA turns SEQUENCE { r, s } into r | s of fixed length (RFC 4754 section 7).
func rawECDSA(der []byte, bits int) ([]byte, error) {
	in := cryptobyte.String(der)
	var body cryptobyte.String
	var r, s big.Int
	if !in.ReadASN1(&body, cbasn1.SEQUENCE) || !in.Empty() || !body.ReadASN1Integer(&r) || !body.ReadASN1Integer(&s) || !body.Empty() {
		return nil, errors.New("the signature is no SEQUENCE of two numbers")
	}
	n := (bits + 7) / 8
	raw := make([]byte, 2*n)
	r.FillBytes(raw[:n])
	s.FillBytes(raw[n:])
	return raw, nil
}

// IsSignature reports whether a method is one of those that VerifySignature knows.
func IsSignature(m wire.AuthMethod) bool {
	switch m {
	case wire.AuthRSASignature, wire.AuthECDSA256, wire.AuthECDSA384, wire.AuthECDSA521, wire.AuthDigitalSignature:
		return true
	}
	return false
}

// Hashes is what we list in SIGNATURE_HASH_ALGORITHMS, strongest first. Identity stands for Ed25519 (RFC 8420 section 2).
func Hashes() []wire.HashID {
	return []wire.HashID{wire.HashSHA512, wire.HashSHA384, wire.HashSHA256, wire.HashIdentity}
}

// ParseHashes reads the data of SIGNATURE_HASH_ALGORITHMS (RFC 7427 section 4). Unknown numbers come too; the result is nil only with an error.
func ParseHashes(data []byte) ([]wire.HashID, error) {
	if len(data)%2 != 0 {
		return nil, fmt.Errorf("SIGNATURE_HASH_ALGORITHMS of %d octets: it holds numbers of two octets", len(data))
	}
	list := make([]wire.HashID, 0, min(len(data)/2, maxHashes))
	for ; len(data) > 0 && len(list) < maxHashes; data = data[2:] {
		list = append(list, wire.HashID(binary.BigEndian.Uint16(data)))
	}
	return list, nil
}

// maxHashes is more than IANA will number soon; what a peer lists after them is not kept.
const maxHashes = 32

// AppendHashes builds the data of SIGNATURE_HASH_ALGORITHMS.
func AppendHashes(b []byte, list []wire.HashID) []byte {
	for _, h := range list {
		b = binary.BigEndian.AppendUint16(b, uint16(h))
	}
	return b
}

func hashNames(list []wire.HashID) string {
	if len(list) == 0 {
		return "none"
	}
	names := make([]string, len(list))
	for i, h := range list {
		names[i] = hashName(h)
	}
	return strings.Join(names, ", ")
}
