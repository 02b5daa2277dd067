package wire

import "encoding/binary"

// fragmentLen is Fragment Number and Total Fragments (RFC 7383 section 2.5).
const fragmentLen = 4

// Type returns PayloadSK.
func (*SK) Type() PayloadType { return PayloadSK }

// Type returns PayloadSKF.
func (*SKF) Type() PayloadType { return PayloadSKF }

// nested is why an Encrypted payload is refused inside another (RFC 7296 section 3.1).
const nested = "an Encrypted payload inside an Encrypted payload"

// parseSK frames an SK payload. IV, padding and ICV are for package suite, which knows their lengths.
func parseSK(first PayloadType, body []byte) (Payload, error) {
	if first == PayloadSK || first == PayloadSKF {
		return nil, malformed(0, nested)
	}
	return &SK{First: first, Body: body}, nil
}

// parseSKF frames an SKF payload (RFC 7383 sections 2.5 and 2.6).
func parseSKF(first PayloadType, body []byte) (Payload, error) {
	if len(body) < fragmentLen {
		return nil, malformed(0, "%d octets, an Encrypted Fragment payload has at least %d", len(body), fragmentLen)
	}
	p := &SKF{
		First:  first,
		Number: binary.BigEndian.Uint16(body),
		Total:  binary.BigEndian.Uint16(body[2:]),
		Body:   body[fragmentLen:],
	}
	if p.Number == 0 || p.Number > p.Total {
		return nil, malformed(0, "fragment %d of %d", p.Number, p.Total)
	}
	if err := within(int(p.Total), MaxFragments, "fragments in a message"); err != nil {
		return nil, err
	}
	if p.Number > 1 {
		p.First = PayloadNone // only the first fragment names a payload (RFC 7383 section 2.5)
	}
	if p.First == PayloadSK || p.First == PayloadSKF {
		return nil, malformed(0, nested)
	}
	return p, nil
}

// misplaced reports whether the payloads before a fragment are against RFC 7383 section 2.5.3: only the first may have some.
func (p *SKF) misplaced(before int) bool { return before > 0 && p.Number > 1 }

func (p *SK) appendBody(b []byte) ([]byte, error) { return append(b, p.Body...), nil }

func (p *SKF) appendBody(b []byte) ([]byte, error) {
	if p.Number == 0 || p.Number > p.Total || p.Total > MaxFragments {
		return b, unencodable(PayloadSKF, "fragment %d of %d, at most %d", p.Number, p.Total, MaxFragments)
	}
	if p.Number > 1 && p.First != PayloadNone {
		return b, unencodable(PayloadSKF, "fragment %d names %s as the first payload, only fragment 1 may", p.Number, p.First)
	}
	b = binary.BigEndian.AppendUint16(b, p.Number)
	b = binary.BigEndian.AppendUint16(b, p.Total)
	return append(b, p.Body...), nil
}
