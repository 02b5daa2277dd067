package ledger

import (
	"cmp"
	"slices"

	"cygnet/xfrm"
)

// addSA books an SA and its op.
func (l *Ledger) addSA(p *Plan, owner xfrm.Owner, lineage string, s xfrm.SA) {
	p.adds = append(p.adds, xfrm.AddSA{SA: s})
	rec := &sa{SA: withoutKeys(s), owner: owner, lineage: lineage, seq: l.next()}
	l.linkSA(rec)
	p.undo = append(p.undo, func() { l.unlinkSA(rec) })
}

// dropSA books the removal of an SA.
func (l *Ledger) dropSA(p *Plan, s *sa) {
	p.removes = append(p.removes, xfrm.RemoveSA{ID: s.ID})
	l.unlinkSA(s)
	p.undo = append(p.undo, func() { l.linkSA(s) })
}

func (l *Ledger) forgetSA(id xfrm.SAID) {
	if s := l.sas[id]; s != nil {
		l.unlinkSA(s)
	}
}

func (l *Ledger) linkSA(s *sa) {
	l.sas[s.ID] = s
	l.holdings(s.owner).sas[s] = struct{}{}
	l.reqids.hold(s.lineage)
}

func (l *Ledger) unlinkSA(s *sa) {
	delete(l.sas, s.ID)
	delete(l.holdings(s.owner).sas, s)
	l.forgetIfEmpty(s.owner)
	l.reqids.drop(s.lineage, l.next())
}

// update books UpdateSA or MoveSA. A move of an inbound SA changes its name, since the destination is part of it.
func (l *Ledger) update(p *Plan, op xfrm.Op) {
	p.updates = append(p.updates, op)
	switch o := op.(type) {
	case xfrm.UpdateSA:
		s := l.sas[o.ID]
		old := s.Encap
		p.reverts = append(p.reverts, xfrm.UpdateSA{ID: o.ID, Encap: *old})
		s.Encap = &o.Encap
		p.undo = append(p.undo, func() { s.Encap = old })
	case xfrm.MoveSA:
		s := l.sas[o.ID]
		old := s.SA
		p.reverts = append(p.reverts, xfrm.MoveSA{ID: moved(o), Src: old.Src, Dst: old.ID.Dst, Encap: old.Encap})
		l.rename(s, moved(o))
		s.Src, s.Encap = o.Src, o.Encap
		p.undo = append(p.undo, func() {
			l.rename(s, old.ID)
			s.SA = old
		})
	}
}

func (l *Ledger) rename(s *sa, id xfrm.SAID) {
	delete(l.sas, s.ID)
	s.ID = id
	l.sas[id] = s
}

// moved is the name of an SA after a move.
func moved(o xfrm.MoveSA) xfrm.SAID { return xfrm.SAID{Dst: o.Dst, SPI: o.ID.SPI, Proto: o.ID.Proto} }

// addClaim and dropClaim change who claims a slot; settle then finds what that means for the policy.
func (l *Ledger) addClaim(p *Plan, owner xfrm.Owner, lineage string, c xfrm.Claim) {
	c.Slot = canonical(c.Slot)
	rec := &claim{Claim: c, owner: owner, lineage: lineage, seq: l.next()}
	rec.place = l.place(rec)
	l.touch(p, c.Slot)
	l.linkClaim(rec)
	p.undo = append(p.undo, func() { l.unlinkClaim(rec) })
}

func (l *Ledger) dropClaim(p *Plan, c *claim) {
	l.touch(p, c.Slot)
	l.unlinkClaim(c)
	p.undo = append(p.undo, func() { l.linkClaim(c) })
}

func (l *Ledger) linkClaim(c *claim) {
	sl := l.slots[c.Slot]
	if sl == nil {
		sl = &slot{}
		l.slots[c.Slot] = sl
	}
	at, _ := slices.BinarySearchFunc(sl.claims, c, precedence)
	sl.claims = slices.Insert(sl.claims, at, c)
	l.holdings(c.owner).claims[c] = struct{}{}
	l.reqids.hold(c.lineage)
}

func (l *Ledger) unlinkClaim(c *claim) {
	sl := l.slots[c.Slot]
	sl.claims = slices.DeleteFunc(sl.claims, func(x *claim) bool { return x == c })
	if len(sl.claims) == 0 {
		delete(l.slots, c.Slot)
	}
	delete(l.holdings(c.owner).claims, c)
	l.forgetIfEmpty(c.owner)
	l.reqids.drop(c.lineage, l.next())
}

// place of a new claim among those of its rank: that of the one which it stands beside or replaces, as the new child of a rekey does, else its own. A child that is
// rekeyed on an IKE SA which is being replaced so stays behind that of the new one.
func (l *Ledger) place(c *claim) uint64 {
	if sl := l.slots[c.Slot]; sl != nil {
		for _, x := range sl.claims {
			if x.owner == c.owner && x.lineage == c.lineage && x.Rank == c.Rank {
				return x.place
			}
		}
	}
	return c.seq
}

// precedence: the highest rank first, then the newest owner's, then the newest.
func precedence(a, b *claim) int {
	return cmp.Or(cmp.Compare(b.Rank, a.Rank), cmp.Compare(b.place, a.place), cmp.Compare(b.seq, a.seq))
}

// touch remembers, before its first change in a plan, what is installed in a slot.
func (l *Ledger) touch(p *Plan, at xfrm.Slot) {
	if _, ok := p.before[at]; ok {
		return
	}
	p.touched = append(p.touched, at)
	p.before[at] = nil
	if sl := l.slots[at]; sl != nil {
		pol := sl.installed
		p.before[at] = &pol
	}
}

// settle books one op for each touched slot whose content changed.
func (l *Ledger) settle(p *Plan) {
	for _, at := range p.touched {
		sl, before := l.slots[at], p.before[at]
		if sl == nil {
			if before != nil {
				p.clears = append(p.clears, xfrm.RemovePolicy{Slot: at})
			}
			continue
		}
		want := sl.content()
		sl.installed = want
		if before == nil || *before != want {
			p.puts = append(p.puts, xfrm.PutPolicy{Policy: want})
		}
	}
}
