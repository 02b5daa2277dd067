package wire

import (
	"encoding/binary"
	"net/netip"
)

const (
	selectorLen     = 4  // TS Type, IP Protocol ID, Selector Length (section 3.13.1)
	selectorIPv4Len = 16 // with ports and two addresses
	selectorIPv6Len = 40

	opaqueStart, opaqueEnd = 65535, 0 // ports that exist but cannot be seen (section 3.13.1)
)

// NewTrafficSelector builds the selector of a range of addresses of one family. IPv4-mapped IPv6 addresses count as IPv6.
func NewTrafficSelector(protocol uint8, startPort, endPort uint16, start, end netip.Addr) TrafficSelector {
	t := TSIPv6AddrRange
	if start.Is4() {
		t = TSIPv4AddrRange
	}
	return TrafficSelector{TSType: t, Protocol: protocol, StartPort: startPort, EndPort: endPort, Start: start, End: end}
}

// Opaque reports whether the selector means traffic whose ports cannot be seen, such as fragments (section 3.13.1).
func (ts TrafficSelector) Opaque() bool {
	return ts.StartPort == opaqueStart && ts.EndPort == opaqueEnd
}

// Type returns PayloadTSi or PayloadTSr.
func (p *TS) Type() PayloadType {
	if p.Responder {
		return PayloadTSr
	}
	return PayloadTSi
}

func parseTS(responder bool, body []byte) (Payload, error) {
	if len(body) < 4 {
		return nil, malformed(0, "%d octets, a TS payload has at least 4", len(body))
	}
	p := &TS{Responder: responder}
	count := int(body[0])
	if err := within(count, MaxSelectors, "selectors in a TS payload"); err != nil {
		return nil, err
	}
	at := 4
	for range count {
		ts, n, err := parseSelector(body[at:])
		if err != nil {
			return nil, moved(err, at)
		}
		p.Selectors = append(p.Selectors, ts)
		at += n
	}
	if count == 0 || at != len(body) {
		return nil, malformed(at, "Number of TSs is %d and %d octets follow them", count, len(body)-at)
	}
	return p, nil
}

// parseSelector decodes the selector at the start of b and returns its length.
func parseSelector(b []byte) (ts TrafficSelector, n int, err error) {
	if len(b) < selectorLen {
		return ts, 0, malformed(0, "%d octets are left, a selector has at least %d", len(b), selectorLen)
	}
	ts.TSType, ts.Protocol = TSType(b[0]), b[1]
	n = int(binary.BigEndian.Uint16(b[2:]))
	if want := selectorLenOf(ts.TSType); n < selectorLen || n > len(b) || want != 0 && n != want {
		return ts, 0, malformed(2, "Selector Length is %d for a %s and %d octets are left", n, ts.TSType, len(b))
	}
	switch ts.TSType {
	case TSIPv4AddrRange:
		ts.Start, ts.End = netip.AddrFrom4([4]byte(b[8:12])), netip.AddrFrom4([4]byte(b[12:16]))
	case TSIPv6AddrRange:
		ts.Start, ts.End = netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	default:
		ts.Raw = b[selectorLen:n:n]
		return ts, n, nil
	}
	ts.StartPort, ts.EndPort = binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b[6:])
	if reason := ts.unordered(); reason != "" {
		return ts, 0, malformed(4, "%s", reason)
	}
	return ts, n, nil
}

// selectorLenOf returns the fixed length of a selector type, 0 when we do not know it.
func selectorLenOf(t TSType) int {
	switch t {
	case TSIPv4AddrRange:
		return selectorIPv4Len
	case TSIPv6AddrRange:
		return selectorIPv6Len
	default:
		return 0
	}
}

// unordered says which range runs backwards. 65535 to 0 is not one: it means OPAQUE.
func (ts TrafficSelector) unordered() string {
	switch {
	case ts.End.Less(ts.Start):
		return "the starting address is above the ending address"
	case ts.EndPort < ts.StartPort && !ts.Opaque():
		return "the start port is above the end port"
	default:
		return ""
	}
}

func (p *TS) appendBody(b []byte) ([]byte, error) {
	if len(p.Selectors) == 0 {
		return b, unencodable(p.Type(), "no selector")
	}
	if err := within(len(p.Selectors), MaxSelectors, "selectors in a TS payload"); err != nil {
		return b, err
	}
	b = append(b, byte(len(p.Selectors)), 0, 0, 0)
	for _, ts := range p.Selectors {
		if reason := ts.unencodable(); reason != "" {
			return b, unencodable(p.Type(), "%s", reason)
		}
		b = ts.append(b)
	}
	return b, nil
}

func (ts TrafficSelector) unencodable() string {
	switch want := selectorLenOf(ts.TSType); {
	case want == 0:
		return ""
	case want == selectorIPv4Len && !(ts.Start.Is4() && ts.End.Is4()),
		want == selectorIPv6Len && !(ts.Start.Is6() && ts.End.Is6()):
		return "addresses " + ts.Start.String() + " and " + ts.End.String() + " in a " + ts.TSType.String()
	default:
		return ts.unordered()
	}
}

func (ts TrafficSelector) append(b []byte) []byte {
	b = append(b, byte(ts.TSType), ts.Protocol)
	n := selectorLenOf(ts.TSType)
	if n == 0 {
		b = binary.BigEndian.AppendUint16(b, uint16(selectorLen+len(ts.Raw)))
		return append(b, ts.Raw...)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	b = binary.BigEndian.AppendUint16(b, ts.StartPort)
	b = binary.BigEndian.AppendUint16(b, ts.EndPort)
	b = append(b, ts.Start.AsSlice()...)
	return append(b, ts.End.AsSlice()...)
}
