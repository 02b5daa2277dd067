package userspace

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"cygnet/xfrm"
)

func passPolicy(s xfrm.Selector, priority uint32) xfrm.Policy {
	p := outPolicy(s, priority, 0)
	p.Action, p.Template = xfrm.Pass, xfrm.Template{}
	return p
}

func blockPolicy(s xfrm.Selector, priority uint32) xfrm.Policy {
	p := passPolicy(s, priority)
	p.Action = xfrm.Block
	return p
}

// hostText is what a set of policies made of the host: routes, then rules as they are evaluated.
func (b *bench) hostText() []string {
	var lines []string
	for _, routes := range b.host.routes {
		for _, r := range routes {
			lines = append(lines, fmt.Sprintf("route %v", r))
		}
	}
	for _, r := range b.host.rules.have {
		line := r.String()
		if r.local {
			line += fmt.Sprintf(" own %d %d", r.proto, r.sports.First)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

func TestSteering(t *testing.T) {
	const tun, beneath, rule4 = "dev cygnet0 metric 64 table 17241", "metric 1048576 table 17241", "rule 17200 lookup 17241"
	for _, c := range []struct {
		name     string
		policies []xfrm.Policy
		want     []string
	}{
		{"site to site", []xfrm.Policy{outPolicy(lanToLAN, 1, 1)}, []string{
			"route 10.2.0.0/16 dev cygnet0 src 10.1.0.1 metric 64 table 17241", "route unreachable 10.2.0.0/16 " + beneath, rule4,
		}},
		{"two local prefixes to one remote", []xfrm.Policy{outPolicy(selector("10.7.0.0/16", "10.2.0.0/16"), 1, 1), outPolicy(lanToLAN, 2, 1)}, []string{
			"route 10.2.0.0/16 dev cygnet0 src 10.1.0.1 metric 64 table 17241", "route unreachable 10.2.0.0/16 " + beneath, rule4,
		}},
		{"blocked", []xfrm.Policy{blockPolicy(lanToLAN, 1)}, []string{"route unreachable 10.2.0.0/16 " + beneath, rule4}},
		{"IPv6", []xfrm.Policy{outPolicy(selector("fd01::/64", "fd02::/64"), 1, 1)}, []string{
			"route fd02::/64 " + tun, "route unreachable fd02::/64 " + beneath, "IPv6 " + rule4,
		}},
		{"everything through the tunnel", []xfrm.Policy{outPolicy(selector("10.1.0.0/16", "0.0.0.0/0"), 1, 1)}, []string{
			"route 0.0.0.0/0 dev cygnet0 src 10.1.0.1 metric 64 table 17241", "route unreachable 0.0.0.0/0 " + beneath,
			"rule 17000 from 192.0.2.1/32 lookup 254 own 0 0",
			"rule 17098 to 255.255.255.255/32 lookup 254", "rule 17114 to 10.1.0.0/16 lookup 254", "rule 17114 to 169.254.0.0/16 lookup 254",
			"rule 17126 to 224.0.0.0/4 lookup 254", rule4,
		}},
		{"host to host", []xfrm.Policy{outPolicy(selector("192.0.2.1/32", "198.51.100.7/32"), 1, 1)}, []string{
			"route 198.51.100.7/32 dev cygnet0 src 192.0.2.1 metric 64 table 17241", "route unreachable 198.51.100.7/32 " + beneath,
			"rule 17000 lookup 254 own 17 4500", "rule 17000 lookup 254 own 17 500", "rule 17000 lookup 254 own 50 0", rule4,
		}},
		{"a remote prefix inside the local one", []xfrm.Policy{outPolicy(selector("10.1.0.0/16", "10.0.0.0/8"), 2, 1), outPolicy(selector("10.1.0.0/16", "10.1.9.0/24"), 1, 1)}, []string{
			"route 10.0.0.0/8 dev cygnet0 src 10.1.0.1 metric 64 table 17241", "route unreachable 10.0.0.0/8 " + beneath,
			"route 10.1.9.0/24 dev cygnet0 src 10.1.0.1 metric 64 table 17241", "route unreachable 10.1.9.0/24 " + beneath,
			"rule 17106 to 10.1.9.0/24 lookup 17241", "rule 17114 to 10.1.0.0/16 lookup 254", rule4,
		}},
		{"a local prefix that is remote for another", []xfrm.Policy{outPolicy(selector("10.1.0.0/16", "10.0.0.0/8"), 2, 1), outPolicy(selector("10.7.0.0/16", "10.1.0.0/16"), 1, 1)}, []string{
			"route 10.0.0.0/8 dev cygnet0 src 10.1.0.1 metric 64 table 17241", "route unreachable 10.0.0.0/8 " + beneath,
			"route 10.1.0.0/16 " + tun, "route unreachable 10.1.0.0/16 " + beneath, rule4,
		}},
		{"bypass inside", []xfrm.Policy{passPolicy(selector("10.1.0.0/16", "10.2.3.0/24"), 1), outPolicy(lanToLAN, 2, 1)}, []string{
			"route 10.2.0.0/16 dev cygnet0 src 10.1.0.1 metric 64 table 17241", "route unreachable 10.2.0.0/16 " + beneath,
			"rule 17001 from 10.1.0.0/16 to 10.2.3.0/24 lookup 254", rule4,
		}},
		{"bypass around", []xfrm.Policy{outPolicy(lanToLAN, 1, 1), passPolicy(selector("0.0.0.0/0", "0.0.0.0/0"), 2)}, []string{
			"route 10.2.0.0/16 dev cygnet0 src 10.1.0.1 metric 64 table 17241", "route unreachable 10.2.0.0/16 " + beneath, rule4,
		}},
		{"bypass alone", []xfrm.Policy{passPolicy(lanToLAN, 1)}, []string{"rule 17001 from 10.1.0.0/16 to 10.2.0.0/16 lookup 254"}},
	} {
		b := newBench(t)
		b.host.addresses = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.1.0.1")}
		for _, p := range c.policies {
			b.apply(t, xfrm.PutPolicy{Policy: p})
		}
		slices.Sort(c.want)
		if got := b.hostText(); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
		for _, p := range c.policies {
			b.apply(t, xfrm.RemovePolicy{Slot: p.Slot}, xfrm.RemovePolicy{Slot: p.Slot})
		}
		if got := b.hostText(); len(got) != 0 || len(b.host.guards.have) != 0 {
			t.Errorf("%s: left behind %q, guards %+v", c.name, got, b.host.guards.have)
		}
	}
}

// A bypass that comes first must never gain ground: any protected policy of higher priority that overlaps ends it.
func TestBypassNeverOpensAProtectedPrefix(t *testing.T) {
	b := newBench(t)
	b.apply(t, xfrm.PutPolicy{Policy: passPolicy(selector("10.0.0.0/8", "10.2.0.0/16"), 5)})
	if n := len(b.host.rules.have); n != 1 {
		t.Fatalf("%d rules", n)
	}
	b.apply(t, xfrm.PutPolicy{Policy: outPolicy(selector("10.1.0.0/16", "10.2.7.0/24"), 4, 1)})
	for _, r := range b.host.rules.have {
		if r.pref == prefBypass {
			t.Errorf("%v stands before a protected prefix", r)
		}
	}
}

// A rekey changes the template alone: the host is left in peace.
func TestRekeyLeavesTheHostAlone(t *testing.T) {
	b := newBench(t)
	b.apply(t, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 1)})
	b.host.fail = errors.New("routes were touched")
	b.apply(t, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 2)})
}

func TestGuards(t *testing.T) {
	b := newBench(t)
	in := outPolicy(back, 1, 1)
	in.Slot.Direction = xfrm.In
	web := lanToLAN
	web.Proto, web.DstPorts = 6, xfrm.Ports{First: 80, Last: 90}
	b.apply(t, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 1)}, xfrm.PutPolicy{Policy: in})
	if n := len(b.host.guards.have); n != 3 { // out; in and forward once for both directions
		t.Errorf("%d guards: %+v", n, b.host.guards.have)
	}
	for _, g := range b.host.guards.have {
		want := back
		if g.dir == dirOut {
			want = lanToLAN
		}
		if g.allow || g.src != want.Src || g.dst != want.Dst {
			t.Errorf("%+v", g)
		}
	}
	// A slot that turns from Block to Pass and back is never without its guard.
	p := passPolicy(lanToLAN, 1)
	b.apply(t, xfrm.RemovePolicy{Slot: in.Slot}, xfrm.PutPolicy{Policy: p})
	p.Action = xfrm.Block
	b.apply(t, xfrm.PutPolicy{Policy: p})
	b.apply(t, xfrm.RemovePolicy{Slot: p.Slot}, xfrm.PutPolicy{Policy: outPolicy(web, 1, 1)})
	for _, g := range b.host.guards.have {
		if g.proto != 6 || (g.sport.mask == 0) != (g.dir == dirOut) || (g.dport.mask == 0) == (g.dir == dirOut) {
			t.Errorf("%+v", g)
		}
	}
}

// Of all that the guards of a set of policies say about a packet that leaves, the smallest priority decides.
func TestGuardsOfWhatLeaves(t *testing.T) {
	wide, narrow := outPolicy(selector("10.1.0.0/16", "0.0.0.0/0"), 50, 1), outPolicy(selector("10.1.0.0/16", "10.1.9.0/24"), 20, 1)
	v6 := outPolicy(selector("fd01::/64", "::/0"), 60, 1)
	own := []netip.Addr{netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("fd01::1"), netip.MustParseAddr("2001:db8::1")}
	policies := []xfrm.Policy{narrow, passPolicy(selector("10.1.0.0/16", "198.51.100.0/24"), 30), wide, blockPolicy(selector("fd01::/64", "fd03::/64"), 40), v6}
	guards := planGuards(policies, true, 7, &effects{guards: map[guard]claim{}, own: own})
	for _, c := range []struct {
		src, dst string
		device   uint32
		passes   bool
	}{
		{"10.1.0.5", "203.0.113.1", 3, false},
		{"10.7.0.5", "203.0.113.1", 3, true}, // no policy's
		{"10.1.0.5", "10.1.0.6", 3, true},
		{"10.1.0.5", "10.1.9.6", 3, false}, // a remote prefix inside the local one
		{"10.1.0.5", "224.0.0.5", 3, true},
		{"10.1.0.5", "198.51.100.9", 3, true}, // bypass
		{"fd01::5", "fd02::1", 3, false},
		{"fd01::5", "fd02::1", 7, true}, // into the TUN
		{"fd01::5", "ff02::5", 3, true},
		{"fd01::1", "fd02::1", 0, true}, // of this host: no device yet
		{"fd01::1", "fd03::1", 0, false},
		{"2001:db8::1", "2001:db8::2", 0, true},
	} {
		src, dst := netip.MustParseAddr(c.src), netip.MustParseAddr(c.dst)
		best := guard{allow: true, priority: priorityLast}
		for _, g := range guards {
			if g.dir == dirOut && g.proto == 0 && g.src.Contains(src) && g.dst.Contains(dst) && (g.device == 0 || g.device == c.device) && g.priority < best.priority {
				best = g
			}
		}
		if best.allow != c.passes {
			t.Errorf("%s -> %s by device %d: passes %v, want %v (%+v)", c.src, c.dst, c.device, best.allow, c.passes, best)
		}
	}
}

func TestMasksCoverExactlyTheRange(t *testing.T) {
	for _, r := range []xfrm.Ports{{First: 80, Last: 80}, {First: 80, Last: 90}, {First: 1, Last: 65535}, {First: 0, Last: 1023}, {First: 1024, Last: 65535}, {First: 5, Last: 4}, {}} {
		list := masks(r)
		for port := range 1 << 16 {
			n := 0
			for _, m := range list {
				if uint16(port)&m.mask == m.port {
					n++
				}
			}
			if want := portMatches(r, uint16(port), true); (n > 0) != want || n > 1 {
				t.Fatalf("%v: port %d in %d of %d masks", r, port, n, len(list))
			}
		}
		if len(list) > 30 {
			t.Errorf("%v: %d masks", r, len(list))
		}
	}
}

func TestRuleCodec(t *testing.T) {
	for _, r := range []rule{
		{pref: prefTable, notMark: true, table: Table},
		{v6: true, pref: prefTable, notMark: true, table: Table},
		{pref: prefOwn, local: true, proto: 17, sports: xfrm.Ports{First: 500, Last: 500}, table: mainTable},
		{pref: prefBypass, from: lanToLAN.Src, to: lanToLAN.Dst, proto: 6, sports: xfrm.Ports{First: 1, Last: 9}, dports: xfrm.Ports{First: 80, Last: 90}, table: mainTable},
		{pref: prefBypass, from: netip.MustParsePrefix("0.0.0.0/0"), to: lanToLAN.Dst, sports: xfrm.Ports{First: 0, Last: 65535}, table: mainTable},
		{v6: true, pref: prefException, to: netip.MustParsePrefix("fe80::/10"), table: mainTable},
	} {
		r = r.normal()
		if got, ours := decodeRule(r.encode()); got != r || !ours {
			t.Errorf("%+v became %+v, ours %v", r, got, ours)
		}
	}
}

func FuzzDecodeNetlink(f *testing.F) {
	f.Add((rule{pref: prefTable, notMark: true, table: Table}).encode())
	f.Add(make([]byte, policyLen+16))
	f.Fuzz(func(t *testing.T, b []byte) {
		decodeRule(b)
		decodeGuard(b)
		decodeRoute(b)
		touches(b)
		n := &netlink{}
		n.answers(b, func([]byte) {})
	})
}

func TestSweepKeepsWhatIsWanted(t *testing.T) {
	b := newBench(t)
	b.apply(t, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 1)})
	wanted := len(b.host.rules.have)
	b.host.rules.have = append(b.host.rules.have, rule{pref: 1, table: Table})
	stray := guard{src: back.Dst, dst: back.Dst, priority: priorityFirst}
	b.host.guards.have = append(b.host.guards.have, stray)
	if err := b.Sweep(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(b.host.rules.have) != wanted || slices.Contains(b.host.guards.have, stray) || len(b.host.guards.have) == 0 {
		t.Errorf("%+v %+v", b.host.rules.have, b.host.guards.have)
	}
}
