// Package suite turns negotiated transforms into keys and protected messages: prf and prf+, the key schedule of RFC 7296
// sections 2.13 to 2.18, the key exchange methods, sealing and opening of SK and SKF payloads. It draws randomness only
// from the reader it is given and does no I/O.
package suite

import (
	"io"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// IKE is the suite of an IKE SA.
type IKE struct {
	Encr    alg.Encr
	KeyBits int
	Integ   alg.Integ // IntegNone with AEAD
	PRF     wire.PRFID
	Group   wire.GroupID
}

// String is like "AES-GCM-256, SHA2-256, MODP-2048".
func (s IKE) String() string { panic("contract") }

// KeyExchange is one party's half of a key exchange; use once.
type KeyExchange struct{}

// NewKeyExchange draws a private value from rand and computes the public one. It is slow for MODP: run it in a job.
func NewKeyExchange(g wire.GroupID, rand io.Reader) (*KeyExchange, error) { panic("contract") }

// Public returns the octets of the KE payload.
func (k *KeyExchange) Public() []byte { panic("contract") }

// Shared checks the peer's public value (RFC 6989) and returns the shared secret at its fixed length. Slow: run it in a job.
func (k *KeyExchange) Shared(peer []byte) (alg.Secret, error) { panic("contract") }

// Wipe forgets the private value.
func (k *KeyExchange) Wipe() {}

// Supported reports whether a key exchange method is implemented.
func Supported(g wire.GroupID) bool { panic("contract") }

// Keys of an IKE SA (RFC 7296 section 2.14).
type Keys struct {
	Suite                     IKE
	D, Ai, Ar, Ei, Er, Pi, Pr alg.Secret
}

// Derive makes the keys of a new IKE SA.
func Derive(s IKE, shared alg.Secret, ni, nr []byte, spii, spir wire.SPI) (*Keys, error) {
	panic("contract")
}

// DeriveRekey makes the keys of an IKE SA that replaces old (RFC 7296 section 2.18).
func (old *Keys) DeriveRekey(s IKE, shared alg.Secret, ni, nr []byte, spii, spir wire.SPI) (*Keys, error) {
	panic("contract")
}

// Wipe forgets all keys.
func (k *Keys) Wipe() { panic("contract") }

// ChildKeys holds the keys of a Child SA pair, each direction encryption (with salt) and integrity.
type ChildKeys struct{ EncrI2R, IntegI2R, EncrR2I, IntegR2I alg.Secret }

// Child makes KEYMAT (RFC 7296 section 2.17). shared is empty without PFS. encrLen (key + salt) and integLen are in octets.
// I2R is from the initiator of the exchange that made the child.
func (k *Keys) Child(shared alg.Secret, ni, nr []byte, encrLen, integLen int) (*ChildKeys, error) {
	panic("contract")
}

// PRF computes prf(key, data...).
func PRF(id wire.PRFID, key []byte, data ...[]byte) []byte { panic("contract") }

// Protector seals one side's messages and opens the other's. The AEAD IV counter lives in it.
type Protector struct{}

// NewProtector: initiator says whether this side is the original initiator of the IKE SA.
func NewProtector(k *Keys, initiator bool) (*Protector, error) { panic("contract") }

// Seal returns the whole protected message: header h (Length and NextPayload are set here), one SK payload over plaintext,
// whose first payload is of type first. CBC IVs come from rand.
func (p *Protector) Seal(h wire.Header, first wire.PayloadType, plaintext []byte, rand io.Reader) ([]byte, error) {
	panic("contract")
}

// Open checks the ICV of a message that wire.Decode has accepted and that ends in an SK payload, and returns the plaintext with
// padding removed. msg is the whole message from the IKE header on; it is not changed.
func (p *Protector) Open(msg []byte, sk *wire.SK) ([]byte, error) { panic("contract") }
