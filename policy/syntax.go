package policy

import (
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
)

// explainSyntax adds what to do about the commonest slips, and moves the problem to the line that has to be changed where the parser noticed it
// later. A line that speaks of a secret is not repeated: it may hold the secret itself.
func explainSyntax(p *Problem, at toml.ParseError, text string) {
	lines := strings.Split(text, "\n")
	if p.Line < 1 || p.Line > len(lines) || explainBracket(p, at, text, lines) {
		return
	}
	if key, ok := strings.CutSuffix(at.Message, " has already been defined."); ok {
		key = strings.Trim(strings.TrimPrefix(key, "Key "), "'")
		if first := keyLines(text)[key]; first > 0 && first < p.Line {
			p.Text, p.Hint = fmt.Sprintf("%s stands here for the second time", key), fmt.Sprintf("keep one of the two; the first is at line %d", first)
			return
		}
	}
	line := lines[p.Line-1]
	switch word := bareWord(line); {
	case strings.Contains(line, "psk") || strings.Contains(line, "secret"):
		p.Text, p.Hint = "this is not TOML", `write psk = { file = "/etc/cygnet/secrets/NAME" }`
	case word != "":
		p.Hint = fmt.Sprintf("put it in quotes: %q", word)
	}
}

// explainBracket: the parser finds that a bracket was not closed, or that a comma is missing, only when it meets what follows.
func explainBracket(p *Problem, at toml.ParseError, text string, lines []string) bool {
	if strings.Contains(at.Message, "to end table name") && at.Position.Start < len(text) && text[at.Position.Start] == '\n' {
		p.Line, p.Text, p.Hint = max(p.Line-1, 1), "this is not TOML: the [ of this line is not closed", "close it with ] behind the name of the table"
		return true
	}
	if !strings.HasPrefix(at.Message, "expected a comma") {
		return false
	}
	open, ok := openBracket(text[:min(at.Position.Start, len(text))])
	if !ok || open.line >= p.Line {
		return false
	}
	// What a bracket at the end of its line encloses is meant to stand on the lines below it: there a comma is missing.
	found, spread := strings.TrimSpace(lines[p.Line-1]), strings.HasSuffix(strings.TrimSpace(withoutComment(lines[open.line-1])), string(open.kind))
	if spread && found != "" && (open.kind == '{' && !strings.HasPrefix(found, "[") || open.kind == '[' && strings.ContainsRune("\"'[{", rune(found[0]))) {
		for p.Line--; p.Line > open.line && strings.TrimSpace(withoutComment(lines[p.Line-1])) == ""; p.Line-- {
		}
		p.Text, p.Hint = "this is not TOML: a comma is missing at the end of this line", fmt.Sprintf("put a comma between the parts of the %c that opens at line %d", open.kind, open.line)
		return true
	}
	end := map[byte]string{'{': "}", '[': "]"}[open.kind]
	p.Text = fmt.Sprintf("this is not TOML: the %c of this line is not closed; line %d shows it", open.kind, p.Line)
	p.Line, p.Hint = open.line, "close it with "+end
	return true
}

// bracket that is open at the end of a text.
type bracket struct {
	kind byte
	line int
}

// openBracket finds the innermost bracket of a value that is open at the end of text.
func openBracket(text string) (bracket, bool) {
	s := &lineScanner{text: text, line: 1}
	var open []bracket
	for value := false; s.at < len(s.text); {
		switch c := s.peek(); {
		case c == '"' || c == '\'':
			s.quoted()
			continue
		case c == '#':
			s.restOfLine()
			continue
		case c == '=':
			value = true
		case c == '\n' && len(open) == 0:
			value = false
		case (c == '{' || c == '[') && value: // else the name of a table
			open = append(open, bracket{c, s.line})
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
		}
		s.step()
	}
	if len(open) == 0 {
		return bracket{}, false
	}
	return open[len(open)-1], true
}

// withoutComment cuts a line at its comment; a # inside a string is taken for one too, which here only hides a bracket.
func withoutComment(line string) string {
	line, _, _ = strings.Cut(line, "#")
	return line
}
