package userspace

import (
	"bytes"
	"net/netip"
	"testing"

	"cygnet/xfrm"
)

func TestParse(t *testing.T) {
	v4 := udp4("10.1.0.5", "10.2.0.9", 7, 53, 4)
	change := func(p []byte, f func([]byte)) []byte { p = bytes.Clone(p); f(p); return p }
	options := append(append(change(v4[:20], func(p []byte) { p[0] = 0x46 }), 1, 1, 1, 1), v4[20:]...)
	v6 := udp6("fd01::5", "fd02::9", 7, 53, 4)
	chain := func(headers ...[]byte) []byte { // the first octet of each is its kind
		p := bytes.Clone(v6[:40])
		kinds := []byte{}
		for _, h := range headers {
			kinds = append(kinds, h[0])
		}
		kinds = append(kinds, 17)
		p[6] = kinds[0]
		for k, h := range headers {
			p = append(p, kinds[k+1])
			p = append(p, h[1:]...)
		}
		return append(p, v6[40:]...)
	}
	fragment := func(offset, more byte) []byte { return []byte{44, 0, 0, offset<<3 | more, 0, 0, 0, 1} }
	for _, c := range []struct {
		name         string
		p            []byte
		ok           bool
		proto        uint8
		sport, dport uint16
		ports        bool
	}{
		{"IPv4", v4, true, 17, 7, 53, true},
		{"IPv4 with options", options, true, 17, 7, 53, true},
		{"first fragment", change(v4, func(p []byte) { p[6] = 0x20 }), true, 17, 7, 53, true},
		{"later fragment", change(v4, func(p []byte) { p[7] = 1 }), true, 17, 0, 0, false},
		{"first fragment without ports", v4[:23], true, 17, 0, 0, false},
		{"ICMP", change(v4, func(p []byte) { p[9], p[20], p[21] = 1, 8, 0 }), true, 1, 0x800, 0x800, true},
		{"ESP", change(v4, func(p []byte) { p[9] = 50 }), true, 50, 0, 0, false},
		{"header not whole", v4[:19], false, 0, 0, 0, false},
		{"options not whole", options[:22], false, 0, 0, 0, false},
		{"header length 4", change(v4, func(p []byte) { p[0] = 0x41 }), false, 0, 0, 0, false},
		{"version 5", change(v4, func(p []byte) { p[0] = 0x55 }), false, 0, 0, 0, false},
		{"IPv6", v6, true, 17, 7, 53, true},
		{"IPv6 not whole", v6[:39], false, 0, 0, 0, false},
		{"IPv6 hop-by-hop and destination options", chain(make([]byte, 8), append([]byte{60, 1}, make([]byte, 14)...)), true, 17, 7, 53, true},
		{"IPv6 routing", chain(append([]byte{43, 0}, make([]byte, 6)...)), true, 17, 7, 53, true},
		{"IPv6 AH", chain(append([]byte{51, 4}, make([]byte, 22)...)), true, 17, 7, 53, true},
		{"IPv6 first fragment", chain(fragment(0, 1)), true, 17, 7, 53, true},
		{"IPv6 later fragment", chain(fragment(1, 0)), true, 17, 0, 0, false},
		{"IPv6 options beyond the end", chain([]byte{60, 200, 0, 0, 0, 0, 0, 0}), false, 0, 0, 0, false},
		{"IPv6 options not whole", chain(make([]byte, 8))[:44], false, 0, 0, 0, false},
	} {
		f, ok := parse(c.p)
		if ok != c.ok {
			t.Errorf("%s: parsed %v", c.name, ok)
			continue
		}
		if ok && (f.proto != c.proto || f.sport != c.sport || f.dport != c.dport || f.ports != c.ports) {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}

func TestTrap_4301_4_FragmentsAndPorts(t *testing.T) {
	any, opaque, one := xfrm.Ports{}, xfrm.Ports{First: 65535, Last: 0}, xfrm.Ports{First: 80, Last: 90}
	for _, c := range []struct {
		r     xfrm.Ports
		port  uint16
		known bool
		want  bool
	}{
		{any, 80, true, true}, {any, 0, false, true}, {xfrm.Ports{Last: 65535}, 0, false, true},
		{opaque, 0, false, true}, {opaque, 80, true, false},
		{one, 80, true, true}, {one, 90, true, true}, {one, 79, true, false}, {one, 91, true, false}, {one, 80, false, false},
		{xfrm.Ports{First: 1, Last: 65535}, 0, false, false},
	} {
		if got := portMatches(c.r, c.port, c.known); got != c.want {
			t.Errorf("%v, port %d known %v: %v", c.r, c.port, c.known, got)
		}
	}
}

func TestFind(t *testing.T) {
	contents := newContents()
	put := func(p xfrm.Policy) { contents.putPolicy(&policy{Policy: p}) }
	put(outPolicy(selector("10.1.0.0/16", "0.0.0.0/0"), 40, 1))
	put(outPolicy(selector("10.1.0.0/16", "10.2.0.0/16"), 30, 2))
	web := selector("10.1.0.0/16", "0.0.0.0/0")
	web.Proto, web.DstPorts = 6, xfrm.Ports{First: 443, Last: 443}
	put(outPolicy(web, 20, 3))
	put(outPolicy(selector("10.1.0.5/32", "10.2.0.9/32"), 10, 4))
	put(outPolicy(selector("fd01::/64", "::/0"), 40, 5))
	in := outPolicy(selector("10.2.0.0/16", "10.1.0.0/16"), 1, 6)
	in.Slot.Direction = xfrm.In
	put(in)
	tables := contents.tables()
	tcp := func(src, dst string, port uint16) flow {
		return flow{src: netip.MustParseAddr(src), dst: netip.MustParseAddr(dst), proto: 6, sport: 9, dport: port, ports: true}
	}
	for _, c := range []struct {
		f    flow
		want uint32 // SPI of the template; 0: none
	}{
		{tcp("10.1.0.5", "10.2.0.9", 80), 4},
		{tcp("10.1.0.5", "10.2.0.9", 443), 4},
		{tcp("10.1.0.6", "10.2.0.9", 80), 2},
		{tcp("10.1.0.6", "10.2.0.9", 443), 3}, // a shorter prefix of higher priority
		{tcp("10.1.0.6", "192.0.2.9", 443), 3},
		{tcp("10.1.0.6", "192.0.2.9", 80), 1},
		{tcp("10.7.0.6", "10.2.0.9", 80), 0},
		{tcp("10.2.0.6", "10.1.0.9", 80), 0},
		{tcp("fd01::1", "2001:db8::1", 80), 5},
		{tcp("fd09::1", "2001:db8::1", 80), 0},
	} {
		b, ok := tables.find(&c.f)
		if ok != (c.want != 0) || ok && b.Template.SPI != c.want {
			t.Errorf("%v -> %v port %d: %v, %v", c.f.src, c.f.dst, c.f.dport, ok, b.policy)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(udp4("10.1.0.5", "10.2.0.9", 7, 53, 4))
	f.Add(udp6("fd01::5", "fd02::9", 7, 53, 4))
	f.Add([]byte{})
	icmp := udp4("172.16.0.1", "10.1.0.5", 0x300, 0, 28)
	icmp[9] = 1
	copy(icmp[28:], udp4("10.1.0.5", "10.2.0.9", 7, 8, 0))
	f.Add(icmp)
	everything := []xfrm.Selector{selector("0.0.0.0/0", "0.0.0.0/0"), selector("::/0", "::/0")}
	f.Fuzz(func(t *testing.T, p []byte) {
		fl, ok := parse(p)
		if !ok {
			if allowed(everything, p) {
				t.Fatal("allowed without being read")
			}
			return
		}
		if fl.src.Is4() != fl.dst.Is4() || !fl.src.IsValid() {
			t.Fatalf("%+v", fl)
		}
		if !allowed(everything, p) {
			t.Fatal("not covered by everything")
		}
		one := fl.selector()
		if fl.ports && !matches(&one, &fl) {
			t.Fatalf("%+v does not match its own selector %+v", fl, one)
		}
		quoted(p, &fl)
	})
}
