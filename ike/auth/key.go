package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"cygnet/ike/wire"
)

// PrivateKey signs. It prints as "[private key]" in every format.
type PrivateKey struct {
	signer crypto.Signer
	public *PublicKey
}

// NewPrivateKey takes an RSA, ECDSA or Ed25519 key that this process holds.
func NewPrivateKey(s crypto.Signer) (*PrivateKey, error) {
	switch k := s.(type) {
	case *rsa.PrivateKey, *ecdsa.PrivateKey:
		if reflect.ValueOf(k).IsNil() {
			return nil, errors.New("no private key")
		}
	case ed25519.PrivateKey:
		if len(k) != ed25519.PrivateKeySize {
			return nil, fmt.Errorf("an Ed25519 private key of %d octets, it has %d", len(k), ed25519.PrivateKeySize)
		}
	default:
		return nil, fmt.Errorf("a private key of type %T: RSA, ECDSA and Ed25519 sign", s)
	}
	public, err := newPublicKey(s.Public())
	if err != nil {
		return nil, err
	}
	return &PrivateKey{s, public}, nil
}

// Public is the other half.
func (k *PrivateKey) Public() *PublicKey { return k.public }

func (*PrivateKey) String() string               { return redactedKey }
func (*PrivateKey) GoString() string             { return redactedKey }
func (*PrivateKey) Format(f fmt.State, _ rune)   { f.Write([]byte(redactedKey)) }
func (*PrivateKey) MarshalText() ([]byte, error) { return []byte(redactedKey), nil }

const redactedKey = "[private key]"

// ParsePrivateKey reads the private key of a PEM file: PKCS #1, SEC 1 or PKCS #8, not encrypted. Certificates and parameters beside it are passed
// over; two keys are one too many.
func ParsePrivateKey(data []byte) (*PrivateKey, error) {
	var found *PrivateKey
	var others []string
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			others = append(others, block.Type)
			continue
		}
		key, err := parsePrivateBlock(block)
		clear(block.Bytes)
		if err != nil {
			return nil, err
		}
		if found != nil {
			return nil, errors.New("the file holds two private keys; keep one")
		}
		found = key
	}
	switch {
	case found != nil:
		return found, nil
	case len(others) > 0:
		return nil, fmt.Errorf(`the file holds %s but no private key; a private key begins with "-----BEGIN PRIVATE KEY-----"`, listBlocks(others))
	case bytes.Contains(data, []byte("BEGIN OPENSSH PRIVATE KEY")):
		return nil, errors.New(opensshKey)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("the file is empty")
	}
	return nil, errors.New(`no PEM block; a private key begins with "-----BEGIN PRIVATE KEY-----" (to convert from DER: openssl pkey -inform DER -in FILE -out NEWFILE)`)
}

const (
	opensshKey   = "the key is in OpenSSH's own format; convert a copy of it with: ssh-keygen -p -m PKCS8 -f FILE"
	encryptedKey = "the private key is encrypted, and nobody can type a passphrase when a gateway starts; remove it with: openssl pkey -in FILE -out NEWFILE, and keep NEWFILE readable by its owner alone"
)

func parsePrivateBlock(block *pem.Block) (*PrivateKey, error) {
	if block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
		return nil, errors.New(encryptedKey)
	}
	var key any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "OPENSSH PRIVATE KEY":
		return nil, errors.New(opensshKey)
	default:
		return nil, fmt.Errorf("a %s: RSA, ECDSA and Ed25519 keys are supported", text(block.Type))
	}
	if err != nil {
		return nil, fmt.Errorf("the %s block cannot be read: %s", text(block.Type), text(err.Error()))
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key is for key exchange (%T) and does not sign", key)
	}
	return NewPrivateKey(signer)
}

// PublicKey is an RSA, ECDSA or Ed25519 key of a size that proves something: a modulus of 2048 to 8192 bits with odd exponent, P-256, P-384, P-521.
type PublicKey struct {
	key  crypto.PublicKey
	spki []byte
}

// newPublicKey refuses keys that prove nothing. They come from certificates of strangers, too.
func newPublicKey(key crypto.PublicKey) (*PublicKey, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	spki, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, fmt.Errorf("a key that cannot be encoded: %w", err)
	}
	return &PublicKey{key, spki}, nil
}

func checkKey(key crypto.PublicKey) error {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return checkRSA(k)
	case *ecdsa.PublicKey:
		if k.Curve == elliptic.P256() || k.Curve == elliptic.P384() || k.Curve == elliptic.P521() {
			return nil
		}
		return fmt.Errorf("an ECDSA key on %s: only P-256, P-384 and P-521 are used in IKEv2", k.Params().Name)
	case ed25519.PublicKey:
		return nil
	case nil:
		return errors.New("a key of unknown kind: RSA, ECDSA and Ed25519 are supported")
	}
	return fmt.Errorf("a key of kind %T: RSA, ECDSA and Ed25519 are supported", key)
}

// checkRSA does not leave to others what made their implementations divide by zero, assert or accept any signature: moduli and exponents that are zero, even or
// tiny (CVE-2017-9022, CVE-2018-17540, CVE-2026-14957). crypto/rsa has its own checks behind these.
func checkRSA(k *rsa.PublicKey) error {
	bits := k.N.BitLen()
	switch {
	case k.N.Sign() <= 0 || k.N.Bit(0) == 0:
		return errors.New("an RSA key whose modulus is no product of two odd primes")
	case bits < wire.MinRSABits || bits > wire.MaxRSABits:
		return fmt.Errorf("an RSA key of %d bits: from %d to %d are accepted", bits, wire.MinRSABits, wire.MaxRSABits)
	case k.E < 3 || k.E&1 == 0 || int64(k.E) >= 1<<31:
		return fmt.Errorf("an RSA key with exponent %d: odd ones from 3 to 2147483647 are accepted", k.E)
	}
	return nil
}

// ParsePublicKeys reads the keys of a PEM file: PUBLIC KEY blocks, and the keys of certificates.
func ParsePublicKeys(data []byte) ([]*PublicKey, error) {
	var keys []*PublicKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		n := len(keys) + 1
		var key *PublicKey
		var err error
		switch block.Type {
		case "PUBLIC KEY":
			key, err = parseSPKI(block.Bytes)
		case "CERTIFICATE":
			var c *x509.Certificate
			if c, err = x509.ParseCertificate(block.Bytes); err == nil {
				key, err = newPublicKey(c.PublicKey)
			}
		default:
			err = fmt.Errorf(`a %s block is no public key, which begins with "-----BEGIN PUBLIC KEY-----"`, text(block.Type))
			if strings.HasSuffix(block.Type, "PRIVATE KEY") {
				err = errors.New("a private key stands where the peer's public key belongs; write the public half with: openssl pkey -in FILE -pubout")
			}
		}
		if err != nil {
			return nil, fmt.Errorf("key %d of the file: %w", n, err)
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errors.New(`no PEM block; a public key begins with "-----BEGIN PUBLIC KEY-----"`)
	}
	return keys, nil
}

// parseSPKI reads a SubjectPublicKeyInfo (RFC 5280 section 4.1).
func parseSPKI(der []byte) (*PublicKey, error) {
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, fmt.Errorf("the public key cannot be read: %s", text(err.Error()))
	}
	return newPublicKey(key)
}

// SPKI is the DER of SubjectPublicKeyInfo, as RFC 7670 sends it. The caller does not change it.
func (k *PublicKey) SPKI() []byte { return k.spki }

// Equal compares keys.
func (k *PublicKey) Equal(o *PublicKey) bool { return bytes.Equal(k.spki, o.spki) }

// Kind is "RSA 3072", "ECDSA P-256" or "Ed25519".
func (k *PublicKey) Kind() string {
	switch key := k.key.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", key.N.BitLen())
	case *ecdsa.PublicKey:
		return "ECDSA " + key.Params().Name
	}
	return "Ed25519"
}

// String is the kind and the first 8 octets of the SHA-256 of SPKI: enough to tell keys apart.
func (k *PublicKey) String() string {
	sum := sha256.Sum256(k.spki)
	return fmt.Sprintf("%s key %x", k.Kind(), sum[:8])
}

// text makes what a stranger wrote printable and bounds it.
func text(s string) string { return string(wire.NewText([]byte(s))) }

func listBlocks(types []string) string {
	counts := make(map[string]int)
	var words []string
	for _, t := range types {
		if counts[t]++; counts[t] == 1 {
			words = append(words, text(t))
		}
	}
	return strings.Join(words, ", ")
}
