package wire

import "encoding/binary"

// eapLen is Code, Identifier and Length (section 3.16).
const eapLen = 4

// Type returns PayloadEAP.
func (*EAP) Type() PayloadType { return PayloadEAP }

// parseEAP checks that the EAP packet fills the payload (section 3.16); what it says is for package eap.
func parseEAP(body []byte) (Payload, error) {
	if len(body) < eapLen {
		return nil, malformed(0, "%d octets, an EAP packet has at least %d", len(body), eapLen)
	}
	if n := int(binary.BigEndian.Uint16(body[2:])); n != len(body) {
		return nil, malformed(2, "EAP Length is %d, the payload holds %d", n, len(body))
	}
	return &EAP{Data: body}, nil
}

func (p *EAP) appendBody(b []byte) ([]byte, error) {
	if len(p.Data) < eapLen || int(binary.BigEndian.Uint16(p.Data[2:])) != len(p.Data) {
		return b, unencodable(PayloadEAP, "%d octets that are no EAP packet", len(p.Data))
	}
	return append(b, p.Data...), nil
}
