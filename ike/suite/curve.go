package suite

import (
	"crypto/ecdh"
	"errors"
	"fmt"
	"io"
)

// curvePrivate is a private key of an elliptic curve method. crypto/ecdh keeps it where it cannot be wiped: it is dropped.
type curvePrivate struct {
	key *ecdh.PrivateKey
	// prefix is what a public value lacks on the wire: the octet 4 of an uncompressed ECP point, which RFC 5903 section 7 omits.
	prefix []byte
}

// newECP draws octets until they make a scalar in [1, n-1]. GenerateKey of crypto/ecdh would ignore the reader.
func newECP(curve ecdh.Curve, bits int, rand io.Reader) (private, []byte, error) {
	d := make([]byte, (bits+7)/8)
	defer clear(d)
	// The worst curve refuses a draw with a chance under 2^-32 once the surplus bits are masked: only a broken reader comes to the end.
	for range 16 {
		if _, err := io.ReadFull(rand, d); err != nil {
			return nil, nil, fmt.Errorf("draw a private value: %w", err)
		}
		d[0] &= 0xff >> (8*len(d) - bits)
		key, err := curve.NewPrivateKey(d)
		if err != nil {
			continue
		}
		return &curvePrivate{key, []byte{4}}, key.PublicKey().Bytes()[1:], nil
	}
	return nil, nil, errors.New("draw a private value: the random source gives no valid scalar")
}

// newX25519 draws 32 octets; any make a private key (RFC 8031 section 3.1).
func newX25519(rand io.Reader) (private, []byte, error) {
	d := make([]byte, 32)
	defer clear(d)
	if _, err := io.ReadFull(rand, d); err != nil {
		return nil, nil, fmt.Errorf("draw a private value: %w", err)
	}
	key, err := ecdh.X25519().NewPrivateKey(d)
	if err != nil {
		return nil, nil, err
	}
	return &curvePrivate{key, nil}, key.PublicKey().Bytes(), nil
}

// shared returns the x coordinate at its fixed length (RFC 5903 section 7, RFC 8031 section 2).
func (c *curvePrivate) shared(peer []byte) ([]byte, error) {
	// NewPublicKey refuses coordinates that are not reduced and points off the curve (RFC 6989 section 2.3); the point at infinity
	// has no such encoding.
	pub, err := c.key.Curve().NewPublicKey(append(c.prefix[:len(c.prefix):len(c.prefix)], peer...))
	if err != nil {
		return nil, errors.New("it is not a point of the curve")
	}
	// ECDH refuses an X25519 result of all zeros, that is a peer's point of small order (RFC 7748 section 6.1).
	secret, err := c.key.ECDH(pub)
	if err != nil {
		return nil, errors.New("it is a point of small order")
	}
	return secret, nil
}

func (c *curvePrivate) wipe() { c.key = nil }
