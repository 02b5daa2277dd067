package userspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// zeroSecret stands where the keys of an SA were: they live in its transform alone.
var zeroSecret alg.Secret

// Apply carries out ops in order. The packet path sees their result at once, at the end. Of a batch that fails, the packet path sees the part
// that was done.
func (d *Driver) Apply(ctx context.Context, ops []xfrm.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	defer d.publish()
	for i, op := range ops {
		if err := d.applyOne(ctx, op); err != nil {
			return &xfrm.OpError{Index: i, Op: op, Err: err}
		}
	}
	return nil
}

// publish lets the packet path see what was applied. SAs that were removed keep their keys until then: a packet that finds one is to go on it, not nowhere.
func (d *Driver) publish() {
	d.tables.Store(d.contents.tables())
	for _, s := range d.removed {
		s.wipe()
	}
	clear(d.removed)
	d.removed = d.removed[:0]
}

func (d *Driver) applyOne(ctx context.Context, op xfrm.Op) error {
	switch o := op.(type) {
	case xfrm.AddSA:
		return d.addSA(o.SA)
	case xfrm.UpdateSA:
		return d.updateSA(o)
	case xfrm.MoveSA:
		return d.moveSA(o)
	case xfrm.RemoveSA:
		if s := d.contents.removeSA(o.ID); s != nil {
			d.removed = append(d.removed, s)
		}
		return nil
	case xfrm.PutPolicy:
		return d.putPolicy(ctx, o.Policy)
	case xfrm.RemovePolicy:
		if p := d.contents.removePolicy(o.Slot); p != nil {
			return d.steer(ctx, &p.Policy, nil)
		}
		return nil
	}
	return fmt.Errorf("unknown operation %T", op)
}

func (d *Driver) addSA(s xfrm.SA) error {
	if d.contents.sas[s.ID] != nil {
		return fmt.Errorf("%s: %w", s.ID, xfrm.ErrExists)
	}
	if s.Encap == nil && !d.config.PlainESP {
		return errors.New("ESP without UDP encapsulation is not open here")
	}
	n, err := newSA(s, d.config.Rand)
	if err != nil {
		return err
	}
	d.contents.addSA(s.ID, n)
	return nil
}

func (d *Driver) updateSA(o xfrm.UpdateSA) error {
	s := d.contents.sas[o.ID]
	if s == nil {
		return errors.New("no such SA")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Encap == nil {
		return errors.New("the SA has no UDP encapsulation")
	}
	encap := o.Encap
	s.state.Encap = &encap
	return nil
}

func (d *Driver) moveSA(o xfrm.MoveSA) error {
	s := d.contents.sas[o.ID]
	to := xfrm.SAID{Dst: o.Dst, SPI: o.ID.SPI, Proto: o.ID.Proto}
	switch {
	case s == nil:
		return errors.New("no such SA")
	case to != o.ID && d.contents.sas[to] != nil:
		return fmt.Errorf("%s: %w", to, xfrm.ErrExists)
	case !o.Dst.IsValid() || o.Src.Is4() != o.Dst.Is4() || !o.Src.IsValid():
		return fmt.Errorf("outer addresses %v -> %v: two of one family are needed", o.Src, o.Dst)
	case o.Encap == nil && !d.config.PlainESP:
		return errors.New("ESP without UDP encapsulation is not open here")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked.Store(0)
	s.state.ID, s.state.Src, s.state.Encap = to, o.Src, nil
	if o.Encap != nil {
		encap := *o.Encap
		s.state.Encap = &encap
	}
	d.contents.moveSA(o.ID, to)
	return nil
}

// putPolicy leaves the slot as it was when the host cannot do what the policy needs.
func (d *Driver) putPolicy(ctx context.Context, p xfrm.Policy) error {
	s := p.Slot.Selector
	switch {
	case !s.Src.IsValid() || !s.Dst.IsValid() || s.Src.Addr().Is4() != s.Dst.Addr().Is4():
		return fmt.Errorf("selector %v -> %v: two prefixes of one family are needed", s.Src, s.Dst)
	case s.Src != s.Src.Masked() || s.Dst != s.Dst.Masked():
		return fmt.Errorf("selector %v -> %v: the prefixes have host bits", s.Src, s.Dst)
	case p.Action == xfrm.Protect && p.Template.Mode != xfrm.Tunnel:
		return errors.New("transport mode needs a kernel with ESP: use mode = \"tunnel\"")
	}
	before := d.contents.putPolicy(&policy{Policy: p})
	var was *xfrm.Policy
	if before != nil {
		was = &before.Policy
	}
	err := d.steer(ctx, was, &p)
	if err == nil {
		return nil
	}
	d.contents.removePolicy(p.Slot)
	if before != nil {
		d.contents.putPolicy(before)
	}
	return errors.Join(err, d.host.apply(ctx, d.policyList()))
}

// steer makes the host follow a change of one slot.
func (d *Driver) steer(ctx context.Context, before, after *xfrm.Policy) error {
	if done, err := d.host.amend(ctx, before, after); done {
		return err
	}
	return d.host.apply(ctx, d.policyList())
}

// policyList in an order of its own: by direction, priority and selector.
func (d *Driver) policyList() []xfrm.Policy {
	list := make([]xfrm.Policy, 0, len(d.contents.policies))
	for _, p := range d.contents.policies {
		list = append(list, p.Policy)
	}
	slices.SortFunc(list, comparePolicies)
	return list
}

// Usage of one SA.
func (d *Driver) Usage(_ context.Context, id xfrm.SAID) (xfrm.Usage, error) {
	d.mu.Lock()
	s := d.contents.sas[id]
	d.mu.Unlock()
	if s == nil {
		return xfrm.Usage{}, fmt.Errorf("%s: no such SA", id)
	}
	_, u := s.read()
	return u, nil
}

// UsageAll calls yield for each SA until it returns false.
func (d *Driver) UsageAll(_ context.Context, yield func(xfrm.SAID, xfrm.Usage) bool) error {
	for _, s := range d.saList() {
		state, u := s.read()
		if !yield(state.ID, u) {
			return nil
		}
	}
	return nil
}

// saList in the order in which they were added.
func (d *Driver) saList() []*sa {
	list := d.unsorted()
	slices.SortFunc(list, func(a, b *sa) int { return cmp.Compare(a.birth, b.birth) })
	return list
}

// unsorted are the SAs.
func (d *Driver) unsorted() []*sa {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]*sa, 0, len(d.contents.sas))
	for _, s := range d.contents.sas {
		list = append(list, s)
	}
	return list
}

// Dump lists SAs, without keys, and policies.
func (d *Driver) Dump(context.Context) (xfrm.State, error) {
	var state xfrm.State
	for _, s := range d.saList() {
		x, _ := s.read()
		state.SAs = append(state.SAs, x)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	state.Policies = d.policyList()
	return state, nil
}
