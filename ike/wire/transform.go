package wire

import "encoding/binary"

// attrTV is the Attribute Format bit: set, the two octets after the type are the value; clear, they are its length (section 3.3.5).
const attrTV = 0x8000

// parseTransform decodes a transform. Attributes that do not fit make it Unusable, for the rest of the offer still counts
// (section 3.3.6); attributes that run past its end are an error.
func parseTransform(b []byte) (Transform, error) {
	t := Transform{Type: TransformType(b[4]), ID: binary.BigEndian.Uint16(b[6:])}
	keyLengths := 0
	for at := transformLen; at < len(b); {
		if len(b)-at < 4 {
			return t, malformed(at, "%d octets are left, an attribute has at least 4", len(b)-at)
		}
		kind, value := binary.BigEndian.Uint16(b[at:]), binary.BigEndian.Uint16(b[at+2:])
		at += 4
		if kind == attrTV|attrKeyLength {
			t.KeyBits = value
			keyLengths++
			continue
		}
		// Key Length in the long form is not a Key Length: section 3.3.5 forbids it.
		t.Unusable = true
		if kind&attrTV == 0 {
			if int(value) > len(b)-at {
				return t, malformed(at-2, "attribute length is %d, %d octets are left", value, len(b)-at)
			}
			at += int(value)
		}
	}
	if keyLengths > 1 || keyLengths == 1 && t.KeyBits == 0 || !keyLengthFits(t) {
		t.Unusable = true
	}
	return t, nil
}

// keyLengthFits reports whether the transform has a Key Length where it needs one and none where it may have none (section 3.3.5).
func keyLengthFits(t Transform) bool {
	if t.Type != TransformEncr {
		return t.KeyBits == 0
	}
	switch keyLengthOf(t.ID) {
	case keyLengthRequired:
		return t.KeyBits != 0
	case keyLengthForbidden:
		return t.KeyBits == 0
	default:
		return true
	}
}

// keyLength says what an encryption algorithm does with the Key Length attribute.
type keyLength uint8

const (
	keyLengthOptional keyLength = iota // a default exists, or we do not know the algorithm
	keyLengthRequired
	keyLengthForbidden
)

func keyLengthOf(encr uint16) keyLength {
	switch encr {
	case EncrAESCBC, EncrAESCTR, EncrAESCCM8, EncrAESCCM12, EncrAESCCM16, EncrAESGCM8, EncrAESGCM12, EncrAESGCM16,
		EncrNullAuthAESGMAC, EncrCamelliaCBC, EncrCamelliaCTR, EncrCamelliaCCM8, EncrCamelliaCCM12, EncrCamelliaCCM16,
		EncrAESCCM8IIV, EncrAESGCM16IIV:
		return keyLengthRequired
	case EncrDESIV64, EncrDES, Encr3DES, EncrIDEA, EncrDESIV32, EncrNull, EncrChaCha20Poly1305, EncrChaCha20Poly1305IIV,
		EncrKuznyechikMGM, EncrMagmaMGM, EncrKuznyechikMGMMAC, EncrMagmaMGMMAC:
		return keyLengthForbidden
	default:
		return keyLengthOptional
	}
}

// append encodes t; Last Substruc and the length are filled in by closeSubstructure. An Unusable transform cannot be encoded:
// its attributes were not kept, and it is never answered.
func (t Transform) append(b []byte) ([]byte, error) {
	if t.Unusable || !keyLengthFits(t) {
		return b, unencodable(PayloadSA, "%s with key length %d is not a usable transform", t, t.KeyBits)
	}
	b = append(b, 0, 0, 0, 0, byte(t.Type), 0)
	b = binary.BigEndian.AppendUint16(b, t.ID)
	if t.KeyBits != 0 {
		b = binary.BigEndian.AppendUint16(b, attrTV|attrKeyLength)
		b = binary.BigEndian.AppendUint16(b, t.KeyBits)
	}
	return b, nil
}
