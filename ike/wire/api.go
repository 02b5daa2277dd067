package wire

// ParseHeader decodes and checks only the header: length of b against Length, no payload.
func ParseHeader(b []byte) (Header, error) { panic("contract") }

// Decode decodes a whole datagram (without non-ESP marker). Slices in the result alias b.
func Decode(b []byte) (*Message, error) { panic("contract") }

// ParsePayloads decodes a chain of payloads, such as the plaintext of an SK payload.
func ParsePayloads(first PayloadType, b []byte) ([]Payload, error) { panic("contract") }

// Encode encodes an unprotected message.
func (m *Message) Encode() ([]byte, error) { panic("contract") }

// AppendPayloads encodes a chain and returns the type of its first payload (0 when empty).
func AppendPayloads(b []byte, ps []Payload) (PayloadType, []byte, error) { panic("contract") }

// AppendHeader appends h with Length and NextPayload as they stand in it.
func (h Header) AppendHeader(b []byte) []byte { panic("contract") }

// NewText makes peer octets printable.
func NewText(b []byte) Text { panic("contract") }

// NewID builds an ID payload with its Body.
func NewID(responder bool, t IDType, data []byte) *ID { panic("contract") }
