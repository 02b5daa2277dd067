package wire

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestNewText(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"road.warrior@example.org", "road.warrior@example.org"},
		{`EXAMPLE\alice`, `EXAMPLE\alice`},
		{"Zürich, 東京, Αθήνα, שלום", "Zürich, 東京, Αθήνα, שלום"},
		{"\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"\x9b31m", `\x9b31m`},     // CSI as one octet is no UTF-8
		{"\u009b31m", `\u009b31m`}, // CSI as a C1 control in UTF-8
		{"a\r\nb\tc\x00\x7f", `a\x0d\x0ab\x09c\x00\x7f`},
		{"\u202a\u202b\u202c\u202d\u202e", `\u202a\u202b\u202c\u202d\u202e`},
		{"\u2066\u2067\u2068\u2069", `\u2066\u2067\u2068\u2069`},
		{"\u200e\u200f\u061c", `\u200e\u200f\u061c`},
		{"zero\u200bwidth\ufeff", `zero\u200bwidth\ufeff`},
		{"line\u2028paragraph\u2029", `line\u2028paragraph\u2029`},
		{"tag\U000e0041", `tag\U000e0041`},
		{"\xff\xfe\xc3(", `\xff\xfe\xc3(`},
		{"\xed\xa0\x80", `\xed\xa0\x80`}, // a surrogate
		{"\xf0\x9f\x98", `\xf0\x9f\x98`}, // cut short
		{"\ufffd", "\ufffd"},
	} {
		if got := NewText([]byte(c.in)); string(got) != c.want {
			t.Errorf("%q becomes %q, want %q", c.in, got, c.want)
		}
	}
}

func TestNewTextBound(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int // runes
		cut  bool
	}{
		{strings.Repeat("ü", MaxText), MaxText, false},
		{strings.Repeat("ü", MaxText+1), MaxText, true},
		{strings.Repeat("ü", 60000), MaxText, true},
		{strings.Repeat("\x00", MaxText/4), MaxText, false},
		{strings.Repeat("\x00", MaxText/4+1), MaxText - 3, true}, // an escape is not cut in its middle
		{strings.Repeat("a", MaxText-3) + "\x00", MaxText - 2, true},
		{strings.Repeat("a", MaxText-4) + "\x00", MaxText, false},
		{strings.Repeat("a", MaxText-4) + "\x00a", MaxText - 3, true},
	} {
		got := string(NewText([]byte(c.in)))
		if n := utf8.RuneCountInString(got); n != c.want || strings.HasSuffix(got, "…") != c.cut {
			t.Errorf("%.20q... of %d octets becomes %d runes: ...%q", c.in, len(c.in), n, got[len(got)-10:])
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"a", "\x1b[0m", "\u202e", "\xff", strings.Repeat("\x00", 300), strings.Repeat("é", 255) + "\x01"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text := NewText(b)
		runes := 0
		for _, r := range string(text) {
			if runes++; !unicode.IsPrint(r) {
				t.Fatalf("%q has %q", text, r)
			}
		}
		if runes > MaxText || !utf8.ValidString(string(text)) {
			t.Fatalf("%d runes: %q", runes, text)
		}
		if again := NewText([]byte(text)); again != text {
			t.Fatalf("%q becomes %q", text, again)
		}
	})
}
