package policy

import (
	"maps"
	"strings"
	"testing"

	"cygnet/xfrm/alg"
)

const siteB = `[connection.site-b]
local  = { address = "192.0.2.1",  id = "gw-a.example" }
remote = { address = "198.51.100.7", id = "gw-b.example" }
psk    = { file = "/etc/cygnet/secrets/site-b" }
start  = "boot"
when_down = "drop"

[connection.site-b.child.lan]
local  = ["10.1.0.0/16"]
remote = ["10.2.0.0/16"]
`

func longKey(string) (alg.Secret, error) {
	return alg.NewSecret([]byte("correct horse battery staple\n")), nil
}

func TestParseSiteToSite(t *testing.T) {
	s, problems := Parse([]Source{{"conn.d/site-b.toml", []byte(siteB)}}, secrets(longKey))
	for _, p := range problems {
		t.Error(p)
	}
	if s == nil {
		t.Fatal("no snapshot")
	}
	c := s.ByName("site-b")
	if c.Local.ID.String() != "gw-a.example" || c.Remote.Address.String() != "198.51.100.7" || !c.Drop || c.Start != StartBoot {
		t.Errorf("connection %+v", c)
	}
	if got := string(c.PSK.Bytes()); got != "correct horse battery staple" {
		t.Errorf("key %q: one line end at the end does not belong to it", got)
	}
	if c.Lines["remote.id"] != 3 || c.Lines["child.lan.remote"] != 10 {
		t.Errorf("lines %v", c.Lines)
	}
	ch := c.Children[0]
	if ch.Local[0].String() != "10.1.0.0/16" || ch.Replay != DefaultReplayWindow {
		t.Errorf("child %+v", ch)
	}
	_, suite, m := ChooseIKE([]*Connection{c}, OfferIKE(c))
	if m != nil || suite.String() != "AES-GCM-256, SHA2-256, X25519" {
		t.Errorf("chose %v, %v", suite, m)
	}
}

// TestParseBounds: what nobody writes is refused before the TOML parser sees it.
func TestParseBounds(t *testing.T) {
	for name, text := range map[string]string{
		"a long line": "[connection.a]\na" + strings.Repeat(".a", 3000) + " = 1",
		"a long file": strings.Repeat("# nothing\n", 200000),
	} {
		s, problems := Parse([]Source{{"x.toml", []byte(text)}}, secrets(longKey))
		if s != nil || len(problems) != 1 || problems[0].Code != "too-large" {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

func TestLines(t *testing.T) {
	text := `# first
top = 1
[a.b] # comment
"quoted key" = 'x = y'
dotted . key = """
two
lines \""""
list = [ # comment, with ]
  "one",

  { inner = 1 },
]
inline = { x = 1, y = { z = "}" } }
[[array]]
last = '''
'''
end = 1`
	want := map[string]int{"top": 2, "a": 3, "a.b": 3, "a.b.quoted key": 4, "a.b.dotted": 5, "a.b.dotted.key": 5, "a.b.list": 8, "a.b.list[0]": 9, "a.b.list[1]": 11,
		"a.b.list[1].inner": 11, "a.b.inline": 13, "a.b.inline.x": 13, "a.b.inline.y": 13, "a.b.inline.y.z": 13, "array": 14, "array.last": 15, "array.end": 17}
	if got := keyLines(text); !maps.Equal(got, want) {
		t.Errorf("got %v\nwanted %v", got, want)
	}
}

func TestNear(t *testing.T) {
	s := &Snapshot{Connections: []*Connection{{Name: "site-b"}, {Name: "site-c"}, {Name: "headquarters"}}}
	for word, want := range map[string]string{"siteb": "site-b", "headquarter": "headquarters", "head": "headquarters", "xyz": "", "isteb": "site-b", "": ""} {
		if got := strings.Join(s.Near(word), " "); got != want {
			t.Errorf("%q: %q", word, got)
		}
	}
	if s.ByName("site-c") != s.Connections[1] || s.ByName("site") != nil {
		t.Error("ByName")
	}
}

// TestNoSecretInProblems: a key that was put where a file name belongs, or that is malformed, is in no problem.
func TestNoSecretInProblems(t *testing.T) {
	const secret = "hunter2hunter2"
	for _, psk := range []string{`"` + secret + `"`, `{ secret = "` + secret + `" }`, `{ file = ["` + secret + `"] }`, `{ file = "x" }`} {
		_, problems := Parse([]Source{{"x.toml", []byte(strings.Replace(siteB, `{ file = "/etc/cygnet/secrets/site-b" }`, psk, 1))}}, secrets(func(string) (alg.Secret, error) {
			return alg.NewSecret([]byte("0x" + secret)), nil
		}))
		if len(problems) == 0 {
			t.Errorf("psk = %s is accepted", psk)
		}
		for _, p := range problems {
			if strings.Contains(p.String(), secret) {
				t.Error(p)
			}
		}
	}
}

func TestDecodePSK(t *testing.T) {
	for _, c := range []struct {
		content, key, code string
		warning            bool
	}{
		{"correct horse battery staple", "correct horse battery staple", "", false},
		{"correct horse battery staple\n", "correct horse battery staple", "", false},
		{"correct horse battery staple\r\n", "correct horse battery staple", "", false},
		{"correct horse battery staple\n\n", "correct horse battery staple\n", "secret-form", true},
		{"correct horse battery staple\r", "correct horse battery staple\r", "secret-form", true},
		{" correct horse battery staple\n", " correct horse battery staple", "secret-form", true},
		{"\"correct horse battery staple\"\n", "\"correct horse battery staple\"", "secret-form", true},
		{"0x000102030405060708090A0b0c0d0e0f\n", "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f", "", false},
		{"0sAAECAwQFBgcICQoLDA0ODw==\n", "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f", "", false},
		{"0x0\n", "", "secret-form", false},
		{"0sA\n", "", "secret-form", false},
		{"0x\n", "", "secret-empty", false},
		{"\n", "", "secret-empty", false},
		{"", "", "secret-empty", false},
		{"sesame", "sesame", "secret-short", true},
	} {
		key, wrong := decodePSK([]byte(c.content), "secrets/x")
		if string(key.Bytes()) != c.key {
			t.Errorf("%q: key %q", c.content, key.Bytes())
		}
		switch {
		case c.code == "" && len(wrong) > 0, c.code != "" && (len(wrong) != 1 || wrong[0].code != c.code || wrong[0].warning != c.warning):
			t.Errorf("%q: %+v", c.content, wrong)
		}
	}
}

// TestSecretWiped: the content of the file is gone when Parse returns; the key lives on in its own copy.
func TestSecretWiped(t *testing.T) {
	content := []byte("correct horse battery staple\n")
	s, _ := Parse([]Source{{"x.toml", []byte(siteB)}}, secrets(func(string) (alg.Secret, error) { return alg.NewSecret(content), nil }))
	if strings.Trim(string(content), "\x00") != "" || s.Connections[0].PSK.Len() != 28 {
		t.Errorf("%q", content)
	}
}

func TestSame(t *testing.T) {
	read := func(text, key string) *Connection {
		s, problems := Parse([]Source{{"x.toml", []byte(text)}}, secrets(func(string) (alg.Secret, error) { return alg.NewSecret([]byte(key)), nil }))
		if s == nil {
			t.Fatal(problems)
		}
		return s.Connections[0]
	}
	const key = "correct horse battery staple"
	a := read(siteB, key)
	if !a.Same(read("# a comment\n\n"+siteB, key)) {
		t.Error("a comment makes another connection")
	}
	if a.Same(read(siteB, key+"!")) || a.Same(read(strings.Replace(siteB, "10.2.0.0/16", "10.2.0.0/17", 1), key)) {
		t.Error("a change is not noticed")
	}
}

func TestCopyDSCP(t *testing.T) {
	for words, hidden := range map[string]bool{"": false, "copy_dscp = true\n": false, "copy_dscp = false\n": true} {
		s, problems := Parse([]Source{{"conn.d/site-b.toml", []byte(siteB + words)}}, secrets(longKey))
		if s == nil || s.Connections[0].Children[0].HideDSCP != hidden {
			t.Errorf("%q: %v", words, problems)
		}
	}
	if s, _ := Parse([]Source{{"conn.d/site-b.toml", []byte(siteB + "copy_dscp = \"out\"\n")}}, secrets(longKey)); s != nil {
		t.Error("a word is taken for true or false")
	}
}
