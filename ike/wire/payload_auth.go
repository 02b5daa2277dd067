package wire

// Type returns PayloadAuth.
func (*Auth) Type() PayloadType { return PayloadAuth }

func parseAuth(body []byte) (Payload, error) {
	if len(body) < 4 {
		return nil, malformed(0, "%d octets, an AUTH payload has at least 4", len(body))
	}
	return &Auth{Method: AuthMethod(body[0]), Data: body[4:]}, nil
}

func (p *Auth) appendBody(b []byte) ([]byte, error) {
	b = append(b, byte(p.Method), 0, 0, 0) // RESERVED
	return append(b, p.Data...), nil
}
