package wire

import "encoding/binary"

// NonESPMarker precedes each IKE message on port 4500 (RFC 7296 section 3.1, RFC 3948 section 2.2). It belongs to no length,
// checksum or signature.
const NonESPMarker = "\x00\x00\x00\x00"

// majorVersion is the version that this codec speaks (section 3.1).
const majorVersion = 2

// ParseHeader decodes and checks only the header: length of b against Length, no payload. It accepts every version, exchange
// type and SPI: the caller decides what to do about them. Reserved flags and the version flag are dropped (section 3.1).
func ParseHeader(b []byte) (Header, error) {
	if len(b) < HeaderLen {
		return Header{}, malformed(0, "%d octets are too few for an IKE header of %d", len(b), HeaderLen)
	}
	h := Header{
		SPIi:         SPI(binary.BigEndian.Uint64(b)),
		SPIr:         SPI(binary.BigEndian.Uint64(b[8:])),
		NextPayload:  PayloadType(b[16]),
		MajorVersion: b[17] >> 4,
		MinorVersion: b[17] & 0x0f,
		Exchange:     ExchangeType(b[18]),
		Flags:        Flags(b[19]) & (FlagInitiator | FlagResponse),
		MessageID:    binary.BigEndian.Uint32(b[20:]),
		Length:       binary.BigEndian.Uint32(b[24:]),
	}
	if uint64(h.Length) != uint64(len(b)) {
		return Header{}, malformed(24, "the header says %d octets, the datagram has %d", h.Length, len(b))
	}
	if err := within(len(b), MaxMessage, "octets in a message"); err != nil {
		return Header{}, err
	}
	return h, nil
}

// AppendHeader appends h with Length and NextPayload as they stand in it.
func (h Header) AppendHeader(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(h.SPIi))
	b = binary.BigEndian.AppendUint64(b, uint64(h.SPIr))
	b = append(b, byte(h.NextPayload), h.MajorVersion<<4|h.MinorVersion&0x0f, byte(h.Exchange))
	b = append(b, byte(h.Flags&(FlagInitiator|FlagResponse))) // the others MUST be sent as zero (section 3.1)
	b = binary.BigEndian.AppendUint32(b, h.MessageID)
	return binary.BigEndian.AppendUint32(b, h.Length)
}
