package ledger

import (
	"cmp"
	"slices"

	"cygnet/xfrm"
)

// Diff compares with what the driver holds and returns the ops that make it right: adds and updates first, removals (only of what is ours by
// reqid range or priority band) last, so that at no instant a claimed selector is without a policy. Missing SAs cannot be made again
// (their keys are gone): their owners are returned, sorted, and still hold them until they Finish.
func (l *Ledger) Diff(s xfrm.State) (ops []xfrm.Op, lost []xfrm.Owner) {
	ops = append(ops, l.policiesToPut(s.Policies)...)
	updates, strays, lost := l.compareSAs(s.SAs)
	ops = append(ops, updates...)
	for _, p := range s.Policies {
		if l.slots[canonical(p.Slot)] == nil && ours(p) {
			ops = append(ops, xfrm.RemovePolicy{Slot: p.Slot})
		}
	}
	return append(ops, strays...), lost
}

// policiesToPut lists claimed slots that are empty or hold something else, oldest claim first.
func (l *Ledger) policiesToPut(held []xfrm.Policy) []xfrm.Op {
	there := make(map[xfrm.Slot]xfrm.Policy, len(held))
	for _, p := range held {
		there[canonical(p.Slot)] = p
	}
	var wrong []*slot
	for at, sl := range l.slots {
		if p, ok := there[at]; !ok || !same(p, sl.installed) {
			wrong = append(wrong, sl)
		}
	}
	slices.SortFunc(wrong, func(a, b *slot) int { return cmp.Compare(a.claims[0].seq, b.claims[0].seq) })
	ops := make([]xfrm.Op, len(wrong))
	for i, sl := range wrong {
		ops[i] = xfrm.PutPolicy{Policy: sl.installed}
	}
	return ops
}

// compareSAs finds encapsulation ports that differ, SAs of ours that nobody holds, and owners of SAs that are missing.
func (l *Ledger) compareSAs(held []xfrm.SA) (updates, strays []xfrm.Op, lost []xfrm.Owner) {
	there := make(map[xfrm.SAID]bool, len(held))
	for _, h := range held {
		there[h.ID] = true
		s := l.sas[h.ID]
		switch {
		case s == nil && ourReqID(h.ReqID):
			strays = append(strays, xfrm.RemoveSA{ID: h.ID})
		case s != nil && s.Encap != nil && h.Encap != nil && *s.Encap != *h.Encap:
			updates = append(updates, xfrm.UpdateSA{ID: h.ID, Encap: *s.Encap})
		}
	}
	for id, s := range l.sas {
		if !there[id] {
			lost = append(lost, s.owner)
		}
	}
	slices.Sort(lost)
	return updates, strays, slices.Compact(lost)
}
