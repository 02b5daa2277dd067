package userspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
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
	effects   *effects // of the policies as they were applied; nil: not known
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
	*effects
}

// apply brings the host to what policies need: guards and routes come before the rules that use them, and go after.
func (s *steering) apply(ctx context.Context, policies []xfrm.Policy) error {
	if !s.linked {
		if err := s.net.Set(ctx, s.link.Name, netcfg.Desired{Links: []netcfg.Link{s.link}}); err != nil {
			return err
		}
		s.linked = true
	}
	s.effects = nil
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
	if err := s.removeGuards(&s.guardsNow, p.guards); err != nil {
		return err
	}
	s.effects = p.effects
	s.effects.locate(s.guardsNow)
	return nil
}

func (s *steering) addGuard(g guard) error {
	if s.guards == nil {
		return nil
	}
	return s.guards.add(g)
}

// removeGuards removes from the kernel what now has and want has not. One that was replaced in its slot is gone already.
func (s *steering) removeGuards(now *[]guard, want []guard) error {
	slots := make(map[guard]bool, len(want))
	for _, w := range want {
		slots[w.slot()] = true
	}
	return change(now, want, nil, func(g guard) error {
		if s.guards == nil || slots[g.slot()] {
			return nil
		}
		return s.guards.remove(g)
	})
}

// change adds what want has and now has not, then removes what now has and want has not, and keeps now true all along. Either may be nil: left
// for another call.
func change[T comparable](now *[]T, want []T, add, remove func(T) error) error {
	if add != nil {
		there := setOf(*now)
		for _, x := range want {
			if there[x] {
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
	wanted := setOf(want)
	*now = slices.DeleteFunc(*now, func(x T) bool {
		if wanted[x] {
			return false
		}
		err := remove(x)
		errs = append(errs, err)
		return err == nil
	})
	return errors.Join(errs...)
}

func setOf[T comparable](list []T) map[T]bool {
	set := make(map[T]bool, len(list))
	for _, x := range list {
		set[x] = true
	}
	return set
}

// setRoutes changes the routes of those destinations whose routes differ. Each destination is an owner of its own to netcfg.
func (s *steering) setRoutes(ctx context.Context, want map[netip.Prefix][]netcfg.Route) error {
	var differ []netip.Prefix
	for dst, routes := range want {
		if !slices.Equal(routes, s.routes[dst]) {
			differ = append(differ, dst)
		}
	}
	for dst := range s.routes {
		if _, wanted := want[dst]; !wanted {
			differ = append(differ, dst)
		}
	}
	slices.SortFunc(differ, comparePrefixes)
	for _, dst := range differ {
		if err := s.setRoutesTo(ctx, dst, want[dst]); err != nil {
			return err
		}
	}
	return nil
}

func (s *steering) setRoutesTo(ctx context.Context, dst netip.Prefix, routes []netcfg.Route) error {
	if slices.Equal(routes, s.routes[dst]) {
		return nil
	}
	if err := s.net.Set(ctx, owner(s.link.Name, dst), netcfg.Desired{Routes: routes}); err != nil {
		return err
	}
	s.routes[dst] = routes
	if routes == nil {
		delete(s.routes, dst)
	}
	return nil
}

func owner(tun string, dst netip.Prefix) string { return tun + " " + dst.String() }

func (s *steering) plan(ctx context.Context, policies []xfrm.Policy) (plan, error) {
	p := plan{routes: make(map[netip.Prefix][]netcfg.Route), effects: newEffects()}
	for i := range policies {
		if steers(&policies[i]) {
			dst := policies[i].Slot.Selector.Dst
			p.remote[dst] = append(p.remote[dst], policies[i])
		}
	}
	sources := s.sources(ctx)
	for dst, list := range p.remote {
		var err error
		if p.routes[dst], err = s.planRoutes(list, sources); err != nil {
			return p, err
		}
	}
	p.rules = planRules(policies, s.ports, p.effects)
	var err error
	if p.own, err = s.ownIPv6(ctx, policies); err != nil {
		return p, err
	}
	p.guards = planGuards(policies, s.marked, s.index(), p.effects)
	return p, nil
}

// steers: an outbound policy that protects or blocks leads packets to our table.
func steers(p *xfrm.Policy) bool { return p.Slot.Direction == xfrm.Out && p.Action != xfrm.Pass }

// sources asks for an address of this host inside a prefix, for each prefix once.
func (s *steering) sources(ctx context.Context) func(netip.Prefix) (netip.Addr, error) {
	known := make(map[netip.Prefix]netip.Addr)
	return func(p netip.Prefix) (netip.Addr, error) {
		a, asked := known[p]
		if asked {
			return a, nil
		}
		a, found, err := s.net.AddressIn(ctx, p)
		if err == nil && !found {
			a = netip.Addr{}
		}
		known[p] = a
		return a, err
	}
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

// planRoutes are those to the destination that all of some policies have, which protect or block: into the TUN, with a source that lets this host's own
// traffic fit a policy, and beneath it one that answers "unreachable" when the TUN is gone.
func (s *steering) planRoutes(policies []xfrm.Policy, sources func(netip.Prefix) (netip.Addr, error)) ([]netcfg.Route, error) {
	dst := policies[0].Slot.Selector.Dst
	list := []netcfg.Route{{Dst: dst, Unreachable: true, Metric: metricUnreachable, Table: Table}}
	for i := range policies {
		src := policies[i].Slot.Selector.Src
		if policies[i].Action != xfrm.Protect {
			continue
		}
		into := netcfg.Route{Dst: dst, Link: s.link.Name, Metric: metricTUN, Table: Table}
		if src.Bits() > 0 {
			var err error
			if into.Src, err = sources(src); err != nil {
				return nil, err
			}
		}
		switch {
		case len(list) == 1:
			list = append(list, into)
		case !list[1].Src.IsValid():
			list[1] = into
		}
	}
	return list, nil
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
