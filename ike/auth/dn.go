package auth

import (
	"bytes"
	"encoding/asn1"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// attribute is an AttributeTypeAndValue of a distinguished name (RFC 5280 section 4.1.2.4).
type attribute struct {
	oid   string // dotted
	tag   cbasn1.Tag
	value []byte // without tag and length
}

// dn is an RDNSequence in the order of its DER.
type dn [][]attribute

// readDN reads a whole DER Name. It takes what certificates have in them, and refuses what can be read in two ways.
func readDN(der []byte) (dn, bool) {
	in := cryptobyte.String(der)
	var body cryptobyte.String
	if !in.ReadASN1(&body, cbasn1.SEQUENCE) || !in.Empty() {
		return nil, false
	}
	var name dn
	for !body.Empty() {
		var set cryptobyte.String
		if !body.ReadASN1(&set, cbasn1.SET) || set.Empty() {
			return nil, false
		}
		var rdn []attribute
		for !set.Empty() {
			var pair, value cryptobyte.String
			var oid asn1.ObjectIdentifier
			var a attribute
			if !set.ReadASN1(&pair, cbasn1.SEQUENCE) || !pair.ReadASN1ObjectIdentifier(&oid) || !pair.ReadAnyASN1(&value, &a.tag) || !pair.Empty() {
				return nil, false
			}
			a.oid, a.value = oid.String(), value
			rdn = append(rdn, a)
		}
		name = append(name, rdn)
	}
	return name, true
}

// der encodes a name; the elements of a SET OF stand in ascending order (X.690 section 11.6).
func (n dn) der() ([]byte, error) {
	var b cryptobyte.Builder
	b.AddASN1(cbasn1.SEQUENCE, func(b *cryptobyte.Builder) {
		for _, rdn := range n {
			pairs := make([][]byte, len(rdn))
			for i, a := range rdn {
				var p cryptobyte.Builder
				p.AddASN1(cbasn1.SEQUENCE, a.add)
				pairs[i] = p.BytesOrPanic() // a dotted number that was read before
			}
			slices.SortFunc(pairs, bytes.Compare)
			b.AddASN1(cbasn1.SET, func(b *cryptobyte.Builder) { b.AddBytes(bytes.Join(pairs, nil)) })
		}
	})
	return b.Bytes()
}

func (a attribute) add(b *cryptobyte.Builder) {
	b.AddASN1ObjectIdentifier(parseOID(a.oid))
	b.AddASN1(a.tag, func(b *cryptobyte.Builder) { b.AddBytes(a.value) })
}

// Tags of strings that cryptobyte does not name.
const (
	tagNumeric   = cbasn1.Tag(18)
	tagVisible   = cbasn1.Tag(26)
	tagUniversal = cbasn1.Tag(28)
	tagBMP       = cbasn1.Tag(30)
)

// text decodes a value that is a string of any kind; invalid ones are none.
func (a attribute) text() (string, bool) {
	switch a.tag {
	case cbasn1.UTF8String, cbasn1.PrintableString, cbasn1.IA5String, tagNumeric, tagVisible:
		return string(a.value), utf8.Valid(a.value)
	case cbasn1.T61String: // in practice Latin-1
		runes := make([]rune, len(a.value))
		for i, c := range a.value {
			runes[i] = rune(c)
		}
		return string(runes), true
	case tagBMP:
		if len(a.value)%2 != 0 {
			return "", false
		}
		units := make([]uint16, len(a.value)/2)
		for i := range units {
			units[i] = uint16(a.value[2*i])<<8 | uint16(a.value[2*i+1])
		}
		s := string(utf16.Decode(units))
		return s, !strings.ContainsRune(s, utf8.RuneError) // half a surrogate pair
	}
	return "", false
}

// key is equal for values that are equal: strings of whatever kind without regard to ASCII's cases and to the amount of white space
// (RFC 5280 section 7.1), others octet for octet. No two letters but ASCII's cases are equal here, which RFC 4518 would sometimes allow.
func (a attribute) key() string {
	s, ok := a.text()
	if !ok {
		return a.oid + "#" + string([]byte{byte(a.tag)}) + string(a.value)
	}
	return a.oid + "=" + strings.Join(strings.FieldsFunc(lower(s), func(r rune) bool { return r == ' ' }), " ")
}

// keys are those of an RDN, whose order does not matter.
func keys(rdn []attribute) []string {
	ks := make([]string, len(rdn))
	for i, a := range rdn {
		ks[i] = a.key()
	}
	slices.Sort(ks)
	return ks
}

// equal compares names RDN by RDN: all of them, in order.
func (n dn) equal(o dn) bool {
	return slices.EqualFunc(n, o, func(a, b []attribute) bool { return slices.Equal(keys(a), keys(b)) })
}

// under reports whether the name begins with those of base (RFC 5280 section 4.2.1.10 for directoryName).
func (n dn) under(base dn) bool { return len(n) >= len(base) && n[:len(base)].equal(base) }

// matches is equal, but for values "*" of the pattern, which stand for any value of the same attribute.
func (n dn) matches(pattern dn) bool {
	return slices.EqualFunc(n, pattern, func(a, want []attribute) bool {
		if len(a) != len(want) {
			return false
		}
		if len(want) == 1 && want[0].isStar() {
			return a[0].oid == want[0].oid
		}
		return slices.Equal(keys(a), keys(want))
	})
}

func (a attribute) isStar() bool { return a.tag == cbasn1.UTF8String && string(a.value) == "*" }

// equalDN compares two DER names; octets that are no name are equal to themselves alone.
func equalDN(a, b string) bool {
	if a == b {
		return true
	}
	x, ok := readDN([]byte(a))
	y, ok2 := readDN([]byte(b))
	return ok && ok2 && x.equal(y)
}

// dnText is how a DER name is shown: RFC 4514, printable and bounded.
func dnText(der []byte) string {
	n, ok := readDN(der)
	switch {
	case !ok:
		return "a name that cannot be read"
	case len(n) == 0:
		return "an empty name"
	}
	return text(n.String())
}
