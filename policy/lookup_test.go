package policy

import (
	"net/netip"
	"strings"
	"testing"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
)

func identity(t *testing.T, s string) auth.Identity {
	t.Helper()
	id, err := auth.ParseIdentity(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// peers makes connections out of lines "name local remote remote-id".
func peers(t *testing.T, lines ...string) *Snapshot {
	t.Helper()
	s := &Snapshot{}
	for _, l := range lines {
		f := strings.Fields(l)
		c := &Connection{Name: f[0], File: "conn.d/" + f[0] + ".toml", Line: 1, Lines: map[string]int{"remote.id": 3, "local.id": 2, "remote.address": 3}}
		if f[1] != "%any" {
			c.Local.Address = netip.MustParseAddr(f[1])
		}
		switch a, err := netip.ParseAddr(f[2]); {
		case err == nil:
			c.Remote.Address = a
		case f[2] != "%any":
			c.Remote.Name = f[2]
		}
		c.Local.ID, c.Remote.ID = identity(t, "gw-a.example"), identity(t, f[3])
		s.Connections = append(s.Connections, c)
	}
	return s
}

func TestCandidates(t *testing.T) {
	s := peers(t, "any %any %any x.example", "here 192.0.2.1 %any y.example", "name %any gw-b.example z.example", "exact 192.0.2.1 198.51.100.7 b.example",
		"peer %any 198.51.100.7 b.example", "elsewhere 192.0.2.9 198.51.100.7 b.example", "six 2001:db8::1 2001:db8::7 b.example")
	for _, c := range []struct{ local, remote, want string }{
		{"192.0.2.1", "198.51.100.7", "exact peer name here any"},
		{"192.0.2.1", "203.0.113.5", "name here any"},
		{"192.0.2.2", "198.51.100.7", "peer name any"},
		{"2001:db8::1", "2001:db8::7", "six name any"},
		{"::ffff:192.0.2.1", "::ffff:198.51.100.7", "exact peer name here any"},
	} {
		var got []string
		for _, x := range s.Candidates(netip.MustParseAddr(c.local), netip.MustParseAddr(c.remote)) {
			got = append(got, x.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s from %s: %s", c.local, c.remote, got)
		}
	}
}

func TestNoCandidate(t *testing.T) {
	s := peers(t, "site-b 192.0.2.1 198.51.100.7 b.example", "site-c 192.0.2.9 %any c.example")
	m := s.NoCandidate(netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("203.0.113.5"))
	want := "no connection for 192.0.2.1 <-> 203.0.113.5: site-b expects the peer at 198.51.100.7; site-c is for our address 192.0.2.9"
	if m.Text != want || m.Hint != `conn.d/site-b.toml:3: address = "203.0.113.5" if site-b is this peer` || m.Notify != wire.NotifyNoProposalChosen {
		t.Errorf("%+v", m)
	}
	if m := (&Snapshot{}).NoCandidate(netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("203.0.113.5")); !strings.Contains(m.Text, "none is configured") {
		t.Errorf("%+v", m)
	}
}

func TestForIdentities(t *testing.T) {
	s := peers(t, "site-b %any 198.51.100.7 gw-b.example", "site-c %any 198.51.100.7 gw-c.example", "phone %any %any keyid:gw-d.example")
	us := identity(t, "gw-a.example")
	them := identity(t, "fqdn:somebody")
	for _, c := range []struct {
		peer       string
		asked      *auth.Identity
		conn       string
		text, hint string
	}{
		{"gw-c.example", nil, "site-c", "", ""},
		{"GW-C.example", &us, "site-c", "", ""},
		{"keyid:gw-d.example", nil, "phone", "", ""},
		{"gw-d.example", nil, "", "the peer says it is gw-d.example; site-b wants gw-b.example; site-c wants gw-c.example; phone wants keyid:gw-d.example",
			`conn.d/site-b.toml:3: remote id = "gw-d.example", or let the peer send gw-b.example`},
		{"gw-a.example", nil, "", "the peer says it is gw-a.example, which is our own id in site-b: the two ids seem to be swapped at one end",
			"local.id is our own name, remote.id the peer's: exchange conn.d/site-b.toml:2: local.id and conn.d/site-b.toml:3: remote.id here, or the two on the peer"},
		{"gw-b.example", &them, "", "the peer asks for somebody here; site-b says that we are gw-a.example", `conn.d/site-b.toml:2: local id = "somebody", or let the peer expect gw-a.example`},
	} {
		got, m := ForIdentities(s.Connections, identity(t, c.peer), c.asked)
		switch {
		case c.conn != "" && (m != nil || got.Name != c.conn):
			t.Errorf("%s: %v, %v", c.peer, got, m)
		case c.conn == "" && (m == nil || got != nil || m.Text != c.text || m.Hint != c.hint || m.Notify != wire.NotifyAuthenticationFailed):
			t.Errorf("%s: %+v", c.peer, m)
		}
	}
	if _, m := ForIdentities(nil, them, nil); m == nil || !strings.Contains(m.Text, "no connection is meant for its address") {
		t.Errorf("%+v", m)
	}
}
