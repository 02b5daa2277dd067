package wire

// Type returns the payload's own type.
func (p *Unknown) Type() PayloadType { return p.PayloadType }

func (p *Unknown) appendBody(b []byte) ([]byte, error) {
	if p.PayloadType == PayloadNone || known(p.PayloadType) {
		return b, unencodable(p.PayloadType, "it has a struct of its own")
	}
	return append(b, p.Body...), nil
}

// known reports whether parsePayload decodes a type.
func known(t PayloadType) bool {
	return t >= PayloadSA && t <= PayloadEAP || t == PayloadSKF
}

// CriticalUnknown returns the first payload type that the sender demands to be understood and that we do not. A request with
// one is refused with UNSUPPORTED_CRITICAL_PAYLOAD and this type (section 2.5).
func CriticalUnknown(ps []Payload) (PayloadType, bool) {
	for _, p := range ps {
		if u, ok := p.(*Unknown); ok && u.Critical {
			return u.PayloadType, true
		}
	}
	return PayloadNone, false
}
