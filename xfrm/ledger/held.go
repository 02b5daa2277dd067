package ledger

import (
	"cmp"
	"slices"

	"cygnet/xfrm"
)

// SAs lists what an owner holds, oldest first.
func (l *Ledger) SAs(owner xfrm.Owner) []xfrm.SAID {
	h := l.owners[owner]
	if h == nil {
		return nil
	}
	list := make([]*sa, 0, len(h.sas))
	for s := range h.sas {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *sa) int { return cmp.Compare(a.seq, b.seq) })
	ids := make([]xfrm.SAID, len(list))
	for i, s := range list {
		ids[i] = s.ID
	}
	return ids
}
