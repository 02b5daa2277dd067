package auth

import (
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	cbasn1 "golang.org/x/crypto/cryptobyte/asn1"
)

// attributeTypes are the words for attribute types (RFC 4514 section 3, RFC 5280 appendix A), the one to print first. rank tells in which order a name is
// written: from the world to the person it grows.
var attributeTypes = []struct {
	oid   string
	rank  int
	words []string
}{
	{"2.5.4.6", 0, []string{"C"}},
	{"0.9.2342.19200300.100.1.25", 0, []string{"DC"}},
	{"2.5.4.8", 1, []string{"ST", "S"}},
	{"2.5.4.7", 2, []string{"L"}},
	{"2.5.4.9", 2, []string{"STREET"}},
	{"2.5.4.10", 3, []string{"O"}},
	{"2.5.4.97", 3, []string{"ORGANIZATIONIDENTIFIER"}},
	{"2.5.4.11", 4, []string{"OU"}},
	{"2.5.4.3", 5, []string{"CN"}},
	{"0.9.2342.19200300.100.1.1", 5, []string{"UID"}},
	{"1.2.840.113549.1.9.1", 5, []string{"E", "EMAIL", "EMAILADDRESS"}},
	{"2.5.4.5", 5, []string{"SERIALNUMBER"}},
	{"2.5.4.4", 5, []string{"SURNAME", "SN"}},
	{"2.5.4.42", 5, []string{"GN", "G", "GIVENNAME"}},
	{"2.5.4.12", 5, []string{"T", "TITLE"}},
	{"2.5.4.43", 5, []string{"I", "INITIALS"}},
	{"2.5.4.44", 5, []string{"GENERATIONQUALIFIER"}},
	{"2.5.4.46", 5, []string{"DNQUALIFIER", "DNQ"}},
	{"2.5.4.13", 5, []string{"D", "DESCRIPTION"}},
	{"2.5.4.41", 5, []string{"N", "NAME"}},
	{"2.5.4.65", 5, []string{"PSEUDONYM"}},
	{"1.2.840.113549.1.9.2", 5, []string{"UNSTRUCTUREDNAME"}},
	{"1.2.840.113549.1.9.8", 5, []string{"UNSTRUCTUREDADDRESS"}},
}

// String is RFC 4514: the last RDN first, what is special escaped.
func (n dn) String() string { return n.write(attribute.String) }

// pattern is String with bare asterisks where any value will do.
func (n dn) pattern() string {
	return n.write(func(a attribute) string {
		if a.isStar() {
			return strings.TrimSuffix(a.String(), `\*`) + "*"
		}
		return a.String()
	})
}

func (n dn) write(pair func(attribute) string) string {
	rdns := make([]string, len(n))
	for i, rdn := range n {
		pairs := make([]string, len(rdn))
		for j, a := range rdn {
			pairs[j] = pair(a)
		}
		rdns[len(n)-1-i] = strings.Join(pairs, "+")
	}
	return strings.Join(rdns, ",")
}

func (a attribute) String() string {
	word := a.oid
	for _, t := range attributeTypes {
		if t.oid == a.oid {
			word = t.words[0]
		}
	}
	s, ok := a.text()
	if !ok {
		var b cryptobyte.Builder
		b.AddASN1(a.tag, func(b *cryptobyte.Builder) { b.AddBytes(a.value) })
		der, err := b.Bytes()
		if err != nil { // a tag of more than one octet
			der = a.value
		}
		return word + "=#" + hex.EncodeToString(der)
	}
	return word + "=" + escapeValue(s)
}

// escapeValue is RFC 4514 section 2.4; "=" is escaped too, as other writers do. An asterisk alone is, because it means any value in a Pattern.
func escapeValue(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\%02x`, r)
			continue
		case strings.ContainsRune(`,+"\<>;=`, r), r == ' ' && (i == 0 || i == len(s)-1), r == '#' && i == 0, s == "*":
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

// looksLikeDN reports whether words begin like a distinguished name: an attribute type and "=".
func looksLikeDN(s string) bool {
	word, _, ok := strings.Cut(strings.TrimPrefix(s, "/"), "=")
	return ok && attributeOID(strings.TrimSpace(word)) != ""
}

// The order in which the words of a distinguished name stand.
type dnOrder uint8

const (
	orderGuess dnOrder = iota // by rank: the wider the first, as certificates have it, or RFC 4514 the other way round
	orderDER                  // as certificates have it
	orderRFC4514
)

// parseDN reads "C=CH, O=Example, CN=gw" or "/C=CH/O=Example/CN=gw". wild allows "*" for a value; the second result says whether there was one.
func parseDN(s string, order dnOrder, wild bool) (dn, bool, error) {
	separators := ",;"
	if strings.HasPrefix(s, "/") {
		s, separators, order = s[1:], "/", orderDER
	}
	r := &dnReader{rest: s, separators: separators}
	var n dn
	rdn := []attribute{}
	star := false
	for {
		a, isStar, err := r.attribute()
		if err != nil {
			return nil, false, err
		}
		if isStar && !wild {
			return nil, false, errors.New(`"*" stands for any value, which a pattern may have and an identity has not; an asterisk itself is written \*`)
		}
		star = star || isStar
		rdn = append(rdn, a)
		more, plus := r.separator()
		if !plus {
			if star && len(rdn) > 1 && slices.ContainsFunc(rdn, attribute.isStar) {
				return nil, false, errors.New(`"*" cannot stand beside "+"`)
			}
			n = append(n, rdn)
			rdn = nil
		}
		if !more {
			break
		}
	}
	if order == orderRFC4514 || order == orderGuess && rank(n[0]) > rank(n[len(n)-1]) {
		slices.Reverse(n)
	}
	return n, star, nil
}

func rank(rdn []attribute) int {
	for _, t := range attributeTypes {
		if t.oid == rdn[0].oid {
			return t.rank
		}
	}
	return 5
}

type dnReader struct {
	rest       string
	separators string
}

// attribute reads "TYPE = value" up to a separator or "+".
func (r *dnReader) attribute() (a attribute, star bool, err error) {
	word, rest, ok := strings.Cut(r.rest, "=")
	word = strings.TrimSpace(word)
	if !ok || strings.ContainsAny(word, r.separators) {
		return a, false, fmt.Errorf("%q is not TYPE=value; a distinguished name is written C=CH, O=Example, CN=gateway", text(word))
	}
	if a.oid = attributeOID(word); a.oid == "" {
		return a, false, fmt.Errorf(`the attribute type %q is not known; "C", "O", "OU", "CN" are, or a dotted number`, text(word))
	}
	r.rest = strings.TrimLeft(rest, " ")
	if strings.HasPrefix(r.rest, "#") {
		return a, false, r.hexValue(&a)
	}
	escaped := strings.HasPrefix(r.rest, `\`) || strings.HasPrefix(r.rest, `"`)
	value, err := r.value()
	if err != nil {
		return a, false, err
	}
	if value == "" {
		return a, false, fmt.Errorf("%s has no value", text(word))
	}
	a.value, a.tag = []byte(value), stringTag(a.oid, value)
	if star = value == "*" && !escaped; value == "*" {
		a.tag = cbasn1.IA5String // an asterisk that means itself
		if star {
			a.tag = cbasn1.UTF8String
		}
	}
	return a, star, nil
}

// hexValue reads "#" and the DER of a value.
func (r *dnReader) hexValue(a *attribute) error {
	end := strings.IndexAny(r.rest, r.separators+"+")
	if end < 0 {
		end = len(r.rest)
	}
	der, err := hex.DecodeString(strings.TrimSpace(r.rest[1:end]))
	in := cryptobyte.String(der)
	var value cryptobyte.String
	if err != nil || !in.ReadAnyASN1(&value, &a.tag) || !in.Empty() {
		return errors.New("after # come hexadecimal digits of a DER value")
	}
	a.value, r.rest = value, r.rest[end:]
	return nil
}

// value reads up to a separator that is neither escaped nor quoted; spaces around it do not count.
func (r *dnReader) value() (string, error) {
	var b strings.Builder
	keep := 0 // octets that trimming must leave
	quoted := false
	for i := 0; i < len(r.rest); i++ {
		c := r.rest[i]
		switch {
		case c == '\\':
			var err error
			if c, i, err = r.escape(i); err != nil {
				return "", err
			}
			b.WriteByte(c)
			keep = b.Len()
			continue
		case c == '"':
			quoted = !quoted
			keep = b.Len()
			continue
		case !quoted && (c == '+' || strings.IndexByte(r.separators, c) >= 0):
			r.rest = r.rest[i:]
			return trimAfter(b.String(), keep), nil
		}
		b.WriteByte(c)
	}
	if quoted {
		return "", errors.New("a quotation mark is not closed")
	}
	r.rest = ""
	return trimAfter(b.String(), keep), nil
}

// escape reads "\c" or "\hh" at i, and returns where it ends.
func (r *dnReader) escape(i int) (byte, int, error) {
	if i+2 < len(r.rest) {
		if b, err := hex.DecodeString(r.rest[i+1 : i+3]); err == nil {
			return b[0], i + 2, nil
		}
	}
	if i+1 < len(r.rest) {
		return r.rest[i+1], i + 1, nil
	}
	return 0, 0, errors.New(`a "\" stands at the end`)
}

func trimAfter(s string, keep int) string { return s[:keep] + strings.TrimRight(s[keep:], " ") }

// separator passes one and says whether another attribute follows, and whether it belongs to the same RDN.
func (r *dnReader) separator() (more, plus bool) {
	if r.rest == "" {
		return false, false
	}
	plus = r.rest[0] == '+'
	r.rest = r.rest[1:]
	return true, plus
}

// attributeOID is "" for a word that is not known.
func attributeOID(word string) string {
	upper := strings.ToUpper(word)
	for _, t := range attributeTypes {
		if slices.Contains(t.words, upper) {
			return t.oid
		}
	}
	dotted := strings.TrimPrefix(upper, "OID.")
	if parseOID(dotted) == nil {
		return ""
	}
	return dotted
}

// parseOID reads a dotted number in its one spelling; nil for all else.
func parseOID(s string) asn1.ObjectIdentifier {
	var oid asn1.ObjectIdentifier
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil || strconv.FormatUint(n, 10) != part {
			return nil
		}
		oid = append(oid, int(n))
	}
	if len(oid) < 2 || len(oid) > 32 || oid[0] > 2 || oid[0] < 2 && oid[1] >= 40 {
		return nil
	}
	return oid
}

// stringTag is the type of string that CAs write (RFC 5280 section 4.1.2.4 and appendix A).
func stringTag(oid, value string) cbasn1.Tag {
	switch oid {
	case "2.5.4.6", "2.5.4.5", "2.5.4.46": // country, serialNumber, dnQualifier
		if !strings.ContainsFunc(value, notPrintableString) {
			return cbasn1.PrintableString
		}
	case "0.9.2342.19200300.100.1.25", "1.2.840.113549.1.9.1": // domainComponent, emailAddress
		if !strings.ContainsFunc(value, func(r rune) bool { return r > 0x7f }) {
			return cbasn1.IA5String
		}
	}
	return cbasn1.UTF8String
}

func notPrintableString(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(" '()+,-./:=?", r))
}
