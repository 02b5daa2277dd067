package auth

import (
	"strings"
	"testing"

	"cygnet/ike/wire"
)

func TestParseIdentity(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Identity
		out  string // String when it differs from in
	}{
		{"192.0.2.1", Identity{wire.IDIPv4Addr, "\xc0\x00\x02\x01"}, ""},
		{"ipv4:192.0.2.1", Identity{wire.IDIPv4Addr, "\xc0\x00\x02\x01"}, "192.0.2.1"},
		{"2001:db8::1", Identity{wire.IDIPv6Addr, "\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01"}, ""},
		{"ipv6:::1", Identity{wire.IDIPv6Addr, strings.Repeat("\x00", 15) + "\x01"}, "::1"},
		{"IPv6:::1", Identity{wire.IDIPv6Addr, strings.Repeat("\x00", 15) + "\x01"}, "::1"},
		{"::ffff:192.0.2.1", Identity{wire.IDIPv6Addr, strings.Repeat("\x00", 10) + "\xff\xff\xc0\x00\x02\x01"}, ""},
		{"gw-a.example", Identity{wire.IDFQDN, "gw-a.example"}, ""},
		{"@gw-a.example", Identity{wire.IDFQDN, "gw-a.example"}, "gw-a.example"},
		{"gateway", Identity{wire.IDFQDN, "gateway"}, ""},
		{"GW_a.Example", Identity{wire.IDFQDN, "GW_a.Example"}, ""},
		{"fqdn:192.0.2.1", Identity{wire.IDFQDN, "192.0.2.1"}, ""},
		{"fqdn:two words", Identity{wire.IDFQDN, "two words"}, ""},
		{"fqdn:a@b.example", Identity{wire.IDFQDN, "a@b.example"}, ""},
		{"user@example", Identity{wire.IDRFC822Addr, "user@example"}, ""},
		{"a@b@example", Identity{wire.IDRFC822Addr, "a@b@example"}, ""},
		{"rfc822:user", Identity{wire.IDRFC822Addr, "user"}, ""},
		{"rfc822:üser@example", Identity{wire.IDRFC822Addr, "üser@example"}, "üser@example"},
		{"keyid:text with spaces", Identity{wire.IDKeyID, "text with spaces"}, ""},
		{"keyid:0x00ff", Identity{wire.IDKeyID, "\x00\xff"}, ""},
		{"keyid:0x6162", Identity{wire.IDKeyID, "ab"}, "keyid:ab"},
		{"keyid:0x307861", Identity{wire.IDKeyID, "0xa"}, "keyid:0x307861"},
	} {
		got, err := ParseIdentity(c.in)
		if err != nil || got != c.want {
			t.Errorf("ParseIdentity(%q) = %v %q, %v", c.in, got.Type, got.Data, err)
			continue
		}
		out := c.out
		if out == "" {
			out = c.in
		}
		if got.String() != out {
			t.Errorf("%q prints %q, want %q", c.in, got, out)
		}
		if again, err := ParseIdentity(got.String()); err != nil || again != got {
			t.Errorf("%q read again: %v, %v", got.String(), again, err)
		}
		back, err := FromPayload(got.Payload(true))
		if err != nil || back != got {
			t.Errorf("%q from its payload: %v, %v", c.in, back, err)
		}
	}
}

func TestParseIdentityRefuses(t *testing.T) {
	for in, hint := range map[string]string{
		"":                                     "empty label",
		"@":                                    "empty label",
		"user@":                                "empty label",
		"a..example":                           "empty label",
		"example.":                             "empty label",
		"192.0.2.300":                          "looks like an IPv4 address",
		"192.0.2":                              "looks like an IPv4 address",
		"192.0.2.0/24":                         "'/'",
		"C=CH, gateway":                        "TYPE=value",
		"C=CH, XY=gateway":                     "not known",
		"C=CH, CN=":                            "no value",
		"C=CH, CN=*":                           "pattern",
		`C=CH, CN="gate`:                       "not closed",
		`C=CH, CN=gate\`:                       "stands at the end",
		"C=CH, CN=#04":                         "hexadecimal",
		"%any":                                 "'%'",
		"gw a.example":                         "' '",
		"gw\x00.example":                       `'\x00'`,
		"bücher.example":                       "'ü'",
		"user@192.0.2.300":                     "looks like an IPv4 address",
		"fe80::1%eth0":                         "zone",
		"ipv4:2001:db8::1":                     "not an IPv4 address",
		"ipv4:":                                "not an IPv4 address",
		"ipv6:192.0.2.1":                       "not an IPv6 address",
		"fqdn:":                                "empty",
		"fqdn:a\x00":                           "terminator",
		"fqdn:ü":                               "0xc3",
		"rfc822:a\n@example":                   "0x0a",
		"rfc822:a\xff@example":                 "0xff",
		"keyid:":                               "printable ASCII",
		"keyid:\x01":                           "printable ASCII",
		"keyid:0x":                             "empty",
		"keyid:0x123":                          "pairs",
		"keyid:0xzz":                           "pairs",
		"dn:gateway":                           "TYPE=value",
		"C=CH, O=" + strings.Repeat("a", 3000): "at most 2048",
		strings.Repeat("a", 64):                "64 octets",
		strings.Repeat("a.", 127):              "at most 253",
		"keyid:" + strings.Repeat("k", 10_000): "at most 2048",
	} {
		if got, err := ParseIdentity(in); err == nil || !strings.Contains(err.Error(), hint) {
			t.Errorf("ParseIdentity(%.40q) = %v, %v; want %q", in, got, err, hint)
		}
	}
}

// RFC 7296 section 3.5: no terminator in FQDN and RFC822; every type that MUST be accepted is; lengths are checked.
func TestTrap_7296_88_IdentityForms(t *testing.T) {
	for _, c := range []struct {
		typ  wire.IDType
		data string
		ok   bool
	}{
		{wire.IDIPv4Addr, "\x0a\x00\x00\x01", true},
		{wire.IDIPv4Addr, "\x0a\x00\x00", false},
		{wire.IDIPv4Addr, "\x0a\x00\x00\x01\x00", false},
		{wire.IDIPv4Addr, "", false},
		{wire.IDIPv6Addr, strings.Repeat("\x01", 16), true},
		{wire.IDIPv6Addr, strings.Repeat("\x01", 17), false},
		{wire.IDIPv6Addr, "\x0a\x00\x00\x01", false},
		{wire.IDFQDN, "gw.example", true},
		{wire.IDFQDN, "*.example", true}, // odd, but a form; nobody is asked to match it
		{wire.IDFQDN, "gw.example\x00", false},
		{wire.IDFQDN, "gw.example\n", false},
		{wire.IDFQDN, "gw\x1b[2J", false},
		{wire.IDFQDN, "gw\x7f", false},
		{wire.IDFQDN, "\xff", false},
		{wire.IDFQDN, "", false},
		{wire.IDRFC822Addr, "user@example", true},
		{wire.IDRFC822Addr, "üser@example", true},
		{wire.IDRFC822Addr, "user@example\x00", false},
		{wire.IDRFC822Addr, "user\xc3@example", false},
		{wire.IDRFC822Addr, "user\u0085@example", false}, // a control character beyond ASCII
		{wire.IDRFC822Addr, "", false},
		{wire.IDKeyID, "\x00\xff", true},
		{wire.IDKeyID, "", false},
		{wire.IDKeyID, strings.Repeat("k", maxData), true},
		{wire.IDKeyID, strings.Repeat("k", maxData+1), false},
		{wire.IDDERASN1DN, "\x30\x00", true},
		{wire.IDDERASN1DN, "", false},
		{wire.IDDERASN1GN, "\x82\x01a", true},
		{wire.IDNull, "", true},
		{wire.IDNull, "x", false},
		{0, "x", false},
		{4, "x", false},
		{wire.IDFCName, "x", false},
		{201, "x", false},
	} {
		got, err := FromPayload(wire.NewID(false, c.typ, []byte(c.data)))
		if (err == nil) != c.ok {
			t.Errorf("type %d, %.20q: %v, %v", c.typ, c.data, got, err)
		}
		if err != nil && got != (Identity{}) {
			t.Errorf("type %d, %.20q: an identity comes with the error", c.typ, c.data)
		}
	}
}

func TestEqual(t *testing.T) {
	fqdn := func(s string) Identity { return Identity{wire.IDFQDN, s} }
	mail := func(s string) Identity { return Identity{wire.IDRFC822Addr, s} }
	key := func(s string) Identity { return Identity{wire.IDKeyID, s} }
	for _, c := range []struct {
		a, b Identity
		want bool
	}{
		{fqdn("gw.example"), fqdn("GW.Example"), true},
		{fqdn("gw.example"), fqdn("gx.example"), false},
		{fqdn("gw.example"), fqdn("gw.example."), false},
		{fqdn("kite"), fqdn("\u212aite"), false}, // the Kelvin sign is no k
		{fqdn("a[b"), fqdn("a{b"), false},        // not letters, though a bit apart like cases
		{fqdn("a@b"), mail("a@b"), false},
		{fqdn("gw"), key("gw"), false},
		{mail("user@Example"), mail("user@example"), true},
		{mail("User@example"), mail("user@example"), false},
		{mail("a@B@example"), mail("a@b@example"), false},
		{mail("user"), mail("USER"), true}, // no @: all is domain
		{mail("user@"), mail("user"), false},
		{key("a"), key("A"), false},
		{key("a"), key("a"), true},
		{Identity{wire.IDIPv4Addr, "AAAA"}, Identity{wire.IDIPv4Addr, "aaaa"}, false},
	} {
		if c.a.Equal(c.b) != c.want || c.b.Equal(c.a) != c.want {
			t.Errorf("%s equal %s: want %v", c.a, c.b, c.want)
		}
	}
}

// What a peer sent is printable and bounded, and does not look like what it is not.
func TestString(t *testing.T) {
	for _, c := range []struct {
		id   Identity
		want string
	}{
		{Identity{wire.IDFQDN, "10.0.0.1"}, "fqdn:10.0.0.1"},
		{Identity{wire.IDFQDN, "keyid:x"}, "fqdn:keyid:x"},
		{Identity{wire.IDFQDN, "a\x1b[31m"}, `fqdn:a\x1b[31m`},
		{Identity{wire.IDRFC822Addr, "a\u202e@example"}, `a\u202e@example`},
		{Identity{wire.IDKeyID, "\x00"}, "keyid:0x00"},
		{Identity{wire.IDIPv4Addr, "abc"}, "identity type 1:0x616263"},
		{Identity{wire.IDNull, ""}, "(anonymous)"},
		{Identity{wire.IDDERASN1DN, "\x30\x0d\x31\x0b\x30\x09\x06\x03\x55\x04\x06\x13\x02CH"}, "dn:C=CH"},
		{Identity{wire.IDDERASN1DN, "\x30\x84"}, "identity type 9:0x3084"},
		{Identity{}, "identity type 0:0x"},
	} {
		if got := c.id.String(); got != c.want {
			t.Errorf("type %d %q prints %q, want %q", c.id.Type, c.id.Data, got, c.want)
		}
	}
	long := Identity{wire.IDKeyID, strings.Repeat("\x00", maxData)}.String()
	if n := len([]rune(long)); n > wire.MaxText {
		t.Errorf("a long identity prints as %d runes", n)
	}
}

func FuzzIdentity(f *testing.F) {
	for _, s := range []string{"gw-a.example", "@gw", "user@example", "keyid:0x00", "192.0.2.1", "2001:db8::1", "fqdn:x y", "\x30\x00", "\xff\x00", "0x",
		"\x30\x0d\x31\x0b\x30\x09\x06\x03\x55\x04\x06\x13\x02CH"} {
		for _, typ := range []byte{1, 2, 3, 5, 9, 10, 11, 13} {
			f.Add(typ, []byte(s))
		}
	}
	f.Fuzz(func(t *testing.T, typ byte, data []byte) {
		if id, err := ParseIdentity(string(data)); err == nil {
			back, err := FromPayload(id.Payload(false))
			if err != nil || back != id || !id.Equal(back) {
				t.Errorf("%q does not survive its payload: %v, %v", data, back, err)
			}
		}
		id, err := FromPayload(wire.NewID(true, wire.IDType(typ), data))
		if err != nil {
			return
		}
		if !id.Equal(id) {
			t.Errorf("%v is not equal to itself", id)
		}
		s := id.String()
		for _, r := range s {
			if r < ' ' || r == 0x7f {
				t.Errorf("%q has a control character", s)
			}
		}
		if len([]rune(s)) > wire.MaxText {
			t.Errorf("%q has %d runes", s, len([]rune(s)))
		}
		// Words that stand for an identity stand for this one.
		if again, err := ParseIdentity(s); err == nil && !again.Equal(id) && !strings.ContainsAny(s, "\\…") { // what is escaped or cut is not the words
			t.Errorf("type %d %q prints as %q, which is type %d %q", id.Type, id.Data, s, again.Type, again.Data)
		}
	})
}
