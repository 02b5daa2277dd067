package alg

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"

	"golang.org/x/crypto/chacha20poly1305"
)

// saltLen and ivLen make up the 12-octet nonce of AES-GCM (RFC 4106 section 4) and ChaCha20-Poly1305 (RFC 7634 section 2): salt | IV.
const (
	saltLen = 4
	ivLen   = 8
)

// AEAD is an AEAD cipher under one key with its salt. It holds a scratch nonce, so that sealing and opening allocate nothing; it is
// therefore not safe for concurrent use. It does not count: that an IV is used once is its caller's duty.
type AEAD struct {
	aead  cipher.AEAD
	nonce [saltLen + ivLen]byte
}

// NewAEAD makes an AEAD from key | salt, as keying material holds it. The key is copied.
func NewAEAD(id Encr, key Secret) (*AEAD, error) {
	c, ok := CipherByID(id)
	if !ok || !c.AEAD() {
		return nil, fmt.Errorf("encryption algorithm %d is not an AEAD that is implemented", id)
	}
	n := key.Len() - c.Salt
	if _, err := c.keyBits(8 * n); err != nil {
		return nil, fmt.Errorf("%s: key and salt of %d octets: %w", c.Label, key.Len(), err)
	}
	a := new(AEAD)
	copy(a.nonce[:], key.Bytes()[n:])
	var err error
	switch id {
	case EncrAESGCM16:
		var b cipher.Block
		if b, err = aes.NewCipher(key.Bytes()[:n]); err == nil {
			a.aead, err = cipher.NewGCM(b)
		}
	case EncrChaCha20Poly1305:
		a.aead, err = chacha20poly1305.New(key.Bytes()[:n])
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Label, err)
	}
	return a, nil
}

// Seal appends ciphertext and ICV to dst. iv has 8 octets and must never have been used with this key. The overlap rules are those
// of crypto/cipher.
func (a *AEAD) Seal(dst, iv, plaintext, aad []byte) []byte {
	copy(a.nonce[saltLen:], iv[:ivLen])
	return a.aead.Seal(dst, a.nonce[:], plaintext, aad)
}

// Open checks the ICV at the end of ciphertext and appends the plaintext to dst. iv has 8 octets.
func (a *AEAD) Open(dst, iv, ciphertext, aad []byte) ([]byte, error) {
	copy(a.nonce[saltLen:], iv[:ivLen])
	return a.aead.Open(dst, a.nonce[:], ciphertext, aad)
}

// NewHMAC makes the HMAC of an integrity algorithm. Its sum has the hash's whole length; what is sent is the first MAC.ICV octets of
// it. The key is copied.
func NewHMAC(id Integ, key Secret) (hash.Hash, error) {
	m, ok := MACByID(id)
	if !ok {
		return nil, fmt.Errorf("integrity algorithm %d is not implemented", id)
	}
	if key.Len() != m.Key { // RFC 4868 section 2.1.1: no other length
		return nil, fmt.Errorf("%s: key of %d octets, want %d", m.Label, key.Len(), m.Key)
	}
	return hmac.New(m.hash(), key.Bytes()), nil
}

func (m *MAC) hash() func() hash.Hash {
	switch m.ID {
	case IntegSHA256_128:
		return sha256.New
	case IntegSHA384_192:
		return sha512.New384
	case IntegSHA512_256:
		return sha512.New
	default: // the only one left in the table
		return sha1.New
	}
}

// NewBlock makes the block cipher under AES-CBC. The key is copied.
func NewBlock(id Encr, key Secret) (cipher.Block, error) {
	c, ok := CipherByID(id)
	if !ok || c.AEAD() {
		return nil, fmt.Errorf("encryption algorithm %d is not a block cipher that is implemented", id)
	}
	if _, err := c.keyBits(8 * key.Len()); err != nil {
		return nil, err
	}
	return aes.NewCipher(key.Bytes())
}
