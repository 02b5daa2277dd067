package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// list reads selectors separated by spaces.
func list(t testing.TB, text string) (out []TS) {
	t.Helper()
	for _, w := range strings.Fields(text) {
		ts, _, why := readSelector(w)
		if why != "" {
			t.Fatalf("%s %s", w, why)
		}
		out = append(out, ts)
	}
	return out
}

func child(t testing.TB, name, local, remote string) *Child {
	return &Child{Name: name, File: "conn.d/site-b.toml", Line: 10, Lines: map[string]int{"local": 11, "remote": 12}, Local: list(t, local), Remote: list(t, remote)}
}

func wordsOf(ts []TS) string {
	var out []string
	for _, t := range ts {
		out = append(out, t.word())
	}
	return strings.Join(out, " ")
}

func TestNarrow(t *testing.T) {
	lan := child(t, "lan", "10.1.0.0/16", "10.2.0.0/16")
	dmz := child(t, "dmz", "10.1.99.0/24", "10.2.0.0/16")
	rest := child(t, "rest", "0.0.0.0/0", "10.2.0.0/16")
	web := child(t, "web", "10.1.0.80[tcp/443]", "10.2.0.0/16[tcp]")
	six := child(t, "six", "2001:db8:1::/48", "2001:db8:2::/48")
	for _, c := range []struct {
		name     string
		children []*Child
		tsi, tsr string // the peer's side, ours
		child    string // "": refused
		i, r     string
		text     string
		hint     string
	}{
		{"the same", []*Child{lan}, "10.2.0.0/16", "10.1.0.0/16", "lan", "10.2.0.0/16", "10.1.0.0/16", "", ""},
		{"wider offer", []*Child{lan}, "0.0.0.0/0", "0.0.0.0/0", "lan", "10.2.0.0/16", "10.1.0.0/16", "", ""},
		{"narrower offer", []*Child{lan}, "10.2.3.0/24", "10.1.0.7", "lan", "10.2.3.0/24", "10.1.0.7", "", ""},
		{"crossing offer", []*Child{lan}, "10.2.255.0-10.3.0.255", "10.0.0.0-10.1.0.9", "lan", "10.2.255.0/24", "10.1.0.0-10.1.0.9", "", ""},
		{"packet first", []*Child{lan}, "10.2.0.5[tcp/33000] 10.2.0.0/16", "10.1.0.9[tcp/22] 10.1.0.0/16", "lan", "10.2.0.0/16", "10.1.0.0/16", "", ""},
		{"packet decides between children", []*Child{lan, dmz, rest}, "10.2.0.5[tcp/33000] 0.0.0.0/0", "192.0.2.9[tcp/22] 0.0.0.0/0", "rest", "10.2.0.0/16", "0.0.0.0/0", "", ""},
		{"several fit: the whole of the offer", []*Child{dmz, lan}, "10.2.0.0/16", "10.1.0.0/16", "lan", "10.2.0.0/16", "10.1.0.0/16", "", ""},
		{"several fit: the narrower child", []*Child{rest, lan}, "10.2.0.0/16", "10.1.0.0/16", "lan", "10.2.0.0/16", "10.1.0.0/16", "", ""},
		{"several fit equally: the first", []*Child{child(t, "one", "10.1.0.0/24", "10.2.0.0/24"), child(t, "two", "10.1.1.0/24", "10.2.1.0/24")}, "10.2.0.0/16", "10.1.0.0/16",
			"one", "10.2.0.0/24", "10.1.0.0/24", "", ""},
		{"none fits whole: the greatest share", []*Child{child(t, "small", "10.1.0.0/24", "10.2.0.0/24"), child(t, "large", "10.1.8.0/21", "10.2.0.0/16"), child(t, "other", "10.1.1.0/24", "10.2.1.0/24")},
			"10.2.0.0/16", "10.1.0.0/16", "large", "10.2.0.0/16", "10.1.8.0/21", "", ""},
		{"protocol and port", []*Child{web}, "10.2.0.0/16", "10.1.0.0/16", "web", "10.2.0.0/16[tcp]", "10.1.0.80[tcp/443]", "", ""},
		{"ports cross", []*Child{web}, "10.2.0.0/16", "10.1.0.0/16[tcp/400-500]", "web", "10.2.0.0/16[tcp]", "10.1.0.80[tcp/443]", "", ""},
		{"other protocol", []*Child{web}, "10.2.0.0/16", "10.1.0.0/16[udp/443]", "", "", "", "no child of site-b has traffic in common", `conn.d/site-b.toml:11: local = ["10.1.0.0/16[udp/443]"]`},
		{"opaque within any", []*Child{lan}, "10.2.0.0/16[tcp/opaque]", "10.1.0.0/16[tcp]", "lan", "10.2.0.0/16[tcp/opaque]", "10.1.0.0/16[tcp]", "", ""},
		{"opaque is no port", []*Child{web}, "10.2.0.0/16[tcp]", "10.1.0.80[tcp/opaque]", "", "", "", "no child", ""},
		{"both families, one child", []*Child{lan}, "10.2.0.0/16 2001:db8:2::/48", "10.1.0.0/16 2001:db8:1::/48", "lan", "10.2.0.0/16", "10.1.0.0/16", "", ""},
		{"IPv6", []*Child{lan, six}, "::/0", "::/0", "six", "2001:db8:2::/48", "2001:db8:1::/48", "", ""},
		{"families never meet", []*Child{child(t, "mixed", "10.1.0.0/16 2001:db8:1::/48", "10.2.0.0/16")}, "10.2.0.0/16", "2001:db8:1::/48", "", "", "", "no child", ""},
		{"several selectors", []*Child{child(t, "lan", "10.1.0.0/24 10.1.2.0/24", "10.2.0.0/16")}, "10.2.0.0/24 10.2.1.0/24", "10.1.0.0/16", "lan", "10.2.0.0/24 10.2.1.0/24", "10.1.0.0/24 10.1.2.0/24", "", ""},
		{"the peer's side is wrong", []*Child{lan}, "10.9.0.0/16", "10.1.0.0/16", "", "", "",
			"the peer asks for 10.9.0.0/16 (peer) <-> 10.1.0.0/16 (here); no child of site-b has traffic in common with that: ours lan: 10.2.0.0/16 <-> 10.1.0.0/16",
			`conn.d/site-b.toml:12: remote = ["10.9.0.0/16"] or change the peer`},
		{"both are wrong", []*Child{lan}, "10.9.0.0/16", "10.8.0.0/16", "", "", "", "no child", "conn.d/site-b.toml:3: add a child"},
		{"no child", nil, "10.9.0.0/16", "10.8.0.0/16", "", "", "", "no child", ""},
		{"nothing offered", []*Child{lan}, "", "10.1.0.0/16", "", "", "", "the peer asks for nothing (peer)", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			us := &Connection{Name: "site-b", File: "conn.d/site-b.toml", Line: 3, Children: c.children}
			ch, i, r, m := Narrow(us, WireTS(list(t, c.tsi)), WireTS(list(t, c.tsr)))
			if c.child == "" {
				if m == nil || m.Notify != wire.NotifyTSUnacceptable || !strings.Contains(m.Text, c.text) || !strings.Contains(m.Hint, c.hint) || ch != nil || i != nil || r != nil {
					t.Fatalf("%+v", m)
				}
				return
			}
			if m != nil {
				t.Fatal(m)
			}
			if ch.Name != c.child || wordsOf(i) != c.i || wordsOf(r) != c.r {
				t.Errorf("child %s, %s <-> %s", ch.Name, wordsOf(i), wordsOf(r))
			}
			i2, r2, m := NarrowTo(us, ch, WireTS(list(t, c.tsi)), WireTS(list(t, c.tsr)))
			if m != nil || !slices.Equal(i, i2) || !slices.Equal(r, r2) {
				t.Errorf("NarrowTo: %s <-> %s, %v", wordsOf(i2), wordsOf(r2), m)
			}
			// The offerer finds the answer within its offer.
			if _, _, m := CheckNarrowed(child(t, "x", c.tsi, c.tsr), WireTS(i), WireTS(r)); m != nil {
				t.Error(m)
			}
		})
	}
}

func TestCheckNarrowed(t *testing.T) {
	ch := child(t, "lan", "10.1.0.0/24 10.1.1.0/24 10.7.0.0/16[tcp/443]", "10.2.0.0/16")
	for _, c := range []struct{ name, i, r, wantI, wantR, text string }{
		{"the same", "10.1.0.0/24 10.1.1.0/24 10.7.0.0/16[tcp/443]", "10.2.0.0/16", "10.1.0.0/24 10.1.1.0/24 10.7.0.0/16[tcp/443]", "10.2.0.0/16", ""},
		{"narrower", "10.1.0.0/25", "10.2.3.0/24[udp]", "10.1.0.0/25", "10.2.3.0/24[udp]", ""},
		{"neighbours as one", "10.1.0.0/23", "10.2.0.0/16", "10.1.0.0/23", "10.2.0.0/16", ""},
		{"the packet and its network", "10.1.0.7[tcp/33000] 10.1.0.0/24", "10.2.0.9[tcp/80] 10.2.0.0/16", "10.1.0.0/24", "10.2.0.0/16", ""},
		{"wider here", "10.1.0.0/22", "10.2.0.0/16", "", "", "10.1.0.0/22 (here) was not offered"},
		{"wider there", "10.1.0.0/24", "10.0.0.0/8", "", "", "10.0.0.0/8 (peer) was not offered"},
		{"wider by port", "10.7.0.0/16[tcp]", "10.2.0.0/16", "", "", "10.7.0.0/16 tcp (here) was not offered"},
		{"wider by protocol", "10.7.0.0/16", "10.2.0.0/16", "", "", "10.7.0.0/16 (here) was not offered"},
		{"empty", "10.1.0.0/24", "", "", "", "it is empty"},
		{"no packet matches", "10.7.0.0/16[tcp/443]", "10.2.0.0/16[udp]", "", "", "no packet can match both sides"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i, r, m := CheckNarrowed(ch, WireTS(list(t, c.i)), WireTS(list(t, c.r)))
			if c.text != "" {
				if m == nil || !strings.Contains(m.Text, c.text) || !strings.HasPrefix(m.Hint, "conn.d/site-b.toml:12: ") || i != nil || r != nil {
					t.Fatalf("%+v", m)
				}
				return
			}
			if m != nil || wordsOf(i) != c.wantI || wordsOf(r) != c.wantR {
				t.Errorf("%s <-> %s, %v", wordsOf(i), wordsOf(r), m)
			}
		})
	}
}

func TestSelectors(t *testing.T) {
	got := Selectors(list(t, "10.1.0.1-10.1.0.6 2001:db8::/32"), list(t, "10.2.0.0/16[tcp/443] ::/0"))
	var text []string
	for _, s := range got {
		text = append(text, s.Src.String()+" "+s.Dst.String())
		if s.Dst.Addr().Is4() && (s.Proto != 6 || s.DstPorts != xfrm.Ports{First: 443, Last: 443} || s.SrcPorts != anyPort()) {
			t.Errorf("%+v", s)
		}
	}
	want := "10.1.0.1/32 10.2.0.0/16,10.1.0.2/31 10.2.0.0/16,10.1.0.4/31 10.2.0.0/16,10.1.0.6/32 10.2.0.0/16,2001:db8::/32 ::/0"
	if strings.Join(text, ",") != want {
		t.Errorf("%s", strings.Join(text, ","))
	}
	if Selectors(list(t, "10.1.0.0/16[tcp]"), list(t, "10.2.0.0/16[udp]")) != nil {
		t.Error("two protocols make a selector")
	}
}

// TestPrefixes: the split covers exactly the range, without overlap, in order, and with no two that could be one.
func TestPrefixes(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
	}{
		{"0.0.0.0/0", 1}, {"::/0", 1}, {"0.0.0.1-255.255.255.254", 62}, {"::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe", 254},
		{"10.0.0.0-10.0.0.9", 2}, {"10.0.0.5", 1}, {"255.255.255.255", 1}, {"10.0.0.255-10.0.1.0", 2}, {"0.0.0.0-255.255.255.254", 32},
	} {
		ts := list(t, c.text)[0]
		ps := ts.prefixes()
		if len(ps) != c.n {
			t.Errorf("%s: %d prefixes, wanted %d", c.text, len(ps), c.n)
		}
		at := ts.Start
		for _, p := range ps {
			if p.Addr() != at || p.Masked() != p {
				t.Errorf("%s: %v does not begin at %v", c.text, p, at)
			}
			at = lastOf(p).Next()
		}
		if lastOf(ps[len(ps)-1]) != ts.End {
			t.Errorf("%s: ends with %v", c.text, ps[len(ps)-1])
		}
	}
}

func TestSelectorWords(t *testing.T) {
	for _, c := range []struct{ text, str string }{
		{"10.1.0.0/16", "10.1.0.0/16"},
		{"10.1.0.0-10.1.255.255", "10.1.0.0/16"},
		{"10.1.0.0-10.1.0.9[tcp/443]", "10.1.0.0-10.1.0.9 tcp/443"},
		{" 10.1.0.5 [ UDP/1000-2000 ]", "10.1.0.5 udp/1000-2000"},
		{"10.1.0.5/32[17]", "10.1.0.5 udp"},
		{"10.1.0.0/16[%any]", "10.1.0.0/16"},
		{"10.1.0.0/16[99]", "10.1.0.0/16 99"},
		{"10.1.0.0/16[tcp/%opaque]", "10.1.0.0/16 tcp/opaque"},
		{"10.1.0.0/16[icmp/8]", "10.1.0.0/16 icmp/8"},
		{"10.1.0.0/16[icmp/3(1)]", "10.1.0.0/16 icmp/3(1)"},
		{"2001:db8::/32[icmpv6/any]", "2001:db8::/32 icmpv6"},
		{"2001:db8::1-2001:db8::9", "2001:db8::1-2001:db8::9"},
	} {
		ts, masked, why := readSelector(c.text)
		if why != "" || masked != "" || ts.String() != c.str {
			t.Errorf("%q: %q, %q, %q", c.text, ts, masked, why)
		}
		if again, _, why := readSelector(ts.word()); again != ts {
			t.Errorf("%q is written %q, which %q", c.text, ts.word(), why)
		}
		if back := fromWire(WireTS([]TS{ts})); len(back) != 1 || back[0] != ts {
			t.Errorf("%q comes back as %v", c.text, back)
		}
	}
	for _, text := range []string{"", "[tcp]", "10.1.0.0/16[]", "10.1.0.0/16[tcp/70000]", "10.1.0.0/16[tcp/9-1]", "10.1.0.0/16[256]", "10.1.0.0/16[icmp/8(]", "10.1.0.0/16[icmp/256]", "10.1.0.0/16[0/1]",
		"-", "10.1.0.0-", "::ffff:10.0.0.0/104", "10.1.0.0/16[tcp]x", "10.1.0.0/-1"} {
		if ts, _, why := readSelector(text); why == "" {
			t.Errorf("%q is read as %v", text, ts)
		}
	}
}

// TestNarrowBounds: a peer within wide selectors cannot make the data plane install more than so many selectors, nor keep us busy.
func TestNarrowBounds(t *testing.T) {
	us := &Connection{Name: "site-b", Children: []*Child{child(t, "all", "0.0.0.0/0 ::/0", "0.0.0.0/0 ::/0")}}
	ugly := func(v6 bool) (out []wire.TrafficSelector) {
		for n := range wire.MaxSelectors {
			a := netip.AddrFrom4([4]byte{byte(n), 0, 0, 1})
			b := netip.AddrFrom4([4]byte{byte(n), 255, 255, 254})
			if v6 {
				a, b = netip.MustParseAddr("::1"), netip.MustParseAddr("ffff::fffe")
			}
			out = append(out, WireTS([]TS{{Start: a, End: b, Proto: 6, Ports: xfrm.Ports{First: uint16(n), Last: 60000}}})...)
		}
		return out
	}
	_, i, r, m := Narrow(us, ugly(false), ugly(false))
	if m != nil || len(i) == 0 || len(r) == 0 {
		t.Fatal(m)
	}
	if n := len(Selectors(i, r)); n > maxSelectors {
		t.Errorf("%d selectors", n)
	}
	if !i[0].within(fromWire(ugly(false)[:1])) {
		t.Error("the first selector of the offer is not the first of the answer")
	}
	if _, _, _, m := Narrow(us, ugly(true), ugly(true)); m == nil {
		t.Error("two ranges of IPv6 that split into 64516 pairs were accepted")
	}
}
