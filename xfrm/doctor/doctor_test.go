package doctor

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cygnet/policy"
)

func address(s string) netip.Addr { return netip.MustParseAddr(s) }

func network(start, end string) policy.TS { return policy.TS{Start: address(start), End: address(end)} }

// gateway is a connection that sends from an address and protects the selectors.
func gateway(name, local string, ts ...policy.TS) *policy.Connection {
	c := &policy.Connection{Name: name, File: "conn.d/" + name + ".toml", Line: 1, Lines: map[string]int{"local.address": 2}}
	if local != "" {
		c.Local.Address = address(local)
	}
	c.Children = []*policy.Child{{Name: "lan", File: c.File, Line: 6, Lines: map[string]int{"local": 7}, Local: ts}}
	return c
}

func TestCheck(t *testing.T) {
	lan4, lan6 := network("10.1.0.0", "10.1.255.255"), network("2001:db8:1::", "2001:db8:1::ffff")
	self, other := network("192.0.2.1", "192.0.2.1"), network("192.0.2.9", "192.0.2.9")
	for _, c := range []struct {
		name        string
		conns       []*policy.Connection
		four, six   bool // forwarded
		want, hints []string
	}{
		{"all is well", []*policy.Connection{gateway("b", "192.0.2.1", lan4), gateway("c", "", lan4)}, true, false, nil, nil},
		{"addresses that it lacks", []*policy.Connection{gateway("b", "192.0.2.9", self), gateway("c", "192.0.2.9", self), gateway("d", "192.0.2.1", self), gateway("e", "192.0.2.8", self)}, false, false,
			[]string{"conn.d/b.toml:2: warning: connection b sends from 192.0.2.9, which is no address of this host now (and 1 more connection)",
				"conn.d/e.toml:2: warning: connection e sends from 192.0.2.8"},
			[]string{`write an address of this host, or "%any" for whichever leads to the peer; it has 192.0.2.1`}},
		{"forwarding", []*policy.Connection{gateway("b", "192.0.2.1", self), gateway("c", "192.0.2.1", self, lan4), gateway("d", "", lan6)}, false, false,
			[]string{"conn.d/c.toml:7: warning: this host forwards no IPv4 packets, so that 10.1.0.0/16 of connection c, child lan, is not reached through it",
				"conn.d/d.toml:7: warning: this host forwards no IPv6 packets"},
			[]string{"sysctl -w net.ipv4.ip_forward=1", "sysctl -w net.ipv6.conf.all.forwarding=1"}},
		{"one family", []*policy.Connection{gateway("c", "192.0.2.1", lan4, lan6)}, true, false, []string{"forwards no IPv6 packets"}, nil},
		{"an address of another host", []*policy.Connection{gateway("c", "192.0.2.1", other)}, false, true, []string{"forwards no IPv4 packets"}, nil},
	} {
		h := Host{Has: func(a netip.Addr) bool { return a == address("192.0.2.1") }, Addresses: func() []netip.Addr { return []netip.Addr{address("192.0.2.1")} },
			Forwards: func(v6 bool) bool { return v6 && c.six || !v6 && c.four }}
		got := Check(h, &policy.Snapshot{Connections: c.conns})
		if len(got) != len(c.want) || slices.ContainsFunc(got, func(p policy.Problem) bool { return !p.Warning }) {
			t.Errorf("%s: %v", c.name, got)
			continue
		}
		for i, p := range got {
			if !strings.Contains(p.String(), c.want[i]) || i < len(c.hints) && !strings.Contains(p.Hint, c.hints[i]) {
				t.Errorf("%s:\n got %v\nwant %s", c.name, p, c.want[i])
			}
		}
	}
}

// TestThis asks the kernel: 127.0.0.1 is ours everywhere, an address of the documentation's networks nowhere.
func TestThis(t *testing.T) {
	h := This()
	if !h.Has(address("127.0.0.1")) || !h.Has(address("127.0.0.9")) {
		t.Error("127.0.0.1 is said to be missing")
	}
	if h.Has(address("203.0.113.254")) {
		if b, _ := os.ReadFile("/proc/sys/net/ipv4/ip_nonlocal_bind"); strings.TrimSpace(string(b)) == "0" {
			t.Error("203.0.113.254 is said to be here")
		}
	}
	h.Addresses()
}

func TestForwards(t *testing.T) {
	root := t.TempDir()
	put := func(path, value string) {
		os.MkdirAll(filepath.Dir(filepath.Join(root, path)), 0o755)
		if err := os.WriteFile(filepath.Join(root, path), []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !forwards(root, false) {
		t.Error("what cannot be known is said to be wrong")
	}
	put("ipv4/conf/all/forwarding", "0")
	put("ipv4/conf/lo/forwarding", "1")
	put("ipv4/conf/default/forwarding", "1")
	put("ipv4/conf/eth0/forwarding", "0")
	if forwards(root, false) {
		t.Error("neither all nor eth0 forwards")
	}
	put("ipv4/conf/eth0/forwarding", "1")
	if !forwards(root, false) || !forwards(root, true) {
		t.Error("eth0 forwards")
	}
}
