package userspace

import (
	"net/netip"
	"slices"

	"cygnet/xfrm"
)

// planRules leads packets to our table, but for those that must not go there.
func planRules(policies []xfrm.Policy, ports [2]uint16, e *effects) []rule {
	var rules []rule
	seen := map[rule]bool{}
	put := func(r rule) {
		r = r.normal()
		if !seen[r] {
			seen[r] = true
			rules = append(rules, r)
		}
	}
	for i := range policies {
		pol, sel := &policies[i], &policies[i].Slot.Selector
		switch {
		case pol.Slot.Direction != xfrm.Out:
		case pol.Action == xfrm.Pass:
			e.passes = append(e.passes, *pol)
			if first(policies, pol) {
				put(rule{v6: sel.Dst.Addr().Is6(), pref: prefBypass, from: sel.Src, to: sel.Dst, proto: sel.Proto, sports: sel.SrcPorts, dports: sel.DstPorts, table: mainTable})
			}
		default:
			if hasOwn(pol) {
				e.askInside(policies, pol.Template.Src)
			}
			for _, r := range e.rulesOf(pol, ports) {
				put(r)
				e.rules[r]++
			}
		}
	}
	for _, r := range exceptions(policies, e) {
		put(r)
	}
	return rules
}

// ownRules are for a policy whose remote prefix holds the peer itself. The mark on our sockets already leads what we send to the peer past our
// table; but where strict reverse path filtering asks for the way back of what the peer, or a router before it, sends us, there is no mark.
// So what this host sends from its outer address goes to main, unless that address lies in a local prefix; then only what leaves our own
// ports, and ESP.
func ownRules(pol *xfrm.Policy, ports [2]uint16, inside map[netip.Addr]bool) []rule {
	if !hasOwn(pol) {
		return nil
	}
	own, v6 := pol.Template.Src, pol.Slot.Selector.Dst.Addr().Is6()
	if own.IsValid() && own.Is6() == v6 && !inside[own] {
		return []rule{{v6: v6, pref: prefOwn, local: true, from: netip.PrefixFrom(own, own.BitLen()), table: mainTable}}
	}
	r := []rule{{v6: v6, pref: prefOwn, local: true, proto: xfrm.ProtoESP, table: mainTable}}
	for _, p := range ports {
		r = append(r, rule{v6: v6, pref: prefOwn, local: true, proto: protoUDP, sports: xfrm.Ports{First: p, Last: p}, table: mainTable})
	}
	return r
}

// hasOwn: the policy has rules of ownRules.
func hasOwn(pol *xfrm.Policy) bool {
	peer := pol.Template.Dst
	return pol.Action == xfrm.Protect && (!peer.IsValid() || pol.Slot.Selector.Dst.Contains(peer))
}

// first reports whether a bypass policy comes before every policy that covers some of the same packets and does not let them pass: only then may
// a rule stand for it. What it cannot stand for is dropped, not let through.
func first(policies []xfrm.Policy, pass *xfrm.Policy) bool {
	return !slices.ContainsFunc(policies, func(p xfrm.Policy) bool { return comesBefore(&p, pass) })
}

// comesBefore reports whether p takes packets from a bypass policy.
func comesBefore(p, pass *xfrm.Policy) bool {
	return steers(p) && p.Priority <= pass.Priority &&
		p.Slot.Selector.Dst.Overlaps(pass.Slot.Selector.Dst) && p.Slot.Selector.Src.Overlaps(pass.Slot.Selector.Src)
}

// linkScope are destinations that no gateway forwards: neighbours, groups, broadcast. A policy for all the world does not mean them.
var linkScope = [...]netip.Prefix{
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("255.255.255.255/32"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("ff00::/8"), netip.MustParsePrefix("fe80::/10"),
}

// exceptions are destinations inside a policy's remote prefix that are not remote: its own local prefix (a site whose remote prefix is
// 0.0.0.0/0 must still reach its own hosts) and those of link scope. Rules do not know the longest prefix; so the policies whose
// destinations lie inside such an exception get a rule too, and preferences follow the length.
func exceptions(policies []xfrm.Policy, e *effects) []rule {
	for i := range policies {
		if !steers(&policies[i]) {
			continue
		}
		for _, l := range within(&policies[i].Slot.Selector) {
			if !slices.Contains(e.locals, l) {
				e.locals = append(e.locals, l)
			}
		}
	}
	var rules []rule
	for _, l := range e.locals {
		if len(e.remote[l]) > 0 {
			continue // it is remote all the same: protected
		}
		rules = append(rules, rule{v6: l.Addr().Is6(), pref: prefException + 128 - uint32(l.Bits()), to: l, table: mainTable})
		for i := range policies {
			if r := policies[i].Slot.Selector.Dst; steers(&policies[i]) && narrower(r, l) {
				rules = append(rules, rule{v6: r.Addr().Is6(), pref: prefException + 128 - uint32(r.Bits()), to: r, notMark: true, table: Table})
			}
		}
	}
	return rules
}

// within are the exceptions inside the remote prefix of a selector.
func within(sel *xfrm.Selector) (local []netip.Prefix) {
	for _, inner := range linkScope {
		if narrower(inner, sel.Dst) {
			local = append(local, inner)
		}
	}
	if narrower(sel.Src, sel.Dst) {
		local = append(local, sel.Src)
	}
	return local
}

// narrower reports whether p lies inside q and is not q.
func narrower(p, q netip.Prefix) bool { return q.Bits() < p.Bits() && q.Contains(p.Addr()) }
