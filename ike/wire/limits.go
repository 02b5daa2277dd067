package wire

import (
	"errors"
	"fmt"
	"time"
)

// Bounds on what one peer can make us keep. Honest messages stay far below. Past a bound of the codec, decoding stops with a
// *LimitError that names it.
const (
	MaxMessage      = 65535 // octets of a message: no UDP datagram and no TCP frame (RFC 9329 section 3.1) holds more
	MaxPayloads     = 64    // of one chain, notifies included; the longest honest IKE_AUTH has about 40
	MaxProposals    = 64    // of one SA payload; widely used clients send up to 20
	MaxTransforms   = 128   // of one proposal; a peer that offers everything it has sends about 60
	MaxSelectors    = 64    // of one TS payload; the kernel gets the square of it
	MaxCertificates = 12    // of one chain; four must be accepted (RFC 7296 section 3.6), the rest are cross-certificates
	MaxCfgAttrs     = 256   // of one CP payload; split DNS sends one for each domain (RFC 8598)
	MaxFragments    = 64    // of one message: 64 KiB in fragments of 1 KiB

	MinNonce = 16  // octets (RFC 7296 section 3.9)
	MaxNonce = 256 // octets

	MaxText = 256 // runes of a Text: a line that a person reads
)

// Bounds that others keep; they stand here so that there is one table.
const (
	MaxInit       = 8 << 10          // octets of an IKE_SA_INIT message, which is kept until AUTH has covered it; the longest honest one names 300 CAs
	MaxBeforeAuth = 16 << 10         // octets kept of a peer that has not proved its identity: certificates, fragments, EAP
	MaxChain      = 8                // certificates from the end entity to a root
	MinRSABits    = 2048             // below it a signature proves nothing
	MaxRSABits    = 8192             // crypto/rsa's limit for verifying; more is only a way to burn our time
	MaxEAPRounds  = 32               // RFC 7296 section 2.16 asks for ten
	HalfOpen      = 30 * time.Second // an IKE SA without AUTH
)

// ErrTooMany is what every *LimitError is, for errors.Is.
var ErrTooMany = errors.New("a bound of the codec is passed")

// LimitError says which bound of this file a message passed.
type LimitError struct {
	Bound string // what is counted: "payloads in a message", "proposals in an SA payload" and so on
	Limit int
}

func (e *LimitError) Error() string { return fmt.Sprintf("more than %d %s", e.Limit, e.Bound) }

// Is makes errors.Is(err, ErrTooMany) true.
func (e *LimitError) Is(target error) bool { return target == ErrTooMany }

// within checks a count against a bound.
func within(n, limit int, bound string) error {
	if n > limit {
		return &LimitError{Bound: bound, Limit: limit}
	}
	return nil
}
