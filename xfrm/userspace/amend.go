package userspace

import (
	"context"
	"net/netip"
	"slices"

	"cygnet/xfrm"
)

// effects are what policies have made of the host, with how many need it. From them follows what one policy more or less changes, without a look at all
// others, unless the others need something else because of it.
type effects struct {
	remote map[netip.Prefix][]xfrm.Policy // outbound ones that protect or block, by destination, in order
	rules  map[rule]int                   // by how many of these each is needed
	guards map[guard]claim                // by slot
	passes []xfrm.Policy                  // outbound ones that let pass: each asks whether another comes before it
	locals []netip.Prefix                 // exceptions: each asks for what is remote inside
	inside map[netip.Addr]bool            // outer addresses of ours that were asked for: does one lie in a local prefix?
	own    []netip.Addr                   // addresses of this host
	v6     int                            // policies of IPv6
}

// claim is a guard and how many need it. It is mixed where they do not agree on what it does.
type claim struct {
	guard
	count int
	mixed bool
	at    int // in guardsNow
}

func newEffects() *effects {
	return &effects{
		remote: make(map[netip.Prefix][]xfrm.Policy), rules: make(map[rule]int), guards: make(map[guard]claim), inside: make(map[netip.Addr]bool),
	}
}

// askInside finds out whether an outer address of ours lies in a local prefix.
func (e *effects) askInside(policies []xfrm.Policy, own netip.Addr) {
	if _, asked := e.inside[own]; asked {
		return
	}
	e.inside[own] = slices.ContainsFunc(policies, func(p xfrm.Policy) bool { return steers(&p) && p.Slot.Selector.Src.Contains(own) })
}

// rulesOf a policy that protects or blocks.
func (e *effects) rulesOf(pol *xfrm.Policy, ports [2]uint16) []rule {
	rules := append(ownRules(pol, ports, e.inside), rule{v6: pol.Slot.Selector.Dst.Addr().Is6(), pref: prefTable, notMark: true, table: Table})
	for i := range rules {
		rules[i] = rules[i].normal()
	}
	return rules
}

// sameForHost reports whether the host needs the same for both of two policies in one slot, as after a rekey.
func sameForHost(a, b *xfrm.Policy) bool {
	addressesCount := hasOwn(a) || hasOwn(b)
	return a.Action == b.Action && a.Priority == b.Priority &&
		(!addressesCount || a.Template.Src == b.Template.Src && a.Template.Dst == b.Template.Dst)
}

// alone reports whether other policies need the same as before when p comes, or goes.
func (e *effects) alone(p *xfrm.Policy, comes bool) bool {
	sel := &p.Slot.Selector
	if sel.Src.Addr().Is6() && (comes && e.v6 == 0 || !comes && e.v6 == 1) {
		return false // what all of IPv6 needs
	}
	if p.Slot.Direction != xfrm.Out {
		return true
	}
	if p.Action == xfrm.Pass || len(within(sel)) > 0 {
		return false
	}
	if _, asked := e.inside[p.Template.Src]; hasOwn(p) && !asked {
		return false
	}
	for own, inside := range e.inside {
		if inside != comes && sel.Src.Contains(own) {
			return false
		}
	}
	return !slices.ContainsFunc(e.locals, func(l netip.Prefix) bool { return l == sel.Dst || narrower(sel.Dst, l) }) &&
		!slices.ContainsFunc(e.passes, func(pass xfrm.Policy) bool { return comesBefore(p, &pass) })
}

// guardsOf a policy, each with how often; false where another does not agree.
func (e *effects) guardsOf(p *xfrm.Policy, marked bool) (plan *guardPlan, agreed bool) {
	plan = &guardPlan{claims: make(map[guard]claim), marked: marked}
	plan.mirror(p, e.own)
	plan.exceptLocal(p, e.own)
	for slot, c := range plan.claims {
		if there := e.guards[slot]; c.mixed || there.mixed || there.count > 0 && there.guard != c.guard {
			return nil, false
		}
	}
	return plan, true
}

// amend brings the host from policies with before in its slot to those with after in it, either of which may be nil. It is false, and nothing is done,
// when all policies must be looked at for that.
func (s *steering) amend(ctx context.Context, before, after *xfrm.Policy) (done bool, err error) {
	e := s.effects
	switch {
	case e == nil || !s.linked:
		return false, nil
	case before != nil && after != nil:
		if !sameForHost(before, after) {
			return false, nil
		}
		e.keep(after)
		return true, nil
	}
	p, comes := after, true
	if before != nil {
		p, comes = before, false
	}
	if !e.alone(p, comes) {
		return false, nil
	}
	guards, agreed := e.guardsOf(p, s.marked)
	if !agreed {
		return false, nil
	}
	s.effects = nil // until it is known that all was done
	if comes {
		err = s.add(ctx, e, p, guards)
	} else {
		err = s.remove(ctx, e, p, guards)
	}
	if err == nil {
		s.effects = e
	}
	return true, err
}

// add does for a new policy what apply does for all, in its order.
func (s *steering) add(ctx context.Context, e *effects, p *xfrm.Policy, guards *guardPlan) error {
	if p.Slot.Selector.Src.Addr().Is6() {
		e.v6++
	}
	for _, g := range guards.list {
		slot := g.slot()
		c := e.guards[slot]
		if c.count == 0 {
			if err := s.addGuard(g); err != nil {
				return err
			}
			c = claim{guard: g, at: len(s.guardsNow)}
			s.guardsNow = append(s.guardsNow, g)
		}
		c.count += guards.claims[slot].count
		e.guards[slot] = c
	}
	if !steers(p) {
		return nil
	}
	dst := p.Slot.Selector.Dst
	at, _ := slices.BinarySearchFunc(e.remote[dst], *p, comparePolicies)
	e.remote[dst] = slices.Insert(e.remote[dst], at, *p)
	if err := s.amendRoutes(ctx, e, dst); err != nil {
		return err
	}
	for _, r := range e.rulesOf(p, s.ports) {
		if e.rules[r] == 0 {
			if err := s.rules.add(r); err != nil {
				return err
			}
			s.rulesNow = append(s.rulesNow, r)
		}
		e.rules[r]++
	}
	return nil
}

// remove is the opposite, in the opposite order.
func (s *steering) remove(ctx context.Context, e *effects, p *xfrm.Policy, guards *guardPlan) error {
	if p.Slot.Selector.Src.Addr().Is6() {
		e.v6--
	}
	if steers(p) {
		for _, r := range e.rulesOf(p, s.ports) {
			if e.rules[r]--; e.rules[r] > 0 {
				continue
			}
			delete(e.rules, r)
			if err := s.rules.remove(r); err != nil {
				return err
			}
			s.rulesNow = slices.DeleteFunc(s.rulesNow, func(x rule) bool { return x == r })
		}
		dst := p.Slot.Selector.Dst
		e.remote[dst] = slices.DeleteFunc(e.remote[dst], func(x xfrm.Policy) bool { return x.Slot == p.Slot })
		if err := s.amendRoutes(ctx, e, dst); err != nil {
			return err
		}
	}
	for _, g := range guards.list {
		slot := g.slot()
		c := e.guards[slot]
		if c.count -= guards.claims[slot].count; c.count > 0 {
			e.guards[slot] = c
			continue
		}
		if s.guards != nil {
			if err := s.guards.remove(g); err != nil {
				return err
			}
		}
		s.forgetGuard(e, slot)
	}
	return nil
}

// locate notes where in guardsNow each guard is.
func (e *effects) locate(now []guard) {
	for at := range now {
		e.place(now, at)
	}
}

func (e *effects) place(now []guard, at int) {
	slot := now[at].slot()
	c := e.guards[slot]
	c.at = at
	e.guards[slot] = c
}

// forgetGuard takes one that is gone out of guardsNow: the last takes its place.
func (s *steering) forgetGuard(e *effects, slot guard) {
	at, last := e.guards[slot].at, len(s.guardsNow)-1
	s.guardsNow[at] = s.guardsNow[last]
	s.guardsNow = s.guardsNow[:last]
	delete(e.guards, slot)
	if at < last {
		e.place(s.guardsNow, at)
	}
}

// amendRoutes to a destination whose policies have changed.
func (s *steering) amendRoutes(ctx context.Context, e *effects, dst netip.Prefix) error {
	if len(e.remote[dst]) == 0 {
		delete(e.remote, dst)
		return s.setRoutesTo(ctx, dst, nil)
	}
	routes, err := s.planRoutes(e.remote[dst], s.sources(ctx))
	if err != nil {
		return err
	}
	return s.setRoutesTo(ctx, dst, routes)
}

// keep puts a policy in the place of the one in its slot.
func (e *effects) keep(p *xfrm.Policy) {
	list := e.remote[p.Slot.Selector.Dst]
	if at := slices.IndexFunc(list, func(x xfrm.Policy) bool { return x.Slot == p.Slot }); at >= 0 {
		list[at] = *p
	}
}
