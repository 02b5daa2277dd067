package wire

import "encoding/binary"

// cfgReserved is the R bit before an Attribute Type; it is ignored (section 3.15.1).
const cfgReserved = 0x8000

// Type returns PayloadCP.
func (*CP) Type() PayloadType { return PayloadCP }

func parseCP(body []byte) (Payload, error) {
	if len(body) < 4 {
		return nil, malformed(0, "%d octets, a CP payload has at least 4", len(body))
	}
	p := &CP{CfgType: CfgType(body[0])}
	for at := 4; at < len(body); {
		if err := within(len(p.Attributes)+1, MaxCfgAttrs, "attributes in a CP payload"); err != nil {
			return nil, err
		}
		if len(body)-at < 4 {
			return nil, malformed(at, "%d octets are left, an attribute has at least 4", len(body)-at)
		}
		kind := AttrType(binary.BigEndian.Uint16(body[at:]) &^ cfgReserved)
		end := at + 4 + int(binary.BigEndian.Uint16(body[at+2:]))
		if end > len(body) {
			return nil, malformed(at+2, "%s has %d octets, %d are left", kind, end-at-4, len(body)-at-4)
		}
		a := CfgAttr{Attr: kind, Value: body[at+4 : end : end]}
		if !a.lengthFits() {
			return nil, malformed(at+2, "%s has %d octets", kind, len(a.Value))
		}
		p.Attributes = append(p.Attributes, a)
		at = end
	}
	return p, nil
}

// lengthFits checks a value against the table of section 3.15.1. Nothing is a question or a "none" in all of them. Attributes
// that we do not know, and INTERNAL_ADDRESS_EXPIRY of RFC 4306, are ignored whatever they hold (section 1.7).
func (a CfgAttr) lengthFits() bool {
	n := len(a.Value)
	switch a.Attr {
	case AttrInternalIP4Address, AttrInternalIP4Netmask, AttrInternalIP4DNS, AttrInternalIP4NBNS, AttrInternalIP4DHCP:
		return n == 0 || n == 4
	case AttrInternalIP4Subnet:
		return n == 0 || n == 8
	case AttrInternalIP6Address, AttrInternalIP6Subnet:
		return n == 0 || n == 17
	case AttrInternalIP6DNS, AttrInternalIP6DHCP:
		return n == 0 || n == 16
	case AttrSupportedAttributes:
		return n%2 == 0
	default:
		return true
	}
}

func (p *CP) appendBody(b []byte) ([]byte, error) {
	if err := within(len(p.Attributes), MaxCfgAttrs, "attributes in a CP payload"); err != nil {
		return b, err
	}
	b = append(b, byte(p.CfgType), 0, 0, 0)
	for _, a := range p.Attributes {
		if a.Attr&cfgReserved != 0 || !a.lengthFits() {
			return b, unencodable(PayloadCP, "%s with %d octets", a.Attr, len(a.Value))
		}
		b = binary.BigEndian.AppendUint16(b, uint16(a.Attr))
		b = binary.BigEndian.AppendUint16(b, uint16(len(a.Value)))
		b = append(b, a.Value...)
	}
	return b, nil
}
