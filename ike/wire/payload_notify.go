package wire

import "encoding/binary"

// NewNotify builds a notify about the IKE SA or about nothing that exists: no SPI, Protocol ID 0 (section 3.10).
func NewNotify(kind NotifyType, data []byte) *Notify { return &Notify{Kind: kind, Data: data} }

// NewChildNotify builds a notify about a Child SA, such as REKEY_SA and CHILD_SA_NOT_FOUND. spi is the sender's inbound one in REKEY_SA.
func NewChildNotify(kind NotifyType, p ProtocolID, spi uint32) *Notify {
	return &Notify{Kind: kind, Protocol: p, SPI: binary.BigEndian.AppendUint32(nil, spi)}
}

// ChildSPI returns the SPI of a notify about a Child SA: protocol ESP or AH and four octets. It is false for all others.
func (p *Notify) ChildSPI() (uint32, bool) {
	if p.Protocol != ProtoESP && p.Protocol != ProtoAH || len(p.SPI) != 4 {
		return 0, false
	}
	return binary.BigEndian.Uint32(p.SPI), true
}

// Type returns PayloadNotify.
func (*Notify) Type() PayloadType { return PayloadNotify }

// parseNotify takes any Protocol ID, for it is ignored where there is no SPI (section 3.10), and any SPI that fits.
func parseNotify(body []byte) (Payload, error) {
	if len(body) < 4 {
		return nil, malformed(0, "%d octets, a Notify payload has at least 4", len(body))
	}
	spiEnd := 4 + int(body[1])
	if spiEnd > len(body) {
		return nil, malformed(1, "SPI Size is %d, %d octets are left", body[1], len(body)-4)
	}
	return &Notify{
		Protocol: ProtocolID(body[0]),
		SPI:      body[4:spiEnd:spiEnd],
		Kind:     NotifyType(binary.BigEndian.Uint16(body[2:])),
		Data:     body[spiEnd:],
	}, nil
}

func (p *Notify) appendBody(b []byte) ([]byte, error) {
	if len(p.SPI) > 0xff {
		return b, unencodable(PayloadNotify, "an SPI of %d octets", len(p.SPI))
	}
	b = append(b, byte(p.Protocol), byte(len(p.SPI)))
	b = binary.BigEndian.AppendUint16(b, uint16(p.Kind))
	b = append(b, p.SPI...)
	return append(b, p.Data...), nil
}
