package wire

import (
	"errors"
	"fmt"
)

// ErrMajorVersion is returned by Decode for a message of another major version than 2, whose payloads cannot be read. ParseHeader
// reads it, so that the caller can answer INVALID_MAJOR_VERSION (RFC 7296 section 2.5).
var ErrMajorVersion = errors.New("IKE major version is not 2")

// ParseError says where and why octets are no IKE message.
type ParseError struct {
	Payload PayloadType // in which payload; PayloadNone in the header or between payloads
	Offset  int         // in octets from the start of what was decoded
	Reason  string      // what was found and what was wanted
}

func (e *ParseError) Error() string {
	if e.Payload == PayloadNone {
		return fmt.Sprintf("octet %d: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("%s payload, octet %d: %s", e.Payload, e.Offset, e.Reason)
}

// malformed makes a ParseError at an offset within what the caller parses; the callers above move it outwards.
func malformed(offset int, format string, args ...any) error {
	return &ParseError{Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// moved gives an error of a part its place in the whole, where the part starts at offset.
func moved(err error, offset int) error {
	if e, ok := err.(*ParseError); ok {
		e.Offset += offset
	}
	return err
}

// ofPayload names the payload of an error whose offset counts from the payload's start, which is at offset in the chain.
func ofPayload(err error, t PayloadType, offset int) error {
	if e, ok := err.(*ParseError); ok {
		e.Payload = t
	}
	return moved(err, offset)
}

// EncodeError says why a payload cannot be encoded: a mistake of ours, never of a peer.
type EncodeError struct {
	Payload PayloadType
	Reason  string
}

func (e *EncodeError) Error() string {
	return fmt.Sprintf("encode %s payload: %s", e.Payload, e.Reason)
}

func unencodable(t PayloadType, format string, args ...any) error {
	return &EncodeError{Payload: t, Reason: fmt.Sprintf(format, args...)}
}
