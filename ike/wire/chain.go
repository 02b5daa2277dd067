package wire

import "encoding/binary"

// genericLen is the length of the generic payload header (section 3.2): Next Payload, C and RESERVED, Payload Length.
const genericLen = 4

// critical is the C bit of the generic payload header; the other seven bits are ignored.
const critical = 0x80

// place says where a chain stands: an Encrypted payload may end the outermost chain, and MUST NOT stand inside another one
// (section 3.1).
type place bool

const (
	outermost place = true
	innermost place = false
)

// ParsePayloads decodes a chain of payloads, such as the plaintext of an SK payload. Slices in the result alias b. The chain
// has no SK or SKF payload. Errors are *ParseError and *LimitError.
func ParsePayloads(first PayloadType, b []byte) ([]Payload, error) {
	return parseChain(first, b, innermost)
}

// parseChain walks from payload to payload (section 3.1). Each step takes at least the four octets of a generic header, so it ends.
func parseChain(first PayloadType, b []byte, where place) ([]Payload, error) {
	var ps []Payload
	at := 0
	for t := first; t != PayloadNone; {
		if err := within(len(ps)+1, MaxPayloads, "payloads in a message"); err != nil {
			return nil, err
		}
		h, err := parseGeneric(b[at:])
		if err != nil {
			return nil, ofPayload(err, t, at)
		}
		p, err := parsePayload(t, h, b[at+genericLen:at+h.length:at+h.length])
		if err == nil {
			err = admit(p, ps, where)
		}
		if err != nil {
			return nil, ofPayload(err, t, at+genericLen)
		}
		ps = append(ps, p)
		at += h.length
		t = h.next
		if p.Type() == PayloadSK || p.Type() == PayloadSKF {
			break // its Next Payload names the first payload inside (section 3.14)
		}
	}
	if at != len(b) {
		return nil, malformed(at, "%d octets follow the last payload", len(b)-at)
	}
	return ps, nil
}

// genericHeader is the generic payload header (section 3.2). next is of the payload that follows, the rest of this one.
type genericHeader struct {
	next     PayloadType
	critical bool
	length   int // octets, this header included
}

// parseGeneric reads the header at the start of b and checks that b has the whole payload.
func parseGeneric(b []byte) (genericHeader, error) {
	if len(b) < genericLen {
		return genericHeader{}, malformed(0, "announced, but %d octets are left and a payload header has %d", len(b), genericLen)
	}
	n := int(binary.BigEndian.Uint16(b[2:]))
	if n < genericLen || n > len(b) {
		return genericHeader{}, malformed(2, "Payload Length is %d, possible is %d to %d", n, genericLen, len(b))
	}
	return genericHeader{next: PayloadType(b[0]), critical: b[1]&critical != 0, length: n}, nil
}

// admit checks a payload against its chain: what went before, and where the chain stands.
func admit(p Payload, before []Payload, where place) error {
	switch p := p.(type) {
	case *Cert:
		return within(len(All[*Cert](before))+1, MaxCertificates, "certificates in a message")
	case *SK:
		if where == innermost {
			return malformed(0, nested)
		}
	case *SKF:
		if where == innermost {
			return malformed(0, nested)
		}
		if p.misplaced(len(before)) {
			return malformed(0, "fragment %d of %d follows other payloads", p.Number, p.Total)
		}
	}
	return nil
}

// parsePayload decodes what follows the generic header. Offsets in its errors count from the start of body.
func parsePayload(t PayloadType, h genericHeader, body []byte) (Payload, error) {
	switch t {
	case PayloadSA:
		return parseSA(body)
	case PayloadKE:
		return parseKE(body)
	case PayloadIDi, PayloadIDr:
		return parseID(t == PayloadIDr, body)
	case PayloadCert:
		return parseCert(body)
	case PayloadCertReq:
		return parseCertReq(body)
	case PayloadAuth:
		return parseAuth(body)
	case PayloadNonce:
		return parseNonce(body)
	case PayloadNotify:
		return parseNotify(body)
	case PayloadDelete:
		return parseDelete(body)
	case PayloadVendor:
		return &VendorID{Data: body}, nil
	case PayloadTSi, PayloadTSr:
		return parseTS(t == PayloadTSr, body)
	case PayloadSK:
		return parseSK(h.next, body)
	case PayloadSKF:
		return parseSKF(h.next, body)
	case PayloadCP:
		return parseCP(body)
	case PayloadEAP:
		return parseEAP(body)
	default:
		return &Unknown{PayloadType: t, Critical: h.critical, Body: body}, nil
	}
}

// AppendPayloads encodes a chain and returns the type of its first payload (0 when empty). An SK or SKF payload may only be
// the last. On an error b holds a part of the chain. Errors are *EncodeError and *LimitError.
func AppendPayloads(b []byte, ps []Payload) (PayloadType, []byte, error) {
	first := PayloadNone
	for i, p := range ps {
		if i == 0 {
			first = p.Type()
		}
		h, err := genericOf(ps, i)
		if err != nil {
			return 0, b, err
		}
		start := len(b)
		b = append(b, byte(h.next), 0, 0, 0)
		if h.critical {
			b[start+1] = critical
		}
		if b, err = p.appendBody(b); err != nil {
			return 0, b, err
		}
		length := len(b) - start
		if length > 0xffff {
			return 0, b, unencodable(p.Type(), "%d octets do not fit the 16 bits of Payload Length", length)
		}
		binary.BigEndian.PutUint16(b[start+2:], uint16(length))
	}
	return first, b, nil
}

// genericOf makes the generic header of payload i, but for its length.
func genericOf(ps []Payload, i int) (h genericHeader, err error) {
	last := i == len(ps)-1
	if !last {
		h.next = ps[i+1].Type()
	}
	switch p := ps[i].(type) {
	case *SK:
		h.next = p.First
		if !last {
			err = unencodable(PayloadSK, "it must be the last payload")
		}
	case *SKF:
		h.next = p.First
		if !last || p.misplaced(i) {
			err = unencodable(PayloadSKF, "it must be the last payload, and the only one from fragment 2 on")
		}
	case *Unknown:
		h.critical = p.Critical // MUST be zero for the types of RFC 7296 (section 3.2)
	}
	return h, err
}
