package kernel

import (
	"slices"
	"strings"
	"testing"

	"cygnet/xfrm"
	"cygnet/xfrm/netcfg"
)

// ours lists our routes in a namespace, in iproute2's words.
func (n *namespace) ours(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, f := range []string{"-4", "-6"} {
		for line := range strings.Lines(n.ip(t, f+" route show table all proto 67")) {
			out = append(out, strings.Join(strings.Fields(line), " "))
		}
	}
	return out
}

func TestRoutesThatPoliciesNeed(t *testing.T) {
	toPeer := func(dst string) xfrm.Policy { return protect(xfrm.Out, "10.1.0.0/16", dst) }
	for name, c := range map[string]struct {
		before []string // iproute2 commands
		policy xfrm.Policy
		want   []string
	}{
		"default route, an address inside": {nil, toPeer("10.2.0.0/16"),
			[]string{"10.2.0.0/16 via 192.0.2.254 dev wan src 10.1.0.1"}},
		"default route, no address inside": {[]string{"addr del 10.1.0.1/32 dev lo"}, toPeer("10.2.0.0/16"), nil},
		"no route, no address inside": {[]string{"addr del 10.1.0.1/32 dev lo", "route replace 198.51.100.0/24 via 192.0.2.253", "route del default"}, toPeer("10.2.0.0/16"),
			[]string{"10.2.0.0/16 via 192.0.2.253 dev wan"}},
		"peer on the link":          {nil, with(toPeer("10.2.0.0/16"), func(p *xfrm.Policy) { p.Template.Dst = ip("192.0.2.9") }), []string{"10.2.0.0/16 dev wan scope link src 10.1.0.1"}},
		"the administrator has one": {[]string{"route add 10.0.0.0/8 via 192.0.2.99"}, toPeer("10.2.0.0/16"), nil},
		"one for a part is not enough": {[]string{"route add 10.2.0.0/24 via 192.0.2.99"}, toPeer("10.2.0.0/16"),
			[]string{"10.2.0.0/16 via 192.0.2.254 dev wan src 10.1.0.1"}},
		"everything": {nil, toPeer("0.0.0.0/0"),
			[]string{"0.0.0.0/1 via 192.0.2.254 dev wan src 10.1.0.1", "128.0.0.0/1 via 192.0.2.254 dev wan src 10.1.0.1"}},
		"IPv6 in IPv4": {nil, protect(xfrm.Out, "fd00:1::/32", "fd00:2::/32"),
			[]string{"fd00:2::/32 dev wan src fd00:1::1 metric 1024 pref medium"}},
		"inbound":   {nil, protect(xfrm.In, "10.2.0.0/16", "10.1.0.0/16"), nil},
		"transport": {nil, with(toPeer("198.51.100.7/32"), func(p *xfrm.Policy) { p.Template.Mode = xfrm.Transport }), nil},
		"block":     {nil, with(toPeer("10.2.0.0/16"), func(p *xfrm.Policy) { p.Action, p.Template = xfrm.Block, xfrm.Template{} }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := gateway(t)
			for _, args := range c.before {
				n.ip(t, args)
			}
			d := n.driver(t, Config{})
			for range 2 {
				apply(t, d, xfrm.PutPolicy{Policy: c.policy})
				if got := n.ours(t); !slices.Equal(got, c.want) {
					t.Errorf("routes %q, want %q", got, c.want)
				}
			}
			apply(t, d, xfrm.RemovePolicy{Slot: c.policy.Slot})
			if got := n.ours(t); len(got) != 0 {
				t.Errorf("left: %q", got)
			}
		})
	}
}

// Two children with one remote prefix share its route; it goes with the last of them.
func TestRouteIsShared(t *testing.T) {
	n := gateway(t)
	n.ip(t, "addr add 10.3.0.1/32 dev lo")
	d := n.driver(t, Config{})
	first, second := protect(xfrm.Out, "10.1.0.0/16", "10.2.0.0/16"), protect(xfrm.Out, "10.1.0.0/17", "10.2.0.0/16")
	apply(t, d, xfrm.PutPolicy{Policy: first}, xfrm.PutPolicy{Policy: second}, xfrm.RemovePolicy{Slot: first.Slot})
	if got := n.ours(t); len(got) != 1 {
		t.Errorf("routes %q", got)
	}
	apply(t, d, xfrm.RemovePolicy{Slot: second.Slot})
	if got := n.ours(t); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// The next process finds policies and routes of this one: Dump takes over what belongs to a policy, and Sweep removes the rest.
func TestRoutesOutliveTheProcess(t *testing.T) {
	n := gateway(t)
	d := n.driver(t, Config{})
	keep, gone := protect(xfrm.Out, "10.1.0.0/16", "10.2.0.0/16"), protect(xfrm.Out, "10.1.0.0/16", "10.3.0.0/16")
	apply(t, d, xfrm.PutPolicy{Policy: keep}, xfrm.PutPolicy{Policy: gone})
	n.ip(t, "xfrm policy delete src 10.1.0.0/16 dst 10.3.0.0/16 dir out")
	if got := n.ours(t); len(got) != 2 {
		t.Fatalf("routes %q", got)
	}
	var host *netcfg.Host
	n.must(t, func() (err error) { host, err = netcfg.New(); return err })
	defer host.Close()
	next := n.driver(t, Config{Host: host})
	dump(t, next)
	if err := host.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := n.ours(t); len(got) != 1 || !strings.HasPrefix(got[0], "10.2.0.0/16") {
		t.Errorf("routes %q", got)
	}
	apply(t, next, xfrm.RemovePolicy{Slot: keep.Slot})
	if got := n.ours(t); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// A route that cannot be set is told, and the policy stands all the same.
func TestRouteThatCannotBeSet(t *testing.T) {
	n := gateway(t)
	n.ip(t, "route del default")
	var warned []error
	d := n.driver(t, Config{Warn: func(err error) { warned = append(warned, err) }})
	p := protect(xfrm.Out, "10.1.0.0/16", "10.2.0.0/16")
	apply(t, d, xfrm.PutPolicy{Policy: p})
	if len(warned) != 1 || !strings.Contains(warned[0].Error(), "198.51.100.7") {
		t.Errorf("warnings %v", warned)
	}
	warned = nil
	if got := dump(t, d).Policies; len(got) != 1 || got[0] != p {
		t.Errorf("policies %+v", got)
	}
}
