package wire

import "slices"

// idLen is ID Type and RESERVED (section 3.5).
const idLen = 4

// NewID builds an ID payload with its Body. data is not copied into Data, but into Body.
func NewID(responder bool, t IDType, data []byte) *ID {
	body := slices.Concat([]byte{byte(t), 0, 0, 0}, data)
	return &ID{Responder: responder, IDType: t, Data: body[idLen:], Body: body}
}

// Type returns PayloadIDi or PayloadIDr.
func (p *ID) Type() PayloadType {
	if p.Responder {
		return PayloadIDr
	}
	return PayloadIDi
}

// parseID keeps RESERVED as it came: the sender's signature covers it (section 2.15).
func parseID(responder bool, body []byte) (Payload, error) {
	if len(body) < idLen {
		return nil, malformed(0, "%d octets, an ID payload has at least %d", len(body), idLen)
	}
	return &ID{Responder: responder, IDType: IDType(body[0]), Data: body[idLen:], Body: body}, nil
}

func (p *ID) appendBody(b []byte) ([]byte, error) {
	if p.Body != nil {
		return append(b, p.Body...), nil
	}
	b = append(b, byte(p.IDType), 0, 0, 0)
	return append(b, p.Data...), nil
}
