package wire

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"slices"
	"testing"
)

// The traps are numbered by the RFC they belong to; here is the part of each that the codec decides.

func TestTrap_7296_1_ZeroSPI(t *testing.T) {
	// The codec shows zero SPIs and leaves the decision to callers: an unprotected INVALID_SPI may have SPIi zero.
	b := message(PayloadNone)
	clear(b[:16])
	m, err := Decode(b)
	if err != nil || m.SPIi != 0 || m.SPIr != 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	b[7], b[15] = 1, 2
	if m, err = Decode(b); err != nil || m.SPIi != 1 || m.SPIr != 2 {
		t.Fatalf("%+v, %v", m, err)
	}
}

func TestTrap_7296_2_Flags(t *testing.T) {
	b := message(PayloadNone)
	b[19] = 0xff
	h, err := ParseHeader(b)
	if err != nil || h.Flags != FlagInitiator|FlagResponse || !h.Initiator() || !h.Response() {
		t.Fatalf("flags 0xff: %+v, %v", h, err)
	}
	b[19] = 0xff &^ byte(FlagInitiator|FlagResponse)
	if h, err = ParseHeader(b); err != nil || h.Flags != 0 || h.Initiator() || h.Response() {
		t.Fatalf("flags without I and R: %+v, %v", h, err)
	}
	h.Flags = 0xff
	if sent := h.AppendHeader(nil)[19]; sent != 0x28 {
		t.Errorf("flags sent are %#x", sent)
	}
}

func TestTrap_7296_3_Version(t *testing.T) {
	b := message(PayloadSA, []byte("not a version 2 payload"))
	b[17] = 0x31
	h, err := ParseHeader(b)
	if err != nil || h.MajorVersion != 3 || h.MinorVersion != 1 {
		t.Fatalf("the header of version 3.1: %+v, %v", h, err)
	}
	if _, err := Decode(b); err != ErrMajorVersion {
		t.Errorf("version 3: %v", err)
	}
	b = message(PayloadNone)
	b[17] = 0x2f
	if m, err := Decode(b); err != nil || m.MinorVersion != 15 {
		t.Errorf("version 2.15: %+v, %v", m, err)
	}
}

func TestTrap_7296_4_Lengths(t *testing.T) {
	valid := message(PayloadVendor, generic(PayloadVendor, 0, 1, 2, 3), generic(PayloadNone, 0, 4))
	if _, err := Decode(valid); err != nil {
		t.Fatal(err)
	}
	set16 := func(at int, v uint16) func([]byte) []byte {
		return func(b []byte) []byte { binary.BigEndian.PutUint16(b[at:], v); return b }
	}
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		in     PayloadType
		reason string
	}{
		{"empty datagram", func(b []byte) []byte { return nil }, PayloadNone, "too few"},
		{"27 octets", func(b []byte) []byte { return b[:27] }, PayloadNone, "too few"},
		{"header longer than the datagram", set16(26, 41), PayloadNone, "header says 41 octets"},
		{"header shorter than the datagram", set16(26, 28), PayloadNone, "header says 28 octets"},
		{"header of 4 GiB", set16(24, 0xffff), PayloadNone, "header says"},
		{"payload of 0 octets", set16(30, 0), PayloadVendor, "Payload Length is 0"},
		{"payload of 3 octets", set16(30, 3), PayloadVendor, "Payload Length is 3"},
		{"payload past the end", set16(30, 13), PayloadVendor, "Payload Length is 13"},
		{"last payload past the end", set16(37, 6), PayloadVendor, "Payload Length is 6"},
		{"last payload short", set16(37, 4), PayloadNone, "1 octets follow"},
		{"a payload more announced", func(b []byte) []byte { b[35] = byte(PayloadNonce); return b }, PayloadNonce, "announced"},
		{"no payload announced", func(b []byte) []byte { b[16] = 0; return b }, PayloadNone, "12 octets follow"},
		{"rest of 3 octets", func(b []byte) []byte { b[35] = byte(PayloadNonce); return withLength(append(b, 0, 0, 3)) }, PayloadNonce, "announced"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode(c.change(bytes.Clone(valid)))
			refused(t, err, c.in, c.reason)
		})
	}
}

func TestTrap_7296_5_CriticalUnknown(t *testing.T) {
	odd := PayloadType(200)
	ps, err := ParsePayloads(PayloadNonce, slices.Concat(generic(odd, 0x80, make([]byte, 16)...), generic(PayloadNone, 0x80, 9)))
	if got, ok := CriticalUnknown(ps); err != nil || !ok || got != odd {
		t.Errorf("critical: %s, %v", got, err)
	}
	ps, err = ParsePayloads(PayloadNonce, slices.Concat(generic(odd, 0x80, make([]byte, 16)...), generic(PayloadNone, 0x7f, 9)))
	if got, ok := CriticalUnknown(ps); err != nil || ok {
		t.Errorf("neither RESERVED nor the bit of the payload before counts: %s, %v", got, err)
	}
	if u, ok := ps[1].(*Unknown); !ok || u.Critical || !bytes.Equal(u.Body, []byte{9}) {
		t.Errorf("the payload is kept as %+v", ps[1])
	}
	for _, p := range onePayloadOfEach() { // never set for defined types
		if _, b, err := AppendPayloads(nil, []Payload{p}); err != nil || known(p.Type()) && b[1] != 0 {
			t.Errorf("%s is sent with flags %#x, %v", p.Type(), b[1], err)
		}
	}
}

func TestTrap_7296_6_AnyOrder(t *testing.T) {
	ps := onePayloadOfEach()
	slices.Reverse(ps)
	first, b, err := AppendPayloads(nil, ps)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParsePayloads(first, b)
	if err != nil || len(got) != len(ps) {
		t.Fatalf("%d of %d payloads, %v", len(got), len(ps), err)
	}
	for i := range ps {
		if got[i].Type() != ps[i].Type() {
			t.Errorf("payload %d is %s", i, got[i].Type())
		}
	}
}

func TestTrap_7296_7_EncryptedLast(t *testing.T) {
	fragment := []byte{0, 1, 0, 2, 9}
	m, err := Decode(message(PayloadNonce, generic(PayloadSK, 0, make([]byte, 16)...), generic(PayloadIDi, 0, 1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	if sk, ok := m.Payloads[1].(*SK); !ok || sk.First != PayloadIDi || !bytes.Equal(sk.Body, []byte{1, 2}) {
		t.Errorf("SK is %+v", m.Payloads[1])
	}
	for _, c := range []struct {
		name   string
		b      []byte
		in     PayloadType
		reason string
	}{
		{"SK not last", message(PayloadSK, generic(PayloadNonce, 0, 1, 2), generic(PayloadNone, 0, make([]byte, 16)...)), PayloadNone, "follow the last"},
		{"SKF not last", message(PayloadSKF, generic(PayloadNonce, 0, fragment...), generic(PayloadNone, 0, make([]byte, 16)...)), PayloadNone, "follow the last"},
		{"SK names SK", message(PayloadSK, generic(PayloadSK, 0, 1, 2)), PayloadSK, "inside an Encrypted"},
		{"SK names SKF", message(PayloadSK, generic(PayloadSKF, 0, 1, 2)), PayloadSK, "inside an Encrypted"},
		{"SKF names SK", message(PayloadSKF, generic(PayloadSK, 0, fragment...)), PayloadSKF, "inside an Encrypted"},
		{"SKF names SKF", message(PayloadSKF, generic(PayloadSKF, 0, fragment...)), PayloadSKF, "inside an Encrypted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode(c.b)
			refused(t, err, c.in, c.reason)
		})
	}
	for _, inner := range []PayloadType{PayloadSK, PayloadSKF} {
		_, err := ParsePayloads(inner, generic(PayloadNone, 0, fragment...))
		refused(t, err, inner, "inside an Encrypted")
		_, err = ParsePayloads(PayloadVendor, slices.Concat(generic(inner, 0, 1), generic(PayloadNone, 0, fragment...)))
		refused(t, err, inner, "inside an Encrypted")
	}
	for _, p := range []Payload{&SK{}, &SKF{Number: 1, Total: 1}} {
		if _, _, err := AppendPayloads(nil, []Payload{p, nonce(16)}); err == nil {
			t.Errorf("%s was encoded before another payload", p.Type())
		}
	}
}

func TestTrap_7296_37_NonceLength(t *testing.T) {
	for n := range 300 {
		_, err := parseBody(PayloadNonce, make([]byte, n))
		if accepted, want := err == nil, n >= 16 && n <= 256; accepted != want {
			t.Errorf("a nonce of %d octets: %v", n, err)
		}
	}
}

func TestTrap_7296_47_Selectors(t *testing.T) {
	v4 := func(ports string, addresses ...byte) []byte {
		return slices.Concat([]byte{7, 6, 0, 16}, []byte(ports), addresses)
	}
	any4 := v4("\x00\x00\xff\xff", 0, 0, 0, 0, 255, 255, 255, 255)
	v6 := func(start, end byte) []byte {
		b := append([]byte{8, 58, 0, 40, 0, 0, 255, 255}, make([]byte, 32)...)
		b[23], b[39] = start, end
		return b
	}
	ts := func(count byte, selectors ...[]byte) []byte {
		return append([]byte{count, 0xff, 0xff, 0xff}, slices.Concat(selectors...)...) // RESERVED is ignored
	}
	bad := func(b []byte, length byte) []byte { b = slices.Clone(b); b[3] = length; return b }
	label := []byte{10, 0, 0, 7, 'l', 'b', 'l'}
	for _, c := range []struct {
		name   string
		body   []byte
		reason string // empty: accepted
	}{
		{"one IPv4", ts(1, any4), ""},
		{"one IPv6", ts(1, v6(1, 2)), ""},
		{"both and an unknown type", ts(3, any4, label, v6(2, 2)), ""},
		{"OPAQUE", ts(1, v4("\xff\xff\x00\x00", 10, 0, 0, 1, 10, 0, 0, 1)), ""},
		{"one address and port", ts(1, v4("\x01\xbb\x01\xbb", 10, 0, 0, 1, 10, 0, 0, 1)), ""},
		{"ICMP type 8 code 0", ts(1, v4("\x08\x00\x08\x00", 10, 0, 0, 1, 10, 0, 0, 1)), ""},
		{"no selector", ts(0), "Number of TSs is 0"},
		{"count below", ts(1, any4, any4), "16 octets follow"},
		{"count above", ts(2, any4), "a selector has at least"},
		{"IPv4 of 15", ts(1, bad(any4, 15)), "Selector Length is 15"},
		{"IPv4 of 17", ts(1, append(bad(any4, 17), 0)), "Selector Length is 17"},
		{"IPv4 of 40", ts(1, append(bad(any4, 40), make([]byte, 24)...)), "Selector Length is 40"},
		{"IPv6 of 16", ts(1, bad(v6(1, 2), 16)), "Selector Length is 16"},
		{"IPv4 past the end", ts(1, any4[:15]), "15 octets are left"},
		{"address backwards", ts(1, v4("\x00\x00\xff\xff", 10, 0, 0, 2, 10, 0, 0, 1)), "starting address"},
		{"IPv6 address backwards", ts(1, v6(2, 1)), "starting address"},
		{"port backwards", ts(1, v4("\x00\x02\x00\x01", 10, 0, 0, 1, 10, 0, 0, 1)), "start port"},
		{"nearly OPAQUE", ts(1, v4("\xff\xff\x00\x01", 10, 0, 0, 1, 10, 0, 0, 1)), "start port"},
		{"unknown type of 3", ts(1, bad(label, 3)), "Selector Length is 3"},
		{"unknown type past the end", ts(1, bad(label, 8)), "Selector Length is 8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, side := range []PayloadType{PayloadTSi, PayloadTSr} {
				p, err := parseBody(side, c.body)
				if c.reason != "" {
					refused(t, err, side, c.reason)
				} else if err != nil || p.(*TS).Responder != (side == PayloadTSr) {
					t.Errorf("%+v, %v", p, err)
				}
			}
		})
	}
	p, err := parseBody(PayloadTSi, ts(2, v4("\x08\x01\xff\xff", 10, 0, 0, 1, 10, 0, 0, 9), label))
	if err != nil {
		t.Fatal(err)
	}
	got := p.(*TS).Selectors
	if got[0].StartPort != 0x0801 || got[0].EndPort != 0xffff || got[0].Protocol != 6 ||
		got[0].Start.String() != "10.0.0.1" || got[0].End.String() != "10.0.0.9" || got[0].Raw != nil || got[0].Opaque() {
		t.Errorf("IPv4 selector %+v", got[0])
	}
	if got[1].TSType != TSSecLabel || string(got[1].Raw) != "lbl" || got[1].Start.IsValid() {
		t.Errorf("unknown selector %+v", got[1])
	}
}

func TestTrap_7296_64_NotifySPI(t *testing.T) {
	// Protocol ID counts only with an SPI: this one has none and is taken as it came.
	for _, protocol := range []ProtocolID{0, 1, 2, 3, 200} {
		p, err := parseBody(PayloadNotify, []byte{byte(protocol), 0, 0x40, 0x09, 1, 2})
		if err != nil {
			t.Fatal(err)
		}
		n := p.(*Notify)
		if n.Kind != NotifyRekeySA || len(n.SPI) != 0 || !bytes.Equal(n.Data, []byte{1, 2}) {
			t.Errorf("protocol %d: %+v", protocol, n)
		}
		if spi, ok := n.ChildSPI(); ok {
			t.Errorf("protocol %d without an SPI names child %#x", protocol, spi)
		}
	}
	for _, c := range []struct {
		protocol ProtocolID
		spi      string
		child    bool
	}{
		{ProtoESP, "\x01\x02\x03\x04", true}, {ProtoAH, "\x01\x02\x03\x04", true}, {ProtoESP, "\x01\x02\x03", false},
		{ProtoESP, "\x01\x02\x03\x04\x05\x06\x07\x08", false}, {ProtoIKE, "\x01\x02\x03\x04", false}, {ProtoNone, "\x01\x02\x03\x04", false},
	} {
		p, err := parseBody(PayloadNotify, slices.Concat([]byte{byte(c.protocol), byte(len(c.spi)), 0x40, 0x09}, []byte(c.spi)))
		if err != nil {
			t.Fatal(err)
		}
		if spi, ok := p.(*Notify).ChildSPI(); ok != c.child || ok && spi != 0x01020304 {
			t.Errorf("%+v names child %#x, %v", p, spi, ok)
		}
	}
	_, err := parseBody(PayloadNotify, []byte{3, 4, 0x40, 9, 1, 2, 3})
	refused(t, err, PayloadNotify, "SPI Size is 4")
	if n := NewNotify(NotifyInitialContact, nil); n.Protocol != ProtoNone || n.SPI != nil {
		t.Errorf("sent without an SPI: %+v", n)
	}
}

func TestTrap_7296_70_AddressLengths(t *testing.T) {
	lengths := map[AttrType][]int{
		AttrInternalIP4Address: {0, 4}, AttrInternalIP4Netmask: {0, 4}, AttrInternalIP4DNS: {0, 4}, AttrInternalIP4NBNS: {0, 4},
		AttrInternalIP4DHCP: {0, 4}, AttrInternalIP4Subnet: {0, 8}, AttrInternalIP6Address: {0, 17}, AttrInternalIP6DNS: {0, 16},
		AttrInternalIP6DHCP: {0, 16}, AttrInternalIP6Subnet: {0, 17},
	}
	for attr, allowed := range lengths {
		for n := range 20 {
			p, err := parseBody(PayloadCP, slices.Concat([]byte{byte(CfgRequest), 0xff, 0xff, 0xff, 0x80, byte(attr), 0, byte(n)}, make([]byte, n)))
			if !slices.Contains(allowed, n) {
				refused(t, err, PayloadCP, attr.String())
				continue
			}
			if err != nil || p.(*CP).Attributes[0].Attr != attr { // with its reserved bit set, which is ignored
				t.Errorf("%s of %d octets: %+v, %v", attr, n, p, err)
			}
		}
	}
	// Unknown attributes are ignored by callers, so they must come through beside known ones.
	p, err := parseBody(PayloadCP, []byte{1, 0, 0, 0, 0x7f, 0xff, 0, 3, 1, 2, 3, 0, 1, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	want := []CfgAttr{{Attr: 0x7fff, Value: []byte{1, 2, 3}}, {Attr: AttrInternalIP4Address, Value: []byte{}}}
	if got := p.(*CP); got.CfgType != CfgRequest || !reflect.DeepEqual(got.Attributes, want) {
		t.Errorf("%+v", got)
	}
}

func TestTrap_7296_86_EAPLength(t *testing.T) {
	for _, c := range []struct {
		b    []byte
		fits bool
	}{
		{[]byte{1, 1, 0, 5, 1}, true}, {[]byte{3, 1, 0, 4}, true}, {[]byte{3, 1, 0, 5}, false}, {[]byte{1, 1, 0, 4, 1}, false},
		{[]byte{3, 1, 0}, false}, {nil, false},
	} {
		if _, err := parseBody(PayloadEAP, c.b); (err == nil) != c.fits {
			t.Errorf("%x: %v", c.b, err)
		}
	}
}

func TestTrap_7296_88_IDAsSent(t *testing.T) {
	// No terminator is added or removed, and RESERVED stays in Body, which AUTH covers.
	for _, name := range []string{"a.example", "a.example\x00", ""} {
		body := append([]byte{byte(IDFQDN), 1, 2, 3}, name...)
		p, err := parseBody(PayloadIDr, body)
		if err != nil {
			t.Fatal(err)
		}
		id := p.(*ID)
		if string(id.Data) != name || !bytes.Equal(id.Body, body) || !id.Responder || id.IDType != IDFQDN {
			t.Errorf("%q: %+v", name, id)
		}
		if b, err := id.appendBody(nil); err != nil || !bytes.Equal(b, body) {
			t.Errorf("%q encoded again: %x, %v", name, b, err)
		}
		made := NewID(true, IDFQDN, []byte(name))
		if want := append([]byte{byte(IDFQDN), 0, 0, 0}, name...); !bytes.Equal(made.Body, want) || string(made.Data) != name {
			t.Errorf("%q built: %+v", name, made)
		}
		bare := &ID{IDType: IDFQDN, Data: []byte(name)}
		if b, err := bare.appendBody(nil); err != nil || !bytes.Equal(b, made.Body) {
			t.Errorf("%q without Body: %x, %v", name, b, err)
		}
	}
}

func TestTrap_7296_107_Delete(t *testing.T) {
	for _, c := range []struct {
		name   string
		body   []byte
		spis   []uint32
		reason string // empty: accepted
	}{
		{"IKE", []byte{1, 0, 0, 0}, nil, ""},
		{"ESP", []byte{3, 4, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2}, []uint32{1, 2}, ""},
		{"AH", []byte{2, 4, 0, 1, 1, 2, 3, 4}, []uint32{0x01020304}, ""},
		{"ESP, none", []byte{3, 4, 0, 0}, nil, ""},
		{"IKE with an SPI", []byte{1, 8, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8}, nil, "delete an IKE SA"},
		{"IKE with a count", []byte{1, 0, 0xff, 0xff}, nil, "delete an IKE SA"},
		{"IKE with a rest", []byte{1, 0, 0, 0, 1}, nil, "in 1 octets"},
		{"ESP with 8", []byte{3, 8, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8}, nil, "SPI Size is 8"},
		{"ESP with 0", []byte{3, 0, 0xff, 0xff}, nil, "SPI Size is 0"},
		{"count above", []byte{3, 4, 0, 2, 0, 0, 0, 1}, nil, "2 SPIs of 4 octets in 4 octets"},
		{"count below", []byte{3, 4, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2}, nil, "1 SPIs of 4 octets in 8 octets"},
		{"count far above", []byte{3, 4, 0xff, 0xff}, nil, "65535 SPIs"},
		{"no protocol", []byte{0, 4, 0, 1, 0, 0, 0, 1}, nil, "Protocol ID is 0"},
		{"unknown protocol", []byte{9, 4, 0, 1, 0, 0, 0, 1}, nil, "Protocol ID is 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parseBody(PayloadDelete, c.body)
			if c.reason != "" {
				refused(t, err, PayloadDelete, c.reason)
			} else if err != nil || !slices.Equal(p.(*Delete).SPIs, c.spis) {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

func TestTrap_7296_108_CfgTypes(t *testing.T) {
	for _, kind := range []CfgType{CfgRequest, CfgReply, CfgSet, CfgAck, 77} { // all come through, for callers to ignore
		p, err := parseBody(PayloadCP, []byte{byte(kind), 0, 0, 0})
		if err != nil || p.(*CP).CfgType != kind {
			t.Errorf("%s: %+v, %v", kind, p, err)
		}
	}
	for n := range 9 { // INTERNAL_ADDRESS_EXPIRY is ignored, so no length of it is wrong
		if _, err := parseBody(PayloadCP, append([]byte{1, 0, 0, 0, 0, 5, 0, byte(n)}, make([]byte, n)...)); err != nil {
			t.Errorf("attribute 5 of %d octets: %v", n, err)
		}
	}
	version := []byte("cygnet")
	p, err := parseBody(PayloadCP, append([]byte{1, 0, 0, 0, 0, 7, 0, 6}, version...))
	if err != nil || !bytes.Equal(p.(*CP).Attributes[0].Value, version) {
		t.Errorf("APPLICATION_VERSION: %+v, %v", p, err)
	}
	for _, b := range [][]byte{{1, 0, 0, 0, 0}, {1, 0, 0, 0, 0, 7, 0}, {1, 0, 0, 0, 0, 7, 0, 1}, {1, 0, 0, 0, 0, 7, 0xff, 0xff, 1}, {1, 0, 0}} {
		if _, err := parseBody(PayloadCP, b); err == nil {
			t.Errorf("%x is accepted", b)
		}
	}
}

func TestTrap_7296_78_NonESPMarker(t *testing.T) {
	b := append([]byte(NonESPMarker), message(PayloadNone)...)
	if len(NonESPMarker) != 4 || !bytes.Equal(b[:4], make([]byte, 4)) {
		t.Errorf("marker %x", NonESPMarker)
	}
	if _, err := Decode(b); err == nil { // it is in no length
		t.Error("the marker was taken for a part of the message")
	}
}

func TestTrap_CVE_1_SelectorLength(t *testing.T) {
	// CVE-2023-23009: a selector whose length is 0, huge or of the other family.
	for _, length := range []uint16{0, 1, 3, 4, 8, 15, 17, 40, 0xffff} {
		for _, kind := range []TSType{TSIPv4AddrRange, 6, 9, 255} {
			body := append([]byte{1, 0, 0, 0, byte(kind), 0, byte(length >> 8), byte(length)}, make([]byte, 12)...)
			_, err := parseBody(PayloadTSi, body)
			refused(t, err, PayloadTSi, "")
		}
	}
}
