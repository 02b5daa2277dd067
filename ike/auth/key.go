package auth

import (
	"crypto"
	"errors"
	"fmt"
)

// PrivateKey signs. It prints as "[private key]" in every format.
type PrivateKey struct {
	signer crypto.Signer
	public *PublicKey
}

// NewPrivateKey takes an RSA, ECDSA or Ed25519 key of this process.
func NewPrivateKey(s crypto.Signer) (*PrivateKey, error) { return nil, errors.New("not yet") }

// ParsePrivateKey reads the first private key of a PEM file: PKCS #1, SEC 1 or PKCS #8, not encrypted. Certificates beside it are passed over.
func ParsePrivateKey(pem []byte) (*PrivateKey, error) { return nil, errors.New("not yet") }

// Public is the other half.
func (k *PrivateKey) Public() *PublicKey { return k.public }

func (*PrivateKey) String() string               { return redactedKey }
func (*PrivateKey) GoString() string             { return redactedKey }
func (*PrivateKey) Format(f fmt.State, _ rune)   { f.Write([]byte(redactedKey)) }
func (*PrivateKey) MarshalText() ([]byte, error) { return []byte(redactedKey), nil }

const redactedKey = "[private key]"

// PublicKey is an RSA, ECDSA or Ed25519 key of a size that proves something: 2048 to 8192 bits with odd exponent, P-256, P-384, P-521.
type PublicKey struct {
	key  crypto.PublicKey
	spki []byte
}

// ParsePublicKeys reads the keys of a PEM file: PUBLIC KEY blocks, and those of certificates.
func ParsePublicKeys(pem []byte) ([]*PublicKey, error) { return nil, errors.New("not yet") }

// SPKI is the DER of SubjectPublicKeyInfo, as RFC 7670 sends it.
func (k *PublicKey) SPKI() []byte { return k.spki }

// Equal compares keys.
func (k *PublicKey) Equal(o *PublicKey) bool { return string(k.spki) == string(o.spki) }

// String says kind and fingerprint.
func (k *PublicKey) String() string { return "" }
