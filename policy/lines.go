package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// lineIndex is what keyLines found, and its paths in order.
type lineIndex struct {
	lines map[string]int
	paths []string
}

func newLineIndex(text string) lineIndex {
	lines := keyLines(text)
	return lineIndex{lines, slices.Sorted(maps.Keys(lines))}
}

// inside copies the lines of the keys of a table, by path inside it.
func (x lineIndex) inside(table string) map[string]int {
	out := map[string]int{}
	from, _ := slices.BinarySearch(x.paths, table+".")
	for _, path := range x.paths[from:] {
		key, ok := strings.CutPrefix(path, table+".")
		if !ok {
			break
		}
		out[key] = x.lines[path]
	}
	return out
}

// keyLines finds the line of each table, key and array element of a TOML text, by dotted path: "connection.site-b.remote.id",
// "connection.site-b.child.lan.local[1]". The library tells lines only of syntax errors. The text has been parsed before, so this scanner need
// not judge it; on text that it does not understand it skips a line.
func keyLines(text string) map[string]int {
	s := &lineScanner{text: text, line: 1, lines: map[string]int{}}
	table := ""
	for s.blank(true); s.at < len(s.text); s.blank(true) {
		if s.peek() == '[' {
			for s.peek() == '[' {
				s.at++
			}
			table = s.record("", s.key())
			s.restOfLine()
			continue
		}
		s.pair(table, 0)
	}
	return s.lines
}

type lineScanner struct {
	text  string
	at    int
	line  int
	lines map[string]int
}

// record notes the first line of a path.
func (s *lineScanner) record(table, key string) string {
	path := key
	if table != "" {
		path = table + "." + key
	}
	for p := path; s.lines[p] == 0; { // a table that has no line of its own begins where the first of its parts does
		s.lines[p] = s.line
		i := strings.LastIndexAny(p, ".[")
		if i < 0 {
			break
		}
		p = p[:i]
	}
	return path
}

func (s *lineScanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

// step goes on by one octet, never past the end.
func (s *lineScanner) step() {
	if s.at >= len(s.text) {
		return
	}
	if s.peek() == '\n' {
		s.line++
	}
	s.at++
}

// blank skips spaces and, across lines, newlines and comments.
func (s *lineScanner) blank(lines bool) {
	for s.at < len(s.text) {
		switch c := s.peek(); {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' && lines:
			s.step()
		case c == '#' && lines:
			for s.at < len(s.text) && s.peek() != '\n' {
				s.at++
			}
		default:
			return
		}
	}
}

func (s *lineScanner) restOfLine() {
	for s.at < len(s.text) && s.peek() != '\n' {
		s.at++
	}
}

// key reads a dotted key; quotes are taken off.
func (s *lineScanner) key() string {
	var parts []string
	for {
		s.blank(false)
		start := s.at
		if c := s.peek(); c == '"' || c == '\'' {
			s.quoted()
			parts = append(parts, strings.Trim(s.text[start:s.at], `"'`))
		} else {
			for s.at < len(s.text) && !strings.ContainsRune(" \t\r\n.=[]{},#\"'", rune(s.text[s.at])) {
				s.at++
			}
			parts = append(parts, s.text[start:s.at])
		}
		s.blank(false)
		if s.peek() != '.' {
			return strings.Join(parts, ".")
		}
		s.at++
	}
}

// pair reads "key = value" of a table.
func (s *lineScanner) pair(table string, depth int) {
	start := s.at
	path := s.record(table, s.key())
	if s.peek() != '=' || s.at == start {
		s.restOfLine()
		return
	}
	s.at++
	s.value(path, depth)
}

// maxDepth of nested arrays and inline tables; ours have three.
const maxDepth = 32

func (s *lineScanner) value(path string, depth int) {
	s.blank(false)
	switch c := s.peek(); {
	case depth > maxDepth:
		s.restOfLine()
	case c == '"' || c == '\'':
		s.quoted()
	case c == '{':
		s.list('}', func(int) { s.pair(path, depth+1) })
	case c == '[':
		s.list(']', func(n int) {
			s.value(s.record("", fmt.Sprintf("%s[%d]", path, n)), depth+1)
		})
	default:
		for s.at < len(s.text) && !strings.ContainsRune(",]}#\n", rune(s.text[s.at])) {
			s.at++
		}
	}
}

// list reads what stands between brackets, separated by commas.
func (s *lineScanner) list(end byte, element func(n int)) {
	s.at++
	for n := 0; ; n++ {
		s.blank(true)
		start := s.at
		if s.at >= len(s.text) || s.peek() == end {
			s.step()
			return
		}
		element(n)
		s.blank(true)
		if s.peek() == ',' {
			s.at++
		}
		if s.at == start { // nothing was understood
			s.step()
		}
	}
}

// quoted skips a string of any of TOML's four kinds.
func (s *lineScanner) quoted() {
	quote := s.text[s.at : s.at+1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s.text[s.at:], triple) {
		quote = triple
	}
	for s.at += len(quote); s.at < len(s.text); s.step() {
		switch {
		case s.peek() == '\\' && quote[0] == '"':
			s.step()
		case len(quote) == 1 && s.peek() == '\n':
			return
		case strings.HasPrefix(s.text[s.at:], quote):
			s.at += len(quote)
			for len(quote) == 3 && s.peek() == quote[0] { // up to two quotes may stand before the closing three
				s.at++
			}
			return
		}
	}
}
