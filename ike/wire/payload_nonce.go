package wire

// Type returns PayloadNonce.
func (*Nonce) Type() PayloadType { return PayloadNonce }

func parseNonce(body []byte) (Payload, error) {
	if len(body) < MinNonce || len(body) > MaxNonce {
		return nil, malformed(0, "a nonce of %d octets, it has %d to %d", len(body), MinNonce, MaxNonce)
	}
	return &Nonce{Data: body}, nil
}

func (p *Nonce) appendBody(b []byte) ([]byte, error) {
	if len(p.Data) < MinNonce || len(p.Data) > MaxNonce {
		return b, unencodable(PayloadNonce, "a nonce of %d octets, it has %d to %d", len(p.Data), MinNonce, MaxNonce)
	}
	return append(b, p.Data...), nil
}
