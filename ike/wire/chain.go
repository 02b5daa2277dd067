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

// parseChain walks from payload to payload (section 3.1). Each step consumes at least the four octets of a generic header, so it ends.
func parseChain(first PayloadType, b []byte, where place) ([]Payload, error) {
	var ps []Payload
	certificates := 0
	at := 0
	for t := first; t != PayloadNone; {
		if err := within(len(ps)+1, MaxPayloads, "payloads in a message"); err != nil {
			return nil, err
		}
		length, err := payloadLength(t, b[at:])
		if err != nil {
			return nil, inside(err, t, at)
		}
		next, flags := PayloadType(b[at]), b[at+1]
		body := b[at+genericLen : at+length : at+length]
		p, err := parsePayload(t, next, flags&critical != 0, body, where)
		if err != nil {
			return nil, inside(err, t, at+genericLen)
		}
		if t == PayloadCert {
			certificates++
		}
		if err := within(certificates, MaxCertificates, "certificates in a message"); err != nil {
			return nil, err
		}
		ps = append(ps, p)
		at += length
		if t == PayloadSK || t == PayloadSKF {
			break // its Next Payload names the first payload inside (section 3.14)
		}
		t = next
	}
	if at != len(b) {
		return nil, malformed(at, "%d octets follow the last payload", len(b)-at)
	}
	return ps, nil
}

// payloadLength reads and checks the Payload Length of the payload at the start of b.
func payloadLength(t PayloadType, b []byte) (int, error) {
	if len(b) < genericLen {
		return 0, malformed(0, "announced, but %d octets are left and a payload header has %d", len(b), genericLen)
	}
	n := int(binary.BigEndian.Uint16(b[2:]))
	if n < genericLen || n > len(b) {
		return 0, malformed(2, "Payload Length is %d, possible is %d to %d", n, genericLen, len(b))
	}
	return n, nil
}

// parsePayload decodes what follows the generic header. Offsets in its errors count from the start of body.
func parsePayload(t, next PayloadType, crit bool, body []byte, where place) (Payload, error) {
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
	case PayloadSK, PayloadSKF:
		if where == innermost {
			return nil, malformed(0, "an Encrypted payload inside an Encrypted payload")
		}
		return parseEncrypted(t, next, body)
	case PayloadCP:
		return parseCP(body)
	case PayloadEAP:
		return parseEAP(body)
	default:
		return &Unknown{PayloadType: t, Critical: crit, Body: body}, nil
	}
}

// AppendPayloads encodes a chain and returns the type of its first payload (0 when empty). An SK or SKF payload may only be
// the last. On an error b holds a part of the chain.
func AppendPayloads(b []byte, ps []Payload) (PayloadType, []byte, error) {
	for i, p := range ps {
		t := p.Type()
		next, last := PayloadNone, i == len(ps)-1
		if !last {
			next = ps[i+1].Type()
		}
		var flags byte
		switch p := p.(type) {
		case *SK:
			next = p.First
		case *SKF:
			next = p.First
		case *Unknown:
			if p.Critical {
				flags = critical
			}
		}
		if !last && (t == PayloadSK || t == PayloadSKF) {
			return 0, b, unencodable(t, "it must be the last payload")
		}
		start := len(b)
		b = append(b, byte(next), flags, 0, 0)
		var err error
		if b, err = p.appendBody(b); err != nil {
			return 0, b, err
		}
		length := len(b) - start
		if length > 0xffff {
			return 0, b, unencodable(t, "%d octets do not fit the 16 bits of Payload Length", length)
		}
		binary.BigEndian.PutUint16(b[start+2:], uint16(length))
	}
	if len(ps) == 0 {
		return PayloadNone, b, nil
	}
	return ps[0].Type(), b, nil
}
