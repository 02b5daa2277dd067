package policy

import (
	"strings"
	"testing"

	"cygnet/xfrm/alg"
)

// TestUnclosed: what was not closed is told where it was opened, not where the parser noticed.
func TestUnclosed(t *testing.T) {
	for _, c := range []struct {
		text string
		line int
		want string
	}{
		{"[connection.a]\nlocal = { address = \"192.0.2.1\", id = \"x\"\nremote = { address = \"192.0.2.2\" }\n", 2, "the { of this line is not closed; line 3 shows it; close it with }"},
		{"[connection.a]\nlocal = { address = \"192.0.2.1\", id = \"x\",\nremote = { address = \"192.0.2.2\" }\n", 2, "the { of this line is not closed"},
		{"[connection.a]\nlocal = { address = \"192.0.2.1\"\n\n[connection.a.child.lan]\n", 2, "the { of this line is not closed; line 4"},
		{"[connection.a]\npsk = { file = \"hush-4711\"\nstart = \"boot\"\n", 2, "the { of this line is not closed"},
		{"[connection.a.child.lan]\nlocal = [\"10.1.0.0/16\"\nremote = [\"10.2.0.0/16\"]\n", 2, "the [ of this line is not closed; line 3 shows it; close it with ]"},
		{"[connection.a.child.lan]\nlocal = [ # ours\n  \"10.1.0.0/16\" # here\n\n  \"10.3.0.0/16\"\n]\n", 3, "a comma is missing at the end of this line"},
		{"[connection.a]\nlocal = {\n  address = \"192.0.2.1\"\n  id = \"x\"\n}\n", 3, "a comma is missing at the end of this line"},
		{"[connection.a]\nlocal = {\n  address = \"192.0.2.1\"\n[connection.b]\n", 2, "the { of this line is not closed"},
		{"[connection.a.child.lan\nlocal = [\"10.1.0.0/16\"]\n", 1, "the [ of this line is not closed; close it with ]"},
		{"[connection.a]\nlocal = { address = \"192.0.2.1\" id = \"x\" }\n", 2, "expected a comma"}, // nothing to move
	} {
		_, problems := Parse([]Source{{"a.toml", []byte(c.text)}}, secrets(func(string) (alg.Secret, error) { return alg.Secret{}, nil }))
		if len(problems) != 1 || problems[0].Line != c.line || !strings.Contains(problems[0].String(), c.want) || strings.Contains(problems[0].String(), "4711") {
			t.Errorf("%q\ngot  %v\nwant line %d: %s", c.text, problems, c.line, c.want)
		}
	}
}

// TestStray: children under a mistyped connection are told as that, and as nothing else.
func TestStray(t *testing.T) {
	const body = `[connection.site-b]
local  = { address = "192.0.2.1", id = "gw-a.example" }
remote = { address = "198.51.100.7", id = "gw-b.example" }
psk    = { file = "site-b" }
`
	lan := func(table string) string {
		return "[" + table + ".child.lan]\nlocal = [\"10.1.0.0/16\"]\nremote = [\"10.2.0.0/16\"]\n"
	}
	secret := func(string) (alg.Secret, error) {
		return alg.NewSecret([]byte("thirty-two octets of good secret\n")), nil
	}
	for _, c := range []struct {
		sources []Source
		want    string
	}{
		{[]Source{{"a.toml", []byte(body + lan("connection.siteb"))}},
			"a.toml:5: connection.siteb has a child and nothing else: there is no connection siteb; did you mean [connection.site-b.child.lan]?"},
		{[]Source{{"a.toml", []byte(lan("connection.siteb"))}, {"b.toml", []byte(body + lan("connection.site-b"))}},
			"a.toml:1: connection.siteb has a child and nothing else: there is no connection siteb; did you mean [connection.site-b.child.lan]?"},
		{[]Source{{"a.toml", []byte(body + lan("connection.site-b"))}, {"b.toml", []byte(strings.ReplaceAll(lan("connection.site-b"), "lan", "voice"))}},
			"a connection stands in one file with its children: move them to a.toml"},
	} {
		_, problems := Parse(c.sources, secrets(secret))
		if len(problems) == 0 || !strings.HasSuffix(problems[0].String(), c.want) || strings.HasPrefix(c.want, "a.toml") && len(problems) != 1 {
			t.Errorf("got %v\nwant %s", problems, c.want)
		}
	}
	if _, problems := Parse([]Source{{"a.toml", []byte(lan("connection.elsewhere") + body + lan("connection.site-b"))}}, secrets(secret)); len(problems) < 3 {
		t.Errorf("a connection of another name lacks more than its name: %v", problems)
	}
}
