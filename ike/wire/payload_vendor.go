package wire

// Type returns PayloadVendor.
func (*VendorID) Type() PayloadType { return PayloadVendor }

func (p *VendorID) appendBody(b []byte) ([]byte, error) { return append(b, p.Data...), nil }
