package policy

import (
	"strings"
	"testing"

	"cygnet/xfrm/alg"
)

// TestSlips: what people write by mistake is answered with what they meant.
func TestSlips(t *testing.T) {
	const good = `[connection.b]
local  = { address = "192.0.2.1", id = "gw-a.example" }
remote = { address = "198.51.100.7", id = "gw-b.example" }
psk    = { file = "b" }
start  = "manual"

[connection.b.child.lan]
local  = ["10.1.0.0/16"]
remote = ["10.2.0.0/16"]
`
	for _, c := range []struct{ old, new, want string }{
		{`start  = "manual"`, `start = "route"`, `a.toml:5: start = "route" in connection.b is none of manual, boot, traffic; write start = "traffic"`},
		{`start  = "manual"`, `start = "start"`, `write start = "boot"`},
		{`start  = "manual"`, "start = \"manual\"\nstart = \"boot\"", "a.toml:6: connection.b.start stands here for the second time; keep one of the two; the first is at line 5"},
		{`"10.1.0.0/16"`, `"10.1.0.0/255.255.0.0"`, `"10.1.0.0/255.255.0.0" in local of connection.b.child.lan has a netmask; write "10.1.0.0/16"`},
		{`"10.1.0.0/16"`, `"10.1.0.7 255.255.255.0"`, `has a netmask; write "10.1.0.0/24"`},
		{`"10.1.0.0/16"`, `"10.1.0.0/255.0.255.0"`, "is not a prefix"},
		{"[connection.b.child.lan]", "[child.lan]", "a child is part of its connection: [connection.NAME.child.NAME]"},
		{"[connection.b.child.lan]", "[connection.b.child.lan]\nrekey_time = \"2h\"\nlife_time = \"2h5s\"",
			"a.toml:9: warning: life_time of connection.b.child.lan leaves 5s for a rekey before the child ends: a few lost packets, or a peer that restarts, would cut the tunnel; at least 30s is wanted"},
		{"[connection.b.child.lan]", "[connection.b.child.lan]\nrekey_time = \"3m\"\nlife_time = \"3m18s\"", ""}, // the default, written out
		{`start  = "manual"`, "rekey_time = \"1h\"\nover_time = \"10s\"", "a.toml:6: warning: over_time of connection.b leaves 10s for a rekey before the IKE SA ends"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		_, problems := Parse([]Source{{"a.toml", []byte(text)}}, Files{Secret: func(string) (alg.Secret, error) {
			return alg.NewSecret([]byte("thirty-two octets of good secret")), nil
		}})
		var all []string
		for _, p := range problems {
			all = append(all, p.String())
		}
		if got := strings.Join(all, "\n"); !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s:\n got %s\nwant %s", c.new, got, c.want)
		}
	}
}
