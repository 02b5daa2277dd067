package policy

import (
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
	s, problems := Parse([]Source{{"conn.d/site-b.toml", []byte(siteB)}}, longKey)
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
