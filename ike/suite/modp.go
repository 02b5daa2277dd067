package suite

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"filippo.io/bigmod"
)

// modpPrivate is a private exponent of a MODP group. All arithmetic with it is in constant time.
type modpPrivate struct {
	prime    *bigmod.Modulus
	exponent []byte
}

// newMODP draws an exponent of the given length in bits. Short exponents of at least twice the group's strength (112, 128 and 152
// bits) lose nothing in a safe-prime group (RFC 3526 section 8, RFC 7919 section 5.2) and are many times faster. The topmost
// bit is set: whatever the reader gave, the public value is not degenerate.
func newMODP(primeHex string, bits int, rand io.Reader) (private, []byte, error) {
	p, err := hex.DecodeString(primeHex)
	if err != nil {
		return nil, nil, err
	}
	prime, err := bigmod.NewModulus(p)
	if err != nil {
		return nil, nil, err
	}
	x := make([]byte, bits/8)
	if _, err := io.ReadFull(rand, x); err != nil {
		return nil, nil, fmt.Errorf("draw a private value: %w", err)
	}
	x[0] |= 0x80
	two, err := bigmod.NewNat().SetBytes([]byte{2}, prime)
	if err != nil {
		return nil, nil, err
	}
	public := bigmod.NewNat().Exp(two, x, prime).Bytes(prime)
	return &modpPrivate{prime, x}, public, nil
}

func (m *modpPrivate) shared(peer []byte) ([]byte, error) {
	r, err := bigmod.NewNat().SetBytes(peer, m.prime)
	if err != nil {
		return nil, errors.New("it is not smaller than the prime")
	}
	// RFC 6989 section 2.1: 1 < r < p-1. In a safe-prime group no other value has a small order.
	if r.IsZero()|r.IsOne()|r.IsMinusOne(m.prime) == 1 {
		return nil, errors.New("it is 0, 1 or p-1")
	}
	s := bigmod.NewNat().Exp(r, m.exponent, m.prime)
	secret := s.Bytes(m.prime) // zero-padded to the prime's length (RFC 7296 section 2.14)
	clear(s.Bits())
	return secret, nil
}

func (m *modpPrivate) wipe() { clear(m.exponent) }
