package ledger

import (
	"cmp"
	"fmt"

	"cygnet/xfrm"
)

// Plan is what one batch needs of the driver. Ops are applied in order; then exactly one of Commit or Rollback is called before
// anything else is planned, finished, transferred or compared. Look-ups find the batch's SAs already meanwhile, since events about them may
// arrive before Apply returns.
type Plan struct {
	Ops   []xfrm.Op
	ReqID uint32 // of the batch's lineage; 0 when it has none

	adds, puts, updates, clears, removes []xfrm.Op
	touched                              []xfrm.Slot
	before                               map[xfrm.Slot]*xfrm.Policy // of touched slots: what was installed, nil when nothing
	undo                                 []func()                   // restores the ledger, last first
	reverts                              []xfrm.Op                  // of updates
}

func newPlan() *Plan { return &Plan{before: make(map[xfrm.Slot]*xfrm.Policy)} }

// assemble puts the ops in the order that keeps every claimed selector under a policy: SAs and policies come before others go.
func (p *Plan) assemble() []xfrm.Op {
	ops := make([]xfrm.Op, 0, len(p.adds)+len(p.puts)+len(p.updates)+len(p.clears)+len(p.removes))
	for _, part := range [][]xfrm.Op{p.adds, p.puts, p.updates, p.clears, p.removes} {
		ops = append(ops, part...)
	}
	return ops
}

// Plan books a batch of an owner. An error means that nothing was booked; an SAID that is taken gives an *xfrm.OpError that wraps xfrm.ErrExists.
//
// Claims are counted: a slot that was claimed twice by one owner and lineage (old and new child of a rekey) is released by two releases. A
// release ends the claim whose outbound SA is removed by the same batch, else the older of two for one SA, else the oldest. Releasing what is not held, or removing
// an SA that is not the owner's, does nothing.
func (l *Ledger) Plan(owner xfrm.Owner, b xfrm.Batch) (*Plan, error) {
	if l.pending != nil {
		return nil, fmt.Errorf("the previous plan was neither committed nor rolled back")
	}
	reqid, err := l.check(owner, b)
	if err != nil {
		return nil, err
	}
	p := newPlan()
	p.ReqID = reqid
	for _, s := range b.Add {
		s.ReqID = reqid
		l.addSA(p, owner, b.Lineage, s)
	}
	for _, c := range b.Claims {
		if c.Action == xfrm.Protect {
			c.Template.ReqID = reqid
		}
		l.addClaim(p, owner, b.Lineage, c)
	}
	for _, s := range b.Release {
		if c := l.released(owner, b, canonical(s)); c != nil {
			l.dropClaim(p, c)
		}
	}
	l.settle(p)
	for _, op := range b.Update {
		l.update(p, op)
	}
	for _, id := range b.Remove {
		if s := l.sas[id]; s != nil && s.owner == owner {
			l.dropSA(p, s)
		}
	}
	p.Ops = p.assemble()
	l.pending = p
	return p, nil
}

// Commit: all ops were applied.
func (l *Ledger) Commit(p *Plan) {
	if l.pending == p {
		l.pending = nil
	}
}

// Rollback: the op with this index failed. It returns the ops that undo the ones before it (best effort), last first, and forgets the
// batch. SAs that were removed cannot come back, their keys are gone: they stay forgotten.
func (l *Ledger) Rollback(p *Plan, failed int) []xfrm.Op {
	if l.pending != p {
		return nil
	}
	l.pending = nil
	for i := len(p.undo) - 1; i >= 0; i-- {
		p.undo[i]()
	}
	for _, at := range p.touched {
		if sl := l.slots[at]; sl != nil {
			sl.installed = *p.before[at]
		}
	}
	var ops []xfrm.Op
	for i := min(failed, len(p.Ops)) - 1; i >= 0; i-- {
		if gone, ok := p.Ops[i].(xfrm.RemoveSA); ok {
			l.forgetSA(gone.ID)
		} else {
			ops = append(ops, p.inverse(i))
		}
	}
	return ops
}

// inverse of the op with this index.
func (p *Plan) inverse(i int) xfrm.Op {
	switch o := p.Ops[i].(type) {
	case xfrm.AddSA:
		return xfrm.RemoveSA{ID: o.SA.ID}
	case xfrm.PutPolicy:
		return p.restore(o.Policy.Slot)
	case xfrm.RemovePolicy:
		return p.restore(o.Slot)
	default:
		return p.reverts[i-len(p.adds)-len(p.puts)]
	}
}

func (p *Plan) restore(at xfrm.Slot) xfrm.Op {
	if before := p.before[at]; before != nil {
		return xfrm.PutPolicy{Policy: *before}
	}
	return xfrm.RemovePolicy{Slot: at}
}

// check refuses a batch before anything changes, and finds its reqid.
func (l *Ledger) check(owner xfrm.Owner, b xfrm.Batch) (uint32, error) {
	fresh, left := make(map[xfrm.SAID]bool), make(map[xfrm.SAID]bool)
	taken := func(id xfrm.SAID, op xfrm.Op, i int) error {
		if s := l.sas[id]; s != nil {
			return &xfrm.OpError{Index: i, Op: op, Err: &xfrm.HeldError{Owner: s.owner}}
		}
		if fresh[id] {
			return &xfrm.OpError{Index: i, Op: op, Err: fmt.Errorf("%w: twice in one batch", xfrm.ErrExists)}
		}
		fresh[id] = true
		return nil
	}
	for i, s := range b.Add {
		if err := taken(s.ID, xfrm.AddSA{SA: s}, i); err != nil {
			return 0, err
		}
	}
	for _, op := range b.Update {
		if err := l.checkUpdate(owner, op, taken, left); err != nil {
			return 0, err
		}
	}
	if err := l.checkPeers(b); err != nil {
		return 0, err
	}
	needs := len(b.Add) > 0
	for _, c := range b.Claims {
		needs = needs || c.Action == xfrm.Protect
	}
	switch {
	case !needs:
		return l.reqids.known(b.Lineage), nil
	case b.Lineage == "":
		return 0, fmt.Errorf("batch of %q adds SAs or protecting claims without a lineage: there is no reqid for them", owner)
	}
	return l.reqids.number(b.Lineage, l.next())
}

// checkPeers: what a Child SA of one peer claims no other peer gets.
func (l *Ledger) checkPeers(b xfrm.Batch) error {
	for _, c := range b.Claims {
		sl := l.slots[canonical(c.Slot)]
		if c.Peer == "" || sl == nil {
			continue
		}
		for _, held := range sl.claims {
			if held.Peer != "" && held.Peer != c.Peer {
				return &xfrm.OpError{Op: xfrm.PutPolicy{Policy: xfrm.Policy{Slot: c.Slot}}, Err: &xfrm.TakenError{Slot: c.Slot, Peer: held.Peer}}
			}
		}
	}
	return nil
}

// checkUpdate: left holds the names that earlier moves of the batch gave up.
func (l *Ledger) checkUpdate(owner xfrm.Owner, op xfrm.Op, taken func(xfrm.SAID, xfrm.Op, int) error, left map[xfrm.SAID]bool) error {
	var id, to xfrm.SAID
	switch o := op.(type) {
	case xfrm.UpdateSA:
		id, to = o.ID, o.ID
	case xfrm.MoveSA:
		id, to = o.ID, moved(o)
	default:
		return fmt.Errorf("batch of %q has %T among its updates: only UpdateSA and MoveSA belong there", owner, op)
	}
	s := l.sas[id]
	if s == nil || s.owner != owner || left[id] {
		return fmt.Errorf("%s: %q does not hold it", xfrm.OpName(op), owner)
	}
	if _, ports := op.(xfrm.UpdateSA); ports && s.Encap == nil {
		return fmt.Errorf("%s: it has no UDP encapsulation whose ports could change", xfrm.OpName(op))
	}
	if to != id {
		left[id] = true
		return taken(to, op, 0)
	}
	return nil
}

// released chooses the claim that a release means: that of an SA which goes by the same batch, else that which the batch puts anew for the same SA, else
// the oldest.
func (l *Ledger) released(owner xfrm.Owner, b xfrm.Batch, at xfrm.Slot) *claim {
	sl := l.slots[at]
	if sl == nil {
		return nil
	}
	var oldest, renewed *claim
	for _, c := range sl.claims {
		if c.owner != owner || c.lineage != b.Lineage {
			continue
		}
		for _, id := range b.Remove {
			if id.SPI == c.Template.SPI && id.Dst == c.Template.Dst {
				return c
			}
		}
		if oldest == nil || c.seq < oldest.seq {
			oldest = c
		}
		if old := sl.renewed(c); old != nil && (renewed == nil || old.seq < renewed.seq) {
			renewed = old
		}
	}
	return cmp.Or(renewed, oldest)
}

// renewed is an older claim than c of the same owner for the same SA.
func (s *slot) renewed(c *claim) *claim {
	for _, old := range s.claims {
		if old.owner == c.owner && old.lineage == c.lineage && old.Template.SPI != 0 && old.Template.SPI == c.Template.SPI && old.seq < c.seq {
			return old
		}
	}
	return nil
}
