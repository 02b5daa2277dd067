package suite

import (
	"errors"
	"fmt"
	"io"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// ErrPublicValue is wrapped by the errors of Shared about the peer's public value: one of wrong length, or that RFC 6989 refuses.
var ErrPublicValue = errors.New("bad public value")

var errWiped = errors.New("key exchange: the private value is gone")

// KeyExchange is one party's half of a key exchange; use once. It has one owner at a time: who hands it to a job neither uses nor wipes it
// until the job gives it back.
type KeyExchange struct {
	method  method
	public  []byte
	private private // nil after Wipe
}

// private is the private half of one method.
type private interface {
	// shared computes the secret with a public value that has the right length.
	shared(peer []byte) ([]byte, error)
	wipe()
}

// NewKeyExchange draws a private value from rand and computes the public one. It is slow for MODP: run it in a job.
func NewKeyExchange(g wire.GroupID, rand io.Reader) (*KeyExchange, error) {
	m, ok := methodByID(g)
	if !ok {
		return nil, fmt.Errorf("key exchange %s is not implemented", DHName(g))
	}
	priv, pub, err := m.draw(rand)
	if err != nil {
		return nil, fmt.Errorf("key exchange %s: %w", DHName(g), err)
	}
	return &KeyExchange{method: m, public: pub, private: priv}, nil
}

// Group is the method.
func (k *KeyExchange) Group() wire.GroupID { return k.method.id }

// Public returns the octets of the KE payload.
func (k *KeyExchange) Public() []byte { return k.public }

// Shared checks the peer's public value (RFC 6989) and returns the shared secret at its fixed length. Slow: run it in a job.
// A value that is refused gives an error that wraps ErrPublicValue, and the key exchange stays usable: a forged IKE_SA_INIT response
// must not spoil it (RFC 7296 section 2.4).
func (k *KeyExchange) Shared(peer []byte) (alg.Secret, error) {
	if k.private == nil {
		return alg.Secret{}, errWiped
	}
	if len(peer) != k.method.public { // a MODP value is zero-padded to the prime's length (RFC 7296 section 3.4)
		return alg.Secret{}, fmt.Errorf("%w: %d octets, %s has %d", ErrPublicValue, len(peer), DHName(k.method.id), k.method.public)
	}
	s, err := k.private.shared(peer)
	if err != nil {
		return alg.Secret{}, fmt.Errorf("%w for %s: %v", ErrPublicValue, DHName(k.method.id), err)
	}
	return alg.NewSecret(s), nil
}

// Wipe forgets the private value.
func (k *KeyExchange) Wipe() {
	if k.private != nil {
		k.private.wipe()
		k.private = nil
	}
}
