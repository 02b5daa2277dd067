package suite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// ErrIntegrity is the one error of Open and OpenFragment: whatever is wrong, nobody can tell what.
var ErrIntegrity = errors.New("integrity check failed")

// ErrExhausted ends an AEAD key: its IVs are used up, and none is ever used twice.
var ErrExhausted = errors.New("the IKE SA has used up its initialization vectors: rekey it")

const (
	skHeader  = 4 // generic payload header (RFC 7296 section 3.2)
	skfHeader = 8 // and fragment number, total (RFC 7383 section 2.5)
)

// Protector seals one side's messages and opens the other's. The AEAD IV counter lives in it. It is not safe for concurrent use.
type Protector struct{ out, in transform }

// transform protects one direction. A message is head | body: the head ends with the header of the SK or SKF payload, the body is
// IV | ciphertext | ICV.
type transform interface {
	// bodyLen is the length of the body for n octets of plaintext.
	bodyLen(n int) int
	// seal appends the body to head, which has the capacity for it and already holds the final lengths.
	seal(head, plaintext []byte, rand io.Reader) ([]byte, error)
	// open returns the plaintext of the body at msg[body:], or nil when anything is wrong; an empty plaintext is not nil. It looks at sizes
	// before any cryptography is done and does not change msg.
	open(msg []byte, body int) []byte
}

// NewProtector: initiator says whether this side is the original initiator of the IKE SA, whose messages are under SK_ei and SK_ai in
// every exchange, also those that the other side starts (RFC 7296 section 2.14).
func NewProtector(k *Keys, initiator bool) (*Protector, error) {
	i, err := newTransform(k.Suite, k.Ei, k.Ai)
	if err != nil {
		return nil, err
	}
	r, err := newTransform(k.Suite, k.Er, k.Ar)
	if err != nil {
		return nil, err
	}
	if initiator {
		return &Protector{out: i, in: r}, nil
	}
	return &Protector{out: r, in: i}, nil
}

func newTransform(s IKE, encr, integ alg.Secret) (transform, error) {
	e, i, err := alg.KeyLens(s.Encr, s.KeyBits, s.Integ)
	if err != nil {
		return nil, err
	}
	if encr.Len() != e || integ.Len() != i {
		return nil, fmt.Errorf("keys of %d and %d octets, %s wants %d and %d", encr.Len(), integ.Len(), s, e, i)
	}
	if s.Integ == alg.IntegNone {
		return newAEAD(s.Encr, encr)
	}
	return newCBC(s.Encr, encr, s.Integ, integ)
}

// Seal returns the whole protected message: header h (Length and NextPayload are set here), one SK payload over plaintext,
// whose first payload is of type first. CBC IVs come from rand.
func (p *Protector) Seal(h wire.Header, first wire.PayloadType, plaintext []byte, rand io.Reader) ([]byte, error) {
	h.NextPayload = wire.PayloadSK
	return p.seal(h, first, nil, plaintext, rand)
}

// SealFragment returns one IKE Fragment message (RFC 7383 section 2.5): plaintext is the stretch of the payloads that fragment number
// of total carries. first is the type of the first payload of the whole; only fragment 1 tells it.
func (p *Protector) SealFragment(h wire.Header, first wire.PayloadType, number, total uint16, plaintext []byte, rand io.Reader) ([]byte, error) {
	if number == 0 || number > total {
		return nil, fmt.Errorf("fragment %d of %d", number, total)
	}
	if number > 1 {
		first = 0
	}
	h.NextPayload = wire.PayloadSKF
	var numbers [4]byte
	binary.BigEndian.PutUint16(numbers[:2], number)
	binary.BigEndian.PutUint16(numbers[2:], total)
	return p.seal(h, first, numbers[:], plaintext, rand)
}

// seal puts the message together; numbers is what an SKF payload has between generic header and IV.
func (p *Protector) seal(h wire.Header, first wire.PayloadType, numbers, plaintext []byte, rand io.Reader) ([]byte, error) {
	payload := skHeader + len(numbers) + p.out.bodyLen(len(plaintext))
	if wire.HeaderLen+payload > wire.MaxMessage {
		return nil, fmt.Errorf("message of %d octets: at most %d fit", wire.HeaderLen+payload, wire.MaxMessage)
	}
	h.Length = uint32(wire.HeaderLen + payload)
	head := h.AppendHeader(make([]byte, 0, h.Length))
	head = append(head, byte(first), 0)
	head = binary.BigEndian.AppendUint16(head, uint16(payload))
	head = append(head, numbers...)
	return p.out.seal(head, plaintext, rand)
}

// Room is the most plaintext that a fragment message of at most size octets can carry; negative when there is none.
func (p *Protector) Room(size int) int {
	n := size - wire.HeaderLen - skfHeader - p.out.bodyLen(0)
	for n >= 0 && wire.HeaderLen+skfHeader+p.out.bodyLen(n+1) <= size {
		n++
	}
	return n
}

// Open checks the ICV of a message that wire.Decode has accepted and that ends in an SK payload, and returns the plaintext with
// padding removed. msg is the whole message from the IKE header on; it is not changed. The error is ErrIntegrity, always.
func (p *Protector) Open(msg []byte, sk *wire.SK) ([]byte, error) {
	return p.open(msg, len(sk.Body))
}

// OpenFragment is Open for a message that ends in an SKF payload. It gives the fragment's stretch of the payloads.
func (p *Protector) OpenFragment(msg []byte, skf *wire.SKF) ([]byte, error) {
	return p.open(msg, len(skf.Body))
}

// open finds the body in the last n octets of msg. What the headers say about lengths is the business of wire.Decode before, and of the ICV, which
// covers it.
func (p *Protector) open(msg []byte, n int) ([]byte, error) {
	body := len(msg) - n
	if body < wire.HeaderLen {
		return nil, ErrIntegrity
	}
	plaintext := p.in.open(msg, body)
	if plaintext == nil {
		return nil, ErrIntegrity
	}
	return plaintext, nil
}

// unpad removes padding and Pad Length. Any padding is accepted (RFC 7296 section 3.14), also without need (RFC 5282 section 3). b has been
// authenticated. It returns nil when the Pad Length is larger than what is there.
func unpad(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	n := len(b) - 1 - int(b[len(b)-1])
	if n < 0 {
		return nil
	}
	return b[:n:n]
}
