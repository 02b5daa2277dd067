package wire

import (
	"encoding/binary"
	"slices"
)

// Type returns PayloadDelete.
func (*Delete) Type() PayloadType { return PayloadDelete }

// parseDelete takes the two forms of section 3.11: the IKE SA, without SPIs, and SPIs of 4 octets for ESP and AH.
func parseDelete(body []byte) (Payload, error) {
	if len(body) < 4 {
		return nil, malformed(0, "%d octets, a Delete payload has at least 4", len(body))
	}
	p := &Delete{Protocol: ProtocolID(body[0])}
	size, count := int(body[1]), int(binary.BigEndian.Uint16(body[2:]))
	switch {
	case p.Protocol == ProtoIKE && (size != 0 || count != 0):
		return nil, malformed(1, "%d SPIs of %d octets to delete an IKE SA, which has none", count, size)
	case p.Protocol == ProtoESP || p.Protocol == ProtoAH:
		if size != 4 {
			return nil, malformed(1, "SPI Size is %d, for %s it is 4", size, p.Protocol)
		}
	case p.Protocol != ProtoIKE:
		return nil, malformed(0, "Protocol ID is %d, possible are IKE, AH and ESP", p.Protocol)
	}
	if size*count != len(body)-4 {
		return nil, malformed(2, "%d SPIs of %d octets in %d octets", count, size, len(body)-4)
	}
	p.SPIs = slices.Grow(p.SPIs, count) // count is checked: the octets are there
	for at := 4; at < len(body); at += 4 {
		p.SPIs = append(p.SPIs, binary.BigEndian.Uint32(body[at:]))
	}
	return p, nil
}

func (p *Delete) appendBody(b []byte) ([]byte, error) {
	var size byte
	switch p.Protocol {
	case ProtoIKE:
		if len(p.SPIs) != 0 {
			return b, unencodable(PayloadDelete, "SPIs for an IKE SA")
		}
	case ProtoESP, ProtoAH:
		size = 4
	default:
		return b, unencodable(PayloadDelete, "Protocol ID %d", p.Protocol)
	}
	b = append(b, byte(p.Protocol), size)
	b = binary.BigEndian.AppendUint16(b, uint16(len(p.SPIs)))
	for _, spi := range p.SPIs {
		b = binary.BigEndian.AppendUint32(b, spi)
	}
	return b, nil
}
