package wire

// Type returns PayloadCert.
func (*Cert) Type() PayloadType { return PayloadCert }

func parseCert(body []byte) (Payload, error) {
	if len(body) < 1 {
		return nil, malformed(0, "no Cert Encoding")
	}
	return &Cert{Encoding: CertEncoding(body[0]), Data: body[1:]}, nil
}

func (p *Cert) appendBody(b []byte) ([]byte, error) {
	return append(append(b, byte(p.Encoding)), p.Data...), nil
}

// Type returns PayloadCertReq.
func (*CertReq) Type() PayloadType { return PayloadCertReq }

// parseCertReq takes any Authorities: none is right for raw public keys (RFC 7670 section 3), and what a peer would like is no
// reason to refuse it (section 3.7).
func parseCertReq(body []byte) (Payload, error) {
	if len(body) < 1 {
		return nil, malformed(0, "no Cert Encoding")
	}
	return &CertReq{Encoding: CertEncoding(body[0]), Authorities: body[1:]}, nil
}

func (p *CertReq) appendBody(b []byte) ([]byte, error) {
	return append(append(b, byte(p.Encoding)), p.Authorities...), nil
}
