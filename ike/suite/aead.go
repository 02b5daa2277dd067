package suite

import (
	"encoding/binary"
	"io"
	"math"

	"cygnet/xfrm/alg"
)

// aeadTransform is AES-GCM-16 or ChaCha20-Poly1305 as RFC 5282 and RFC 7634 use them. The associated data is the head: all from the IKE header
// through the header of the SK payload, with whatever payloads stand between (RFC 5282 section 5.1).
type aeadTransform struct {
	aead *alg.AEAD
	next uint64 // IV of the next message; each is used once
}

const (
	aeadIV  = 8
	aeadICV = 16
)

func newAEAD(id alg.Encr, key alg.Secret) (transform, error) {
	a, err := alg.NewAEAD(id, key)
	if err != nil {
		return nil, err
	}
	return &aeadTransform{aead: a}, nil
}

func (a *aeadTransform) bodyLen(n int) int { return aeadIV + n + 1 + aeadICV }

func (a *aeadTransform) seal(head, plaintext []byte, _ io.Reader) ([]byte, error) {
	if a.next == math.MaxUint64 {
		return nil, ErrExhausted
	}
	msg := binary.BigEndian.AppendUint64(head, a.next)
	a.next++
	content := len(msg)
	iv := msg[len(head):content]
	msg = append(msg, plaintext...)
	msg = append(msg, 0) // Pad Length: no padding is needed (RFC 5282 section 3)
	return a.aead.Seal(msg[:content], iv, msg[content:], head), nil
}

func (a *aeadTransform) open(msg []byte, body int) []byte {
	n := len(msg) - body - aeadIV - aeadICV
	if n < 1 {
		return nil
	}
	iv, sealed := msg[body:body+aeadIV], msg[body+aeadIV:]
	plaintext, err := a.aead.Open(make([]byte, 0, n), iv, sealed, msg[:body])
	if err != nil {
		return nil
	}
	return unpad(plaintext)
}
