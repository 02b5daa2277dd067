package wire

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// withLength puts the length of a message into its header.
func withLength(b []byte) []byte {
	binary.BigEndian.PutUint32(b[24:], uint32(len(b)))
	return b
}

// message puts a header before a chain.
func message(first PayloadType, chain ...[]byte) []byte {
	h := Header{SPIi: 0x0102030405060708, MajorVersion: 2, Exchange: IKESAInit, Flags: FlagInitiator, NextPayload: first}
	return withLength(append(h.AppendHeader(nil), slices.Concat(chain...)...))
}

// generic puts a generic payload header with a right length before a body.
func generic(next PayloadType, flags byte, body ...byte) []byte {
	b := []byte{byte(next), flags, 0, 0}
	binary.BigEndian.PutUint16(b[2:], uint16(len(body)+genericLen))
	return append(b, body...)
}

// parseBody decodes one payload by its body.
func parseBody(t PayloadType, body []byte) (Payload, error) {
	ps, err := ParsePayloads(t, generic(PayloadNone, 0, body...))
	if err != nil {
		return nil, err
	}
	return ps[0], nil
}

// refused fails unless err is a ParseError of this payload whose reason contains a text.
func refused(t *testing.T, err error, payload PayloadType, reason string) {
	t.Helper()
	var e *ParseError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a parse error: %s", err, reason)
	}
	if e.Payload != payload || !strings.Contains(e.Reason, reason) {
		t.Fatalf("got %v, want in %s: %s", err, payload, reason)
	}
}

func nonce(n int) *Nonce { return &Nonce{Data: slices.Repeat([]byte{0xaa}, n)} }

// onePayloadOfEach has every payload type with every field set.
func onePayloadOfEach() []Payload {
	v4 := NewTrafficSelector(6, 443, 443, netip.MustParseAddr("192.0.2.0"), netip.MustParseAddr("192.0.2.255"))
	v6 := NewTrafficSelector(0, 0, 65535, netip.MustParseAddr("2001:db8::"), netip.MustParseAddr("2001:db8::ffff"))
	return []Payload{
		NewNotify(NotifyCookie, []byte("cookie")),
		&SA{Proposals: []Proposal{
			{Number: 1, Protocol: ProtoIKE, SPI: []byte("12345678"), Transforms: []Transform{
				{Type: TransformEncr, ID: EncrAESGCM16, KeyBits: 256},
				{Type: TransformPRF, ID: uint16(PRFHMACSHA256)},
				{Type: TransformKE, ID: uint16(GroupX25519)},
				{Type: TransformADDKE1, ID: uint16(GroupMLKEM768)},
			}},
			{Number: 2, Protocol: ProtoESP, SPI: []byte("1234"), Transforms: []Transform{{Type: TransformESN, ID: ESNYes}}},
		}},
		&KE{Group: GroupX25519, Data: []byte("public value")},
		nonce(32),
		NewID(false, IDFQDN, []byte("i.example")),
		NewID(true, IDRFC822Addr, []byte("r@example")),
		&Cert{Encoding: CertX509Signature, Data: []byte("certificate")},
		&CertReq{Encoding: CertX509Signature, Authorities: make([]byte, 40)},
		&Auth{Method: AuthDigitalSignature, Data: []byte("signature")},
		NewChildNotify(NotifyRekeySA, ProtoESP, 0x01020304),
		&Delete{Protocol: ProtoESP, SPIs: []uint32{1, 0xfffffffe}},
		&Delete{Protocol: ProtoIKE},
		&VendorID{Data: []byte("vendor")},
		&CP{CfgType: CfgRequest, Attributes: []CfgAttr{
			{Attr: AttrInternalIP4Address, Value: []byte{}},
			{Attr: AttrInternalIP6Address, Value: make([]byte, 17)},
		}},
		&TS{Selectors: []TrafficSelector{v4, v6}},
		&TS{Responder: true, Selectors: []TrafficSelector{v6, {TSType: TSSecLabel, Raw: []byte("label")}}},
		&EAP{Data: []byte{1, 7, 0, 5, 1}},
		&Unknown{PayloadType: PayloadGSPM, Critical: true, Body: []byte("unknown")},
		&Unknown{PayloadType: 200, Body: []byte{}},
	}
}

func TestRoundTrip(t *testing.T) {
	for _, last := range []Payload{
		&SK{First: PayloadIDi, Body: []byte("sealed")},
		&SKF{First: PayloadIDi, Number: 1, Total: MaxFragments, Body: []byte("sealed")},
	} {
		m := &Message{
			Header: Header{SPIi: 1, SPIr: 1 << 63, MajorVersion: 2, MinorVersion: 3, Exchange: IKEIntermediate,
				Flags: FlagInitiator | FlagResponse, MessageID: 0xfffffffe},
			Payloads: append(onePayloadOfEach(), last),
		}
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		m.NextPayload, m.Length = PayloadNotify, uint32(len(b))
		for _, p := range m.Payloads { // decoding gives empty slices where building gives nil
			if n, ok := p.(*Notify); ok && n.SPI == nil {
				n.SPI = []byte{}
			}
			if n, ok := p.(*Notify); ok && n.Data == nil {
				n.Data = []byte{}
			}
		}
		if !reflect.DeepEqual(got.Header, m.Header) {
			t.Errorf("header\n got %+v\nwant %+v", got.Header, m.Header)
		}
		for i := range m.Payloads {
			if !reflect.DeepEqual(got.Payloads[i], m.Payloads[i]) {
				t.Errorf("payload %d\n got %+v\nwant %+v", i, got.Payloads[i], m.Payloads[i])
			}
		}
	}
}

// TestPayloadPrefix cuts each payload's body and keeps the lengths around it right. Payloads that end in free octets are
// shorter payloads then; the others must be refused.
func TestPayloadPrefix(t *testing.T) {
	least := map[PayloadType]int{ // octets from which a cut payload is a valid one
		PayloadKE: 4, PayloadNonce: MinNonce, PayloadIDi: 4, PayloadIDr: 4, PayloadCert: 1, PayloadCertReq: 1, PayloadAuth: 4,
		PayloadVendor: 0, PayloadGSPM: 0, 200: 0,
	}
	for _, p := range onePayloadOfEach() {
		body, err := p.appendBody(nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := range len(body) {
			_, err := parseBody(p.Type(), body[:n])
			valid, free := least[p.Type()]
			switch q := p.(type) {
			case *Notify:
				valid, free = 4+len(q.SPI), true
			case *CP: // attributes end where they like
				valid, free = n, n == 4 || n == 8
			}
			if accepted := err == nil; accepted != (free && n >= valid) {
				t.Errorf("%s cut to %d of %d octets: %v", p.Type(), n, len(body), err)
			}
		}
	}
}

func TestUnencodable(t *testing.T) {
	addr := netip.MustParseAddr
	esp := func(ts ...Transform) Payload {
		return &SA{Proposals: []Proposal{{Number: 1, Protocol: ProtoESP, SPI: make([]byte, 4), Transforms: ts}}}
	}
	for _, c := range []struct {
		name string
		p    Payload
	}{
		{"no proposal", &SA{}},
		{"no transform", esp()},
		{"AES without key length", esp(Transform{Type: TransformEncr, ID: EncrAESCBC})},
		{"key length of a fixed-key cipher", esp(Transform{Type: TransformEncr, ID: EncrChaCha20Poly1305, KeyBits: 256})},
		{"key length of an integrity algorithm", esp(Transform{Type: TransformInteg, ID: IntegSHA256_128, KeyBits: 256})},
		{"unusable", esp(Transform{Type: TransformESN, Unusable: true})},
		{"too many transforms", esp(make([]Transform, MaxTransforms+1)...)},
		{"too many proposals", &SA{Proposals: make([]Proposal, MaxProposals+1)}},
		{"SPI of an ESP proposal", &SA{Proposals: []Proposal{{Protocol: ProtoESP, Transforms: make([]Transform, 1)}}}},
		{"short nonce", nonce(15)},
		{"long nonce", nonce(257)},
		{"long SPI", &Notify{SPI: make([]byte, 256)}},
		{"SPIs of an IKE SA", &Delete{Protocol: ProtoIKE, SPIs: []uint32{1}}},
		{"delete without protocol", &Delete{SPIs: []uint32{1}}},
		{"more SPIs than a payload holds", &Delete{Protocol: ProtoESP, SPIs: make([]uint32, 16384)}},
		{"no selector", &TS{}},
		{"too many selectors", &TS{Selectors: make([]TrafficSelector, MaxSelectors+1)}},
		{"selector without addresses", &TS{Selectors: []TrafficSelector{{TSType: TSIPv4AddrRange}}}},
		{"two families", &TS{Selectors: []TrafficSelector{NewTrafficSelector(0, 0, 65535, addr("192.0.2.1"), addr("2001:db8::"))}}},
		{"two families, IPv6 first", &TS{Selectors: []TrafficSelector{NewTrafficSelector(0, 0, 65535, addr("2001:db8::"), addr("192.0.2.1"))}}},
		{"backwards", &TS{Selectors: []TrafficSelector{NewTrafficSelector(0, 0, 65535, addr("192.0.2.2"), addr("192.0.2.1"))}}},
		{"ports backwards", &TS{Selectors: []TrafficSelector{NewTrafficSelector(6, 2, 1, addr("192.0.2.2"), addr("192.0.2.2"))}}},
		{"long label", &TS{Selectors: []TrafficSelector{{TSType: TSSecLabel, Raw: make([]byte, 65532)}}}},
		{"reserved bit of an attribute", &CP{Attributes: []CfgAttr{{Attr: 0x8001}}}},
		{"netmask of 3 octets", &CP{Attributes: []CfgAttr{{Attr: AttrInternalIP4Netmask, Value: make([]byte, 3)}}}},
		{"too many attributes", &CP{Attributes: make([]CfgAttr, MaxCfgAttrs+1)}},
		{"value longer than a payload", &CP{Attributes: []CfgAttr{{Attr: AttrApplicationVersion, Value: make([]byte, 65536)}}}},
		{"SPI of an unknown protocol", &SA{Proposals: []Proposal{{Protocol: 9, SPI: make([]byte, 256), Transforms: make([]Transform, 1)}}}},
		{"SUPPORTED_ATTRIBUTES of 3 octets", &CP{Attributes: []CfgAttr{{Attr: AttrSupportedAttributes, Value: make([]byte, 3)}}}},
		{"no EAP packet", &EAP{Data: []byte{1, 2, 0, 5}}},
		{"SA as unknown", &Unknown{PayloadType: PayloadSA}},
		{"EAP as unknown", &Unknown{PayloadType: PayloadEAP}},
		{"SKF as unknown", &Unknown{PayloadType: PayloadSKF}},
		{"no type", &Unknown{}},
		{"fragment 0", &SKF{Total: 1}},
		{"fragment 2 of 1", &SKF{Number: 2, Total: 1}},
		{"fragments", &SKF{Number: 1, Total: MaxFragments + 1}},
		{"longer than a payload", &VendorID{Data: make([]byte, 0xffff-genericLen+1)}},
	} {
		first, b, err := AppendPayloads(nil, []Payload{c.p})
		var e *EncodeError
		if first != PayloadNone || !errors.As(err, &e) && !errors.Is(err, ErrTooMany) || err.Error() == "" {
			t.Errorf("%s: %v, encoded as %.20x", c.name, err, b)
		}
	}
	if _, err := (&Message{Header: Header{MajorVersion: 1}}).Encode(); err == nil {
		t.Error("another version was encoded")
	}
	full := &VendorID{Data: make([]byte, 40000)}
	if _, err := (&Message{Header: Header{MajorVersion: 2}, Payloads: []Payload{full, full}}).Encode(); !errors.Is(err, ErrTooMany) {
		t.Errorf("a message of 80000 octets: %v", err)
	}
}

func TestFind(t *testing.T) {
	ps := onePayloadOfEach()
	if p, ok := Find[*KE](ps); !ok || p != ps[2] {
		t.Errorf("KE %v", p)
	}
	if p, ok := Find[*SK](ps); ok || p != nil {
		t.Errorf("SK %v", p)
	}
	if all := All[*Delete](ps); len(all) != 2 || all[0] != ps[10] || all[1] != ps[11] {
		t.Errorf("Delete %v", all)
	}
	if n, ok := FindNotify(ps, NotifyRekeySA); !ok || n != ps[9] {
		t.Errorf("REKEY_SA %v", n)
	}
	if n, ok := FindNotify(ps, NotifyInitialContact); ok || n != nil {
		t.Errorf("INITIAL_CONTACT %v", n)
	}
	for i, responder := range []bool{false, true} {
		if id, ok := FindID(ps, responder); !ok || id != ps[4+i] {
			t.Errorf("ID of responder %v: %v", responder, id)
		}
		if ts, ok := FindTS(ps, responder); !ok || ts != ps[14+i] {
			t.Errorf("TS of responder %v: %v", responder, ts)
		}
	}
	if _, ok := FindID(ps[:4], false); ok {
		t.Error("an ID where none is")
	}
	if _, ok := FindTS(ps[:4], false); ok {
		t.Error("a TS where none is")
	}
}

// TestAliasing: a caller that appends to one field must not overwrite the next.
func TestAliasing(t *testing.T) {
	chain := slices.Concat(generic(PayloadVendor, 0, 1, 2), generic(PayloadNone, 0, 3, 4))
	want := slices.Clone(chain)
	ps, err := ParsePayloads(PayloadVendor, chain)
	if err != nil {
		t.Fatal(err)
	}
	_ = append(ps[0].(*VendorID).Data, 0xff)
	if !slices.Equal(chain, want) {
		t.Errorf("the input became %x", chain)
	}
}
