package userspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"cygnet/xfrm"
	"cygnet/xfrm/netcfg"
)

const (
	// Table is our routing table, and Mark the firewall mark of packets that do not look into it: what the transport sends.
	Table = 0x4359 // "CY"
	Mark  = 0x4359

	metricTUN         = 64
	metricUnreachable = 1 << 20

	mainTable = 254

	// Preferences of our rules, before main (32766): first what is ours by port, then bypass policies, then exceptions with the longest
	// prefix first, then everything into our table.
	prefOwn       = 17000
	prefBypass    = 17001
	prefException = 17002 // + 128 - length of the prefix
	prefTable     = 17200
)

// steering makes the host lead the right packets into the TUN and no clear ones past it. It holds what it has done, so that a change costs what
// differs.
type steering struct {
	net    Network
	dev    *hostLink   // nil in tests without a host, as table is
	table  routeLister // what stands in our table
	rules  ruleSet
	guards guardSet // nil: the kernel cannot
	link   netcfg.Link
	marked bool // what comes out of the TUN bears innerMark
	ports  [2]uint16
	notes  []string
	closer func() error

	linked    bool
	routes    map[netip.Prefix][]netcfg.Route
	rulesNow  []rule
	guardsNow []guard
}

// ruleSet and guardSet are the kernel's. Adding what is there and removing what is not there is no error.
type ruleSet interface {
	add(rule) error
	remove(rule) error
	list() ([]rule, error) // ours
}

type guardSet interface {
	add(guard) error
	remove(guard) error
	list() ([]guard, error) // ours
}

// plan is what a set of policies needs of the host.
type plan struct {
	routes map[netip.Prefix][]netcfg.Route
	rules  []rule
	guards []guard
}

// apply brings the host to what policies need: guards and routes come before the rules that use them, and go after.
func (s *steering) apply(ctx context.Context, policies []xfrm.Policy) error {
	if !s.linked {
		if err := s.net.Set(ctx, s.link.Name, netcfg.Desired{Links: []netcfg.Link{s.link}}); err != nil {
			return err
		}
		s.linked = true
	}
	p, err := s.plan(ctx, policies)
	if err != nil {
		return err
	}
	if err := change(&s.guardsNow, p.guards, s.addGuard, nil); err != nil {
		return err
	}
	if err := s.setRoutes(ctx, p.routes); err != nil {
		return err
	}
	if err := change(&s.rulesNow, p.rules, s.rules.add, s.rules.remove); err != nil {
		return err
	}
	return s.removeGuards(&s.guardsNow, p.guards)
}

func (s *steering) addGuard(g guard) error {
	if s.guards == nil {
		return nil
	}
	return s.guards.add(g)
}

// removeGuards removes from the kernel what now has and want has not. One that was replaced in its slot is gone already.
func (s *steering) removeGuards(now *[]guard, want []guard) error {
	return change(now, want, nil, func(g guard) error {
		replaced := slices.ContainsFunc(want, func(w guard) bool { return w.slot() == g.slot() })
		if s.guards == nil || replaced {
			return nil
		}
		return s.guards.remove(g)
	})
}

// change adds what want has and now has not, then removes what now has and want has not, and keeps now true all along. Either may be nil: left
// for another call.
func change[T comparable](now *[]T, want []T, add, remove func(T) error) error {
	if add != nil {
		for _, x := range want {
			if slices.Contains(*now, x) {
				continue
			}
			if err := add(x); err != nil {
				return err
			}
			*now = append(*now, x)
		}
	}
	if remove == nil {
		return nil
	}
	var errs []error
	*now = slices.DeleteFunc(*now, func(x T) bool {
		if slices.Contains(want, x) {
			return false
		}
		err := remove(x)
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

// setRoutes changes the routes of those destinations whose routes differ. Each destination is an owner of its own to netcfg.
func (s *steering) setRoutes(ctx context.Context, want map[netip.Prefix][]netcfg.Route) error {
	all := maps.Clone(want)
	for dst := range s.routes {
		if _, wanted := all[dst]; !wanted {
			all[dst] = nil
		}
	}
	for _, dst := range slices.SortedFunc(maps.Keys(all), comparePrefixes) {
		if reflect.DeepEqual(s.routes[dst], all[dst]) {
			continue
		}
		if err := s.net.Set(ctx, owner(s.link.Name, dst), netcfg.Desired{Routes: all[dst]}); err != nil {
			return err
		}
		s.routes[dst] = all[dst]
		if all[dst] == nil {
			delete(s.routes, dst)
		}
	}
	return nil
}

func owner(tun string, dst netip.Prefix) string { return tun + " " + dst.String() }

func (s *steering) plan(ctx context.Context, policies []xfrm.Policy) (plan, error) {
	p := plan{routes: make(map[netip.Prefix][]netcfg.Route)}
	for i := range policies {
		if policies[i].Slot.Direction != xfrm.Out || policies[i].Action == xfrm.Pass {
			continue
		}
		if err := s.planRoutes(ctx, &p, &policies[i]); err != nil {
			return p, err
		}
	}
	p.rules = planRules(policies, s.ports)
	own, err := s.ownIPv6(ctx, policies)
	if err != nil {
		return p, err
	}
	p.guards = planGuards(policies, s.marked, s.index(), own)
	return p, nil
}

// index of the TUN.
func (s *steering) index() uint32 {
	if s.dev == nil {
		return 0
	}
	return s.dev.index
}

// ownIPv6 are the addresses of this host when the guards ask for them.
func (s *steering) ownIPv6(ctx context.Context, policies []xfrm.Policy) ([]netip.Addr, error) {
	if s.guards == nil || !slices.ContainsFunc(policies, func(p xfrm.Policy) bool { return p.Slot.Selector.Src.Addr().Is6() }) {
		return nil, nil
	}
	return s.net.Addresses(ctx)
}

// planRoutes adds the routes of an outbound policy that protects or blocks: into the TUN, with a source that lets this host's own
// traffic fit the policy, and beneath it one that answers "unreachable" when the TUN is gone.
func (s *steering) planRoutes(ctx context.Context, p *plan, pol *xfrm.Policy) error {
	sel := &pol.Slot.Selector
	list := p.routes[sel.Dst]
	if len(list) == 0 {
		list = []netcfg.Route{{Dst: sel.Dst, Unreachable: true, Metric: metricUnreachable, Table: Table}}
	}
	if pol.Action == xfrm.Protect {
		into := netcfg.Route{Dst: sel.Dst, Link: s.link.Name, Metric: metricTUN, Table: Table}
		if sel.Src.Bits() > 0 {
			src, found, err := s.net.AddressIn(ctx, sel.Src)
			if err != nil {
				return err
			}
			if found {
				into.Src = src
			}
		}
		switch {
		case len(list) == 1:
			list = append(list, into)
		case !list[1].Src.IsValid():
			list[1] = into
		}
	}
	p.routes[sel.Dst] = list
	return nil
}

// planRules leads packets to our table, but for those that must not go there.
func planRules(policies []xfrm.Policy, ports [2]uint16) []rule {
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
		v6 := sel.Dst.Addr().Is6()
		switch {
		case pol.Slot.Direction != xfrm.Out:
		case pol.Action == xfrm.Pass:
			if first(policies, pol) {
				put(rule{v6: v6, pref: prefBypass, from: sel.Src, to: sel.Dst, proto: sel.Proto, sports: sel.SrcPorts, dports: sel.DstPorts, table: mainTable})
			}
		default:
			for _, r := range ownRules(policies, pol, ports) {
				put(r)
			}
			put(rule{v6: v6, pref: prefTable, notMark: true, table: Table})
		}
	}
	for _, r := range exceptions(policies) {
		put(r)
	}
	return rules
}

// ownRules are for a policy whose remote prefix holds the peer itself. The mark on our sockets already leads what we send to the peer past our
// table; but where strict reverse path filtering asks for the way back of what the peer, or a router before it, sends us, there is no mark.
// So what this host sends from its outer address goes to main, unless that address lies in a local prefix; then only what leaves our own
// ports, and ESP.
func ownRules(policies []xfrm.Policy, pol *xfrm.Policy, ports [2]uint16) []rule {
	own, peer := pol.Template.Src, pol.Template.Dst
	dst := pol.Slot.Selector.Dst
	if pol.Action != xfrm.Protect || peer.IsValid() && !dst.Contains(peer) {
		return nil
	}
	v6 := dst.Addr().Is6()
	inside := slices.ContainsFunc(policies, func(p xfrm.Policy) bool {
		return p.Slot.Direction == xfrm.Out && p.Action != xfrm.Pass && p.Slot.Selector.Src.Contains(own)
	})
	if own.IsValid() && own.Is6() == v6 && !inside {
		return []rule{{v6: v6, pref: prefOwn, local: true, from: netip.PrefixFrom(own, own.BitLen()), table: mainTable}}
	}
	r := []rule{{v6: v6, pref: prefOwn, local: true, proto: xfrm.ProtoESP, table: mainTable}}
	for _, p := range ports {
		r = append(r, rule{v6: v6, pref: prefOwn, local: true, proto: protoUDP, sports: xfrm.Ports{First: p, Last: p}, table: mainTable})
	}
	return r
}

// first reports whether a bypass policy comes before every policy that covers some of the same packets and does not let them pass: only then may
// a rule stand for it. What it cannot stand for is dropped, not let through.
func first(policies []xfrm.Policy, pass *xfrm.Policy) bool {
	for i := range policies {
		p := &policies[i]
		if p.Slot.Direction == xfrm.Out && p.Action != xfrm.Pass && p.Priority <= pass.Priority &&
			p.Slot.Selector.Dst.Overlaps(pass.Slot.Selector.Dst) && p.Slot.Selector.Src.Overlaps(pass.Slot.Selector.Src) {
			return false
		}
	}
	return true
}

// linkScope are destinations that no gateway forwards: neighbours, groups, broadcast. A policy for all the world does not mean them.
var linkScope = [...]netip.Prefix{
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("255.255.255.255/32"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("ff00::/8"), netip.MustParsePrefix("fe80::/10"),
}

// exceptions are destinations inside a policy's remote prefix that are not remote: its own local prefix (a site whose remote prefix is
// 0.0.0.0/0 must still reach its own hosts) and those of link scope. Rules do not know the longest prefix; so the policies whose
// destinations lie inside such an exception get a rule too, and preferences follow the length.
func exceptions(policies []xfrm.Policy) []rule {
	var local, remote []netip.Prefix
	for i := range policies {
		sel := &policies[i].Slot.Selector
		if policies[i].Slot.Direction != xfrm.Out || policies[i].Action == xfrm.Pass {
			continue
		}
		remote = append(remote, sel.Dst)
		for _, inner := range append(linkScope[:], sel.Src) {
			if sel.Dst.Bits() < inner.Bits() && sel.Dst.Contains(inner.Addr()) {
				local = append(local, inner)
			}
		}
	}
	var rules []rule
	for _, l := range local {
		if slices.Contains(remote, l) {
			continue // it is remote all the same: protected
		}
		rules = append(rules, rule{v6: l.Addr().Is6(), pref: prefException + 128 - uint32(l.Bits()), to: l, table: mainTable})
		for _, r := range remote {
			if l.Bits() < r.Bits() && l.Contains(r.Addr()) {
				rules = append(rules, rule{v6: r.Addr().Is6(), pref: prefException + 128 - uint32(r.Bits()), to: r, notMark: true, table: Table})
			}
		}
	}
	return rules
}

// comparePolicies orders by direction, priority and selector.
func comparePolicies(a, b xfrm.Policy) int {
	return cmp.Or(
		cmp.Compare(a.Slot.Direction, b.Slot.Direction), cmp.Compare(a.Priority, b.Priority),
		compareSelectors(&a.Slot.Selector, &b.Slot.Selector), cmp.Compare(a.Slot.Mark, b.Slot.Mark), cmp.Compare(a.Slot.IfID, b.Slot.IfID),
	)
}

// Sweep removes routes, rules and guards of ours that no policy needs: what an earlier process left. It is called when the policies of the
// configuration have been put, so that a protected prefix is never without.
func (d *Driver) Sweep(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.host.sweep(ctx)
}

func (s *steering) sweep(ctx context.Context) error {
	errs := []error{s.net.Sweep(ctx, nil)}
	rules, err := s.rules.list()
	errs = append(errs, err, change(&rules, s.rulesNow, nil, s.rules.remove))
	if s.guards != nil {
		guards, err := s.guards.list()
		errs = append(errs, err, s.removeGuards(&guards, s.guardsNow))
	}
	return errors.Join(errs...)
}

func (s *steering) close() error {
	if s.closer == nil {
		return nil
	}
	return s.closer()
}

// newSteering opens the host's side. The TUN must be there already.
func newSteering(c Config) (*steering, error) {
	s := &steering{
		net: c.Net, ports: c.Ports, routes: make(map[netip.Prefix][]netcfg.Route),
		link: netcfg.Link{Name: c.TUN, Up: true, MTU: c.MTU, TxQueueLen: txQueueLen},
	}
	var closers []func() error
	s.closer = func() error {
		var errs []error
		for _, c := range closers {
			errs = append(errs, c())
		}
		return errors.Join(errs...)
	}
	if s.net == nil {
		h, err := netcfg.New()
		if err != nil {
			return nil, err
		}
		s.net = h
		closers = append(closers, func() error { h.Close(); return nil })
	}
	rules, err := openRules()
	if err != nil {
		return nil, errors.Join(err, s.closer())
	}
	s.rules = rules
	closers = append(closers, rules.nl.close)
	s.table = kernelRoutes{rules.nl}
	if s.dev, err = openLink(c.TUN); err != nil {
		return nil, errors.Join(err, s.closer())
	}
	closers = append(closers, s.dev.close)
	if err := s.attach(); err != nil {
		return nil, errors.Join(err, s.closer())
	}
	guards, err := openGuards()
	if err == nil {
		closers = append(closers, guards.nl.close)
		_, err = s.dev.exempt()
	}
	if err != nil {
		s.notes = append(s.notes, fmt.Sprintf("clear packets that should have come through a tunnel are refused by reverse path filtering alone, and those that should "+
			"leave through one are kept by routing alone (%v): set net.ipv4.conf.all.rp_filter = 1, and filter IPv6", err))
		return s, nil
	}
	s.guards = guards
	if err := s.dev.mark(); err != nil {
		s.notes = append(s.notes, fmt.Sprintf("clear IPv6 packets to addresses of this host itself are not refused where they should have come through a tunnel (%v)", err))
		return s, nil
	}
	s.marked = true
	return s, nil
}
