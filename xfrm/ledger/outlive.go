package ledger

import (
	"slices"

	"cygnet/xfrm"
)

// An IKE SA ends, and another with the same peer carries the traffic of its children: a duplicate, or one that was made anew. What the peer has sent on
// the old inbound SAs is still on its way then (RFC 7296 section 2.8 says so of rekeys), so these outlive their owner for a moment.

// outliving is the owner of inbound SAs whose own has ended.
const outliving xfrm.Owner = "outliving"

// Outlive is called before Finish. It takes from the owner the inbound SAs in whose place a Child SA of another owner stands, and returns them; they stay in
// the data plane until Fade is told to remove them.
func (l *Ledger) Outlive(owner xfrm.Owner) (left []xfrm.SAID) {
	h := l.owners[owner]
	if h == nil {
		return nil
	}
	for _, s := range inOrder(h.sas, func(s *sa) uint64 { return s.seq }) {
		if s.Direction == xfrm.In && l.carried(s) {
			l.unlinkSA(s)
			s.owner = outliving
			l.linkSA(s)
			left = append(left, s.ID)
		}
	}
	return left
}

// carried: another owner's Child SA of the same lineage claims what s receives.
func (l *Ledger) carried(s *sa) bool {
	other := func(c *claim) bool { return c.owner != s.owner && c.lineage == s.lineage && c.Template.SPI != 0 }
	return slices.ContainsFunc(s.Selectors, func(sel xfrm.Selector) bool {
		sl := l.slots[canonical(xfrm.Slot{Direction: xfrm.In, Selector: sel})]
		return sl != nil && slices.ContainsFunc(sl.claims, other)
	})
}

// Fade returns the ops that remove SAs which Outlive has left; none named: all of them.
func (l *Ledger) Fade(left ...xfrm.SAID) []xfrm.Op {
	if len(left) == 0 {
		left = l.SAs(outliving)
	}
	p := newPlan()
	for _, id := range left {
		if s := l.sas[id]; s != nil && s.owner == outliving {
			l.dropSA(p, s)
		}
	}
	return p.assemble()
}
