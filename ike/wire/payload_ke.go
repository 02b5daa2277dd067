package wire

import "encoding/binary"

// Type returns PayloadKE.
func (*KE) Type() PayloadType { return PayloadKE }

// parseKE does not know how long a public value is: package suite does.
func parseKE(body []byte) (Payload, error) {
	if len(body) < 4 {
		return nil, malformed(0, "%d octets, a KE payload has at least 4", len(body))
	}
	return &KE{Group: GroupID(binary.BigEndian.Uint16(body)), Data: body[4:]}, nil
}

func (p *KE) appendBody(b []byte) ([]byte, error) {
	b = binary.BigEndian.AppendUint16(b, uint16(p.Group))
	b = append(b, 0, 0) // RESERVED
	return append(b, p.Data...), nil
}
