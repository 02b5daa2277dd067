package auth

import (
	"encoding/hex"
	"strings"
	"testing"

	"cygnet/ike/wire"
)

// The order of words is found, or said.
func TestParseDN(t *testing.T) {
	const der = "3030310b3009060355040613024348311030" + "0e060355040a0c074578616d706c65310f300d06035504030c066777203c3e61"
	for _, c := range []struct{ in, out string }{
		{"C=CH, O=Example, CN=gw", "dn:CN=gw,O=Example,C=CH"},
		{"CN=gw,O=Example,C=CH", "dn:CN=gw,O=Example,C=CH"},
		{"dn:CN=gw,O=Example,C=CH", "dn:CN=gw,O=Example,C=CH"},
		{"dn:C=CH,O=Example,CN=gw", "dn:C=CH,O=Example,CN=gw"},
		{"asn1dn:CN=gw, O=Example", "dn:O=Example,CN=gw"},
		{"/C=CH/O=Example, Inc/CN=gw", `dn:CN=gw,O=Example\, Inc,C=CH`},
		{"c = CH; o = Example ;cn=gw", "dn:CN=gw,O=Example,C=CH"},
		{"DC=org, DC=example, CN=gw", "dn:CN=gw,DC=example,DC=org"},
		{"CN=gw, DC=example, DC=org", "dn:CN=gw,DC=example,DC=org"},
		{"C=CH, CN=gw, E=a@example", "dn:E=a@example,CN=gw,C=CH"},
		{"emailAddress=a@example, CN=gw, C=CH", "dn:E=a@example,CN=gw,C=CH"},
		{`O="Example, Inc", CN=" gw"`, `dn:CN=\ gw,O=Example\, Inc`},
		{`O=a\2cb, CN=c\+d`, `dn:CN=c\+d,O=a\,b`},
		{"C=CH, CN=a+UID=b", "dn:CN=a+UID=b,C=CH"},
		{"C=CH, 1.2.3.4=#040201ff", "dn:1.2.3.4=#040201ff,C=CH"},
		{"OID.2.5.4.3=x", "dn:CN=x"},
		{"CN=gw", "dn:CN=gw"},
		{`CN=\*`, `dn:CN=\*`},
		{"CN=bücher", "dn:CN=bücher"},
		{`CN=\c3\bc`, "dn:CN=ü"},
	} {
		id, err := ParseIdentity(c.in)
		if err != nil || id.Type != wire.IDDERASN1DN || strings.ReplaceAll(id.String(), `\\`, `\`) != c.out && id.String() != c.out {
			t.Errorf("%q prints %q, want %q (%v)", c.in, id, c.out, err)
		}
	}
	if id, err := ParseIdentity("C=CH, O=Example, CN=gw <>a"); err != nil || hex.EncodeToString([]byte(id.Data)) != der {
		t.Errorf("DER %x, %v", id.Data, err)
	}
	// What only looks like a name is none.
	for _, s := range []string{"a=b@example.org", "x.=y", "gw.example"} {
		if id, err := ParseIdentity(s); err == nil && id.Type == wire.IDDERASN1DN {
			t.Errorf("%q is a distinguished name", s)
		}
	}
}

// RFC 5280 section 7.1: kinds of strings, case and white space do not matter; order, number and kinds of attributes do.
func TestEqualDN(t *testing.T) {
	id := func(s string) Identity { return identity(t, s) }
	typed := func(tag byte, value string) Identity {
		v := string([]byte{0x06, 0x03, 0x55, 0x04, 0x03, tag, byte(len(value))}) + value
		return Identity{wire.IDDERASN1DN, string([]byte{0x30, byte(len(v) + 4), 0x31, byte(len(v) + 2), 0x30, byte(len(v))}) + v}
	}
	for _, c := range []struct {
		a, b Identity
		want bool
	}{
		{id("C=CH, CN=gw"), id("C=ch, CN=GW"), true},
		{id("C=CH, CN=my gw"), id("C=CH, CN= my   gw "), true},
		{id("CN=gw"), typed(0x13, "gw"), true}, // PrintableString
		{id("CN=gw"), typed(0x16, "gw"), true}, // IA5String
		{id("CN=gw"), typed(0x1e, "\x00g\x00w"), true},
		{id("CN=gü"), typed(0x14, "g\xfc"), true}, // T61String
		{id("CN=gw"), typed(0x04, "gw"), false},   // an OCTET STRING is no string
		{id("CN=\\ff"), typed(0x0c, "\xff"), true},
		{id("CN=gw+UID=x"), id("UID=x+CN=gw"), true},
		{id("CN=k"), id("CN=\u212a"), false}, // the Kelvin sign is no k
		{id("asn1dn:C=CH, CN=gw"), id("asn1dn:CN=gw, C=CH"), false},
		{id("C=CH, CN=gw"), id("C=CH, CN=gw, CN=gw"), false},
		{id("C=CH, CN=gw"), id("C=CH"), false},
		{id("C=CH, CN=gw"), id("C=CH, O=gw"), false},
		{id("C=CH, CN=gw+UID=x"), id("C=CH, CN=gw"), false},
		{id("C=CH, CN=gw+UID=x"), id("C=CH, CN=gw, UID=x"), false},
		{id("CN=gw"), id("CN=gw\\00"), false},
		{Identity{wire.IDDERASN1DN, "junk"}, Identity{wire.IDDERASN1DN, "junk"}, true},
		{Identity{wire.IDDERASN1DN, "junk"}, Identity{wire.IDDERASN1DN, "junl"}, false},
		{Identity{wire.IDDERASN1DN, "\x30\x00"}, Identity{wire.IDDERASN1DN, "\x30\x80\x00\x00"}, false},
	} {
		if c.a.Equal(c.b) != c.want || c.b.Equal(c.a) != c.want {
			t.Errorf("%v equal %v: want %v", c.a, c.b, c.want)
		}
	}
}

// The attributes of one RDN are a set, also where a CA did not sort them.
func TestUnsortedRDN(t *testing.T) {
	n, ok := readDN([]byte(identity(t, "CN=gw+UID=x, C=CH").Data))
	if !ok {
		t.Fatal("no name")
	}
	back := dn{n[0], {n[1][1], n[1][0]}}
	if !n.equal(back) || n.equal(dn{n[1], n[0]}) {
		t.Errorf("%v equal %v", n, back)
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"*", []string{"gw.example", "192.0.2.1", "C=CH, CN=x", "keyid:x"}, nil},
		{"%any", []string{"gw.example"}, nil},
		{"gw.example", []string{"GW.example"}, []string{"gx.example", "rfc822:gw.example"}},
		{"*.example.com", []string{"gw.example.com", "GW.EXAMPLE.com"}, []string{"example.com", "a.b.example.com", "fqdn:.example.com", "gwexample.com", "gw.example.org", "fqdn:*.example.com", "x@gw.example.com"}},
		{"@*.example.com", []string{"gw.example.com"}, []string{"example.com"}},
		{"*@example.com", []string{"a@example.com", "a.b@EXAMPLE.com", "a@b@example.com"}, []string{"rfc822:@example.com", "a@sub.example.com", "a@example.com.org", "example.com"}},
		{"C=CH, O=Example, CN=*", []string{"C=CH, O=Example, CN=gw", "C=ch, O=example, CN=x y"}, []string{"C=CH, O=Example", "C=CH, O=Other, CN=gw", "C=CH, O=Example, OU=gw", "C=CH, O=Example, CN=gw, CN=x", "C=CH, O=Example, CN=a+UID=b"}},
		{"dn:CN=*,DC=*", []string{"DC=x, CN=y"}, []string{"DC=x, DC=z, CN=y"}},
		{`O=*, CN=\*`, []string{`O=x, CN=\*`}, []string{"O=x, CN=y"}},
		{`CN=\*`, []string{`CN=\*`}, []string{"CN=y"}},
		{"fqdn:*.example", []string{"fqdn:*.example"}, []string{"gw.example"}},
		{"192.0.2.1", []string{"192.0.2.1"}, []string{"192.0.2.2", "::ffff:192.0.2.1"}},
	} {
		p := pattern(t, c.pattern)
		for _, s := range c.yes {
			if !p.Matches(identity(t, s)) {
				t.Errorf("%s does not match %s", c.pattern, s)
			}
		}
		for _, s := range c.no {
			if p.Matches(identity(t, s)) {
				t.Errorf("%s matches %s", c.pattern, s)
			}
		}
		if again, err := ParsePattern(p.String()); err != nil || again != p && !strings.Contains(p.String(), `\`) {
			t.Errorf("%s prints as %s, which is %v, %v", c.pattern, p, again, err)
		}
		if p.Matches(Identity{wire.IDNull, ""}) || p.Matches(Identity{}) {
			t.Errorf("%s matches nobody", c.pattern)
		}
		if _, exact := p.Exact(); exact == strings.Contains(strings.ReplaceAll(c.pattern, `\*`, ""), "*") && !strings.HasPrefix(c.pattern, "fqdn") && !p.Any() {
			t.Errorf("%s is exact: %v", c.pattern, exact)
		}
	}
	for s, hint := range map[string]string{
		"": "empty label", "gw.*.example": "whole label", "g*.example": "whole label", "*example": "whole label", "*.": "empty label", "*@": "empty label",
		"*@*.example": "'*' does not belong", "C=CH, CN=*+UID=x": "beside", "**": "whole label", "*.192.0.2.1": "looks like", "user*@example": "whole label", "*.a@example": "'@'",
	} {
		if p, err := ParsePattern(s); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q is %v, %v; want %q", s, p, err, hint)
		}
	}
	if p := ExactPattern(Identity{}); !p.Any() {
		t.Error("no identity is a pattern")
	}
}

// TestHalfSurrogates: a BMPString with half a pair is no text; two such values are not equal because neither can be read.
func TestHalfSurrogates(t *testing.T) {
	value := func(b ...byte) string {
		der, err := dn{{{oid: "2.5.4.3", tag: tagBMP, value: b}}}.der()
		if err != nil {
			t.Fatal(err)
		}
		return string(der)
	}
	if equalDN(value(0xd8, 0), value(0xd8, 1)) || equalDN(value(0xd8, 0), value(0xff, 0xfd)) {
		t.Error("names that cannot be read are equal")
	}
	if !equalDN(value(0xd8, 0), value(0xd8, 0)) {
		t.Error("a name is not equal to itself")
	}
}
