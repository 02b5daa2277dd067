// Package esp transforms packets between clear text and ESP: seal, open, padding, sequence numbers, extended sequence numbers and
// the anti-replay window. It is pure: no clock, no sockets, no goroutine, no counters but its own sequence. An Outbound or Inbound
// is not safe for concurrent use.
//
// Nothing allocates after an SA is made. Sealing encrypts from one buffer of the caller's into another; opening decrypts in place.
//
// Sources: RFC 4303 (ESP), RFC 3602 (AES-CBC), RFC 4106 (AES-GCM), RFC 7634 (ChaCha20-Poly1305), RFC 2404 and RFC 4868 (HMAC),
// RFC 6479 (window as a ring).
package esp

import (
	"errors"
	"fmt"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

const (
	headerLen  = 8 // SPI and sequence number
	trailerLen = 2 // pad length and next header
	alignment  = 4 // RFC 4303 section 2.4: the trailer ends on a 4-octet boundary whatever the cipher
)

// IP protocol numbers in the Next Header field.
const (
	NextIPv4  = 4
	NextIPv6  = 41
	NextDummy = 59 // RFC 4303 section 2.6
)

// ErrSequence: the sequence numbers of an SA are used up. They never cycle (RFC 4303 section 3.3.3): a new SA must take over.
var ErrSequence = errors.New("the SA's sequence numbers are used up: it must be rekeyed")

// ErrWiped: the SA was taken out of use.
var ErrWiped = errors.New("the SA's keys are wiped")

// Reason why a received packet goes no further. The peer is never told: there is one drop path.
type Reason uint8

const (
	Accepted  Reason = iota
	Malformed        // too short, or not aligned: dropped before any cryptography
	Replayed         // seen before, left of the window, or of a number that cannot be
	Integrity        // the ICV is wrong
	Padding          // authenticated, but the padding is not 1, 2, 3... or longer than the data
	Dummy            // authenticated, next header 59: nothing to deliver, no error
	NotInner         // authenticated, but what is in it is not the IP packet that the next header promises
	Wiped            // the SA was taken out of use
	Reasons          // how many there are
)

var reasonNames = [Reasons]string{"accepted", "malformed", "replayed", "integrity", "padding", "dummy", "not an inner packet", "wiped"}

func (r Reason) String() string {
	if r < Reasons {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// layout is what the algorithms say about the sizes of a packet, in octets.
type layout struct {
	iv, icv, block int
	esn            bool
}

func layoutOf(s xfrm.Suite) (layout, error) {
	if _, _, err := alg.KeyLens(s.Encr, s.KeyBits, s.Integ); err != nil {
		return layout{}, err
	}
	c, _ := alg.CipherByID(s.Encr)
	l := layout{iv: c.IV, icv: c.ICV, block: max(c.Block, alignment), esn: s.ESN}
	if m, ok := alg.MACByID(s.Integ); ok {
		l.icv = m.ICV
	}
	return l, nil
}

// padLen of n octets of data: the least that aligns data and trailer.
func (l layout) padLen(n int) int { return -(n + trailerLen) & (l.block - 1) }

// sealed is the length of the ESP packet that carries n octets.
func (l layout) sealed(n int) int {
	return headerLen + l.iv + n + l.padLen(n) + trailerLen + l.icv
}

// Overhead returns the length of the ESP packet, without IP and UDP headers, that carries n octets under suite; false when the
// suite is not implemented.
func Overhead(s xfrm.Suite, n int) (int, bool) {
	l, err := layoutOf(s)
	return l.sealed(n), err == nil
}

// MaxInner returns the length of the longest inner packet whose ESP packet has at most room octets.
func MaxInner(s xfrm.Suite, room int) (int, bool) {
	l, err := layoutOf(s)
	if err != nil {
		return 0, false
	}
	body := room - headerLen - l.iv - l.icv
	return max(0, body-body%l.block-trailerLen), body >= l.block
}
