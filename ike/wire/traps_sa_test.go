package wire

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
)

// proposal and transform build substructures; last and lengths are put right by sa.
func proposal(protocol ProtocolID, spi []byte, transforms ...[]byte) []byte {
	p := append([]byte{0, 0, 0, 0, 1, byte(protocol), byte(len(spi)), byte(len(transforms))}, spi...)
	for i, t := range transforms {
		closeSubstructure(t, i < len(transforms)-1, moreTransforms)
		p = append(p, t...)
	}
	return p
}

func transform(t TransformType, id uint16, attributes ...byte) []byte {
	return append([]byte{0, 0, 0, 0, byte(t), 0, byte(id >> 8), byte(id)}, attributes...)
}

func sa(proposals ...[]byte) []byte {
	var body []byte
	for i, p := range proposals {
		closeSubstructure(p, i < len(proposals)-1, moreProposals)
		body = append(body, p...)
	}
	return body
}

func TestTrap_7296_26_SPISize(t *testing.T) {
	for _, c := range []struct {
		protocol ProtocolID
		sizes    []int
	}{
		{ProtoIKE, []int{0, 8}},
		{ProtoESP, []int{4}},
		{ProtoAH, []int{4}},
	} {
		for size := range 12 {
			spi := []byte("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c")[:size]
			p, err := parseBody(PayloadSA, sa(proposal(c.protocol, spi, transform(TransformESN, 0))))
			if !slices.Contains(c.sizes, size) {
				refused(t, err, PayloadSA, "SPI Size")
				continue
			}
			if err != nil || !bytes.Equal(p.(*SA).Proposals[0].SPI, spi) { // opaque octets, in their order
				t.Errorf("%s SPI of %d octets: %+v, %v", c.protocol, size, p, err)
			}
		}
	}
	// A proposal for a protocol that we do not know is no reason to refuse the others (section 3.3.6).
	if _, err := parseBody(PayloadSA, sa(proposal(77, []byte("12345"), transform(TransformESN, 0)))); err != nil {
		t.Error(err)
	}
	_, err := parseBody(PayloadSA, []byte{0, 0, 0, 8, 1, 77, 200, 1})
	refused(t, err, PayloadSA, "SPI Size is 200")
}

func TestTrap_7296_27_KeyLength(t *testing.T) {
	for _, c := range []struct {
		name     string
		b        []byte
		bits     uint16
		unusable bool
	}{
		{"AES-256", transform(TransformEncr, EncrAESCBC, 0x80, 14, 1, 0), 256, false},
		{"AES without", transform(TransformEncr, EncrAESCBC), 0, true},
		{"AES-GCM without", transform(TransformEncr, EncrAESGCM16), 0, true},
		{"AES with 0", transform(TransformEncr, EncrAESCBC, 0x80, 14, 0, 0), 0, true},
		{"AES twice", transform(TransformEncr, EncrAESCBC, 0x80, 14, 1, 0, 0x80, 14, 1, 0), 256, true},
		{"AES long form", transform(TransformEncr, EncrAESCBC, 0, 14, 0, 2, 1, 0), 0, true},
		{"AES in both forms", transform(TransformEncr, EncrAESCBC, 0x80, 14, 1, 0, 0, 14, 0, 2, 1, 0), 256, true},
		{"3DES", transform(TransformEncr, Encr3DES), 0, false},
		{"3DES with", transform(TransformEncr, Encr3DES, 0x80, 14, 0, 192), 192, true},
		{"3DES with 0", transform(TransformEncr, Encr3DES, 0x80, 14, 0, 0), 0, true},
		{"ChaCha20-Poly1305", transform(TransformEncr, EncrChaCha20Poly1305), 0, false},
		{"ChaCha20-Poly1305 with", transform(TransformEncr, EncrChaCha20Poly1305, 0x80, 14, 1, 0), 256, true},
		{"Blowfish without", transform(TransformEncr, EncrBlowfish), 0, false},
		{"Blowfish with", transform(TransformEncr, EncrBlowfish, 0x80, 14, 0, 128), 128, false},
		{"PRF with", transform(TransformPRF, uint16(PRFHMACSHA256), 0x80, 14, 1, 0), 256, true},
		{"INTEG with", transform(TransformInteg, IntegSHA256_128, 0x80, 14, 1, 0), 256, true},
		{"KE with", transform(TransformKE, uint16(GroupECP256), 0x80, 14, 1, 0), 256, true},
		{"ESN with", transform(TransformESN, ESNNo, 0x80, 14, 1, 0), 256, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parseBody(PayloadSA, sa(proposal(ProtoIKE, nil, c.b)))
			if err != nil {
				t.Fatal(err)
			}
			got := p.(*SA).Proposals[0].Transforms[0]
			if got.KeyBits != c.bits || got.Unusable != c.unusable {
				t.Errorf("got %+v", got)
			}
			if _, _, err := AppendPayloads(nil, []Payload{p}); (err != nil) != c.unusable {
				t.Errorf("encoded again: %v", err)
			}
		})
	}
}

func TestTrap_7296_28_UnknownAttribute(t *testing.T) {
	good := []byte{0x80, 14, 1, 0}
	for _, c := range []struct {
		name  string
		attrs []byte
	}{
		{"short form", []byte{0x80, 99, 1, 2}},
		{"long form", []byte{0, 99, 0, 3, 1, 2, 3}},
		{"long form, empty", []byte{0, 99, 0, 0}},
		{"before Key Length", slices.Concat([]byte{0, 99, 0, 1, 7}, good)},
		{"behind Key Length", slices.Concat(good, []byte{0x80, 99, 0, 0})},
	} {
		p, err := parseBody(PayloadSA, sa(proposal(ProtoIKE, nil,
			transform(TransformEncr, EncrAESCBC, c.attrs...), transform(TransformEncr, EncrAESCBC, good...), transform(99, 7))))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		got := p.(*SA).Proposals[0].Transforms
		if !got[0].Unusable || got[1].Unusable || got[1].KeyBits != 256 || got[2] != (Transform{Type: 99, ID: 7}) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	for _, attrs := range [][]byte{{0x80}, {0x80, 14}, {0x80, 14, 1}, {0, 99, 0, 1}, {0, 99, 0xff, 0xff, 1}, {0x80, 14, 1, 0, 0}} {
		_, err := parseBody(PayloadSA, sa(proposal(ProtoIKE, nil, transform(TransformEncr, EncrAESCBC, attrs...))))
		refused(t, err, PayloadSA, "are left")
	}
}

func TestTrap_7296_29_AEADAndNone(t *testing.T) {
	aead := transform(TransformEncr, EncrAESGCM16, 0x80, 14, 1, 0)
	p, err := parseBody(PayloadSA, sa(
		proposal(ProtoIKE, nil, aead),
		proposal(ProtoIKE, nil, slices.Clone(aead), transform(TransformInteg, IntegNone)),
		proposal(ProtoIKE, nil, transform(TransformEncr, Encr3DES))))
	if err != nil {
		t.Fatal(err)
	}
	got := p.(*SA).Proposals
	none := Transform{Type: TransformInteg, ID: IntegNone}
	if len(got) != 3 || len(got[0].Transforms) != 1 || got[1].Transforms[1] != none || got[2].Transforms[0].Unusable {
		t.Errorf("%+v", got)
	}
}

func TestTrap_7296_30_ESN(t *testing.T) {
	p, err := parseBody(PayloadSA, sa(
		proposal(ProtoESP, []byte("1234"), transform(TransformESN, ESNNo), transform(TransformESN, ESNYes)),
		proposal(ProtoESP, []byte("1234"), transform(TransformEncr, EncrNull))))
	if err != nil {
		t.Fatal(err)
	}
	got := p.(*SA).Proposals
	want := []Transform{{Type: TransformESN, ID: ESNNo}, {Type: TransformESN, ID: ESNYes}}
	if !reflect.DeepEqual(got[0].Transforms, want) || len(got[1].Transforms) != 1 { // none is made up where none is
		t.Errorf("%+v", got)
	}
}

func TestTrap_7296_83_SAStructure(t *testing.T) {
	whole := func() []byte {
		return sa(
			proposal(ProtoIKE, nil, transform(TransformEncr, EncrAESCBC, 0x80, 14, 1, 0), transform(TransformPRF, 5)),
			proposal(ProtoIKE, nil, transform(TransformKE, 31)))
	}
	if _, err := parseBody(PayloadSA, whole()); err != nil {
		t.Fatal(err)
	}
	// Offsets: proposal 1 at 0 (28 octets), its transforms at 8 (12) and 20 (8), proposal 2 at 28, its transform at 36.
	for _, c := range []struct {
		name   string
		at     int
		v      byte
		reason string
	}{
		{"first proposal says last", 0, 0, "Last Substruc is 0, by the lengths it is 2"},
		{"last proposal says more", 28, 2, "Last Substruc is 2, by the lengths it is 0"},
		{"proposal says 3", 0, 3, "Last Substruc is 3"},
		{"first transform says last", 8, 0, "Last Substruc is 0"},
		{"last transform says more", 20, 3, "Last Substruc is 3"},
		{"transform says 2", 8, 2, "Last Substruc is 2"},
		{"proposal of 0 octets", 3, 0, "substructure length is 0"},
		{"proposal of 7 octets", 3, 7, "substructure length is 7"},
		{"proposal to the end", 3, 44, "Last Substruc is 2, by the lengths it is 0"},
		{"proposal past the end", 3, 45, "substructure length is 45"},
		{"proposal short", 3, 27, "7 octets are left"},
		{"transform of 0 octets", 11, 0, "substructure length is 0"},
		{"transform of 7 octets", 11, 7, "substructure length is 7"},
		{"transform past its proposal", 11, 21, "substructure length is 21"},
		{"transform short", 11, 10, "octets are left"},
		{"fewer transforms", 7, 1, "Num Transforms is 1, there are more"},
		{"more transforms", 7, 3, "Num Transforms is 3, there are 2"},
		{"no transforms counted", 7, 0, "Num Transforms is 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := whole()
			b[c.at] = c.v
			_, err := parseBody(PayloadSA, b)
			refused(t, err, PayloadSA, c.reason)
		})
	}
	_, err := parseBody(PayloadSA, nil)
	refused(t, err, PayloadSA, "no proposal")
	_, err = parseBody(PayloadSA, sa(proposal(ProtoIKE, nil)))
	refused(t, err, PayloadSA, "Num Transforms is 0")
	b := whole()
	for _, reserved := range []int{1, 9, 13, 21, 29} {
		b[reserved] = 0xff
	}
	if _, err := parseBody(PayloadSA, b); err != nil {
		t.Errorf("RESERVED: %v", err)
	}
}
