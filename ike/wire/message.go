package wire

import (
	"encoding/binary"
	"fmt"
)

// Decode decodes a whole datagram (without non-ESP marker). Slices in the result alias b. Errors are *ParseError,
// *LimitError and ErrMajorVersion. Known payload types are decoded whatever their critical bit (section 2.5); the others are
// kept as *Unknown: ask CriticalUnknown about them.
func Decode(b []byte) (*Message, error) {
	h, err := ParseHeader(b)
	if err != nil {
		return nil, err
	}
	if h.MajorVersion != majorVersion {
		return nil, ErrMajorVersion
	}
	ps, err := parseChain(h.NextPayload, b[HeaderLen:], outermost)
	if err != nil {
		return nil, moved(err, HeaderLen)
	}
	return &Message{Header: h, Payloads: ps}, nil
}

// Encode encodes an unprotected message. Length and NextPayload are computed.
func (m *Message) Encode() ([]byte, error) {
	if m.MajorVersion != majorVersion {
		return nil, fmt.Errorf("encode message: major version is %d, this codec writes %d", m.MajorVersion, majorVersion)
	}
	b := m.Header.AppendHeader(make([]byte, 0, 512))
	first, b, err := AppendPayloads(b, m.Payloads)
	if err != nil {
		return nil, err
	}
	if err := within(len(b), MaxMessage, "octets in a message"); err != nil {
		return nil, err
	}
	b[16] = byte(first)
	binary.BigEndian.PutUint32(b[24:], uint32(len(b)))
	return b, nil
}
