package wire

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NewText makes peer octets printable. What unicode.IsPrint does not take (controls with the ESC of ANSI sequences, line
// separators, bidi controls, invisible characters) is written as \x1b or \u202e, octets that are no UTF-8 as \xff. A text of
// more than MaxText runes is cut and ends in an ellipsis.
func NewText(b []byte) Text {
	var s strings.Builder
	for room := MaxText; len(b) > 0; {
		r, size := utf8.DecodeRune(b)
		shown := printable(r, size, b[0])
		n := utf8.RuneCountInString(shown)
		last := len(b) == size
		if n > room || n == room && !last {
			s.WriteRune('…')
			break
		}
		s.WriteString(shown)
		room -= n
		b = b[size:]
	}
	return Text(s.String())
}

// printable shows one rune of size octets, of which first is the first.
func printable(r rune, size int, first byte) string {
	switch {
	case r == utf8.RuneError && size == 1:
		return fmt.Sprintf(`\x%02x`, first)
	case unicode.IsPrint(r):
		return string(r)
	case r < utf8.RuneSelf:
		return fmt.Sprintf(`\x%02x`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04x`, r)
	default:
		return fmt.Sprintf(`\U%08x`, r)
	}
}
