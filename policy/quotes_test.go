package policy

import (
	"strings"
	"testing"
)

// TestQuotesMissing: TOML's own words do not say what to do about a value without quotes.
func TestQuotesMissing(t *testing.T) {
	for _, c := range []struct{ line, hint string }{
		{`start = boot`, `put it in quotes: "boot"`},
		{`remote = { address = 192.0.2.1, id = "x" }`, `put it in quotes: "192.0.2.1"`},
		{`remote = { id = "x=y", address = gw.example }`, `put it in quotes: "gw.example"`},
		{`remote = { address = 2001:db8::1 }`, `put it in quotes: "2001:db8::1"`},
		{`liveness = { tries = 5, idle = 30s }`, `put it in quotes: "30s"`},
		{`local = [10.1.0.0/16]`, `put it in quotes: "10.1.0.0/16"`},
		{`a = "x" y # b = c`, "see https://toml.io for how TOML is written"},
		{`psk = hunter2`, `write psk = { file = "/etc/cygnet/secrets/NAME" }`},
		{`psk = "hunter2`, `write psk = { file = "/etc/cygnet/secrets/NAME" }`},
	} {
		_, problems := Parse([]Source{{"x.toml", []byte("[connection.b]\n" + c.line + "\n")}}, testFiles)
		if len(problems) != 1 || problems[0].Line != 2 || problems[0].Hint != c.hint {
			t.Errorf("%s: %v, wanted the hint %s", c.line, problems, c.hint)
		}
		if strings.Contains(problems[0].String(), "hunter2") {
			t.Errorf("the secret is shown: %s", problems[0])
		}
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct{ word, names, want string }{
		{"sit-c", "site-b site-c", "site-c"},
		{"site", "site-b site-c other", "site-b site-c"},
		{"office", "office-rome office-munich", "office-rome office-munich"},
		{"stauts", "up down status", "status"},
		{"psk", "psk psk", "psk"},
		{"zebra", "site-b site-c", ""},
	} {
		if got := strings.Join(Near(c.word, strings.Fields(c.names)), " "); got != c.want {
			t.Errorf("%s among %s: %q, wanted %q", c.word, c.names, got, c.want)
		}
	}
}
