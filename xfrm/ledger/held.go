package ledger

import "cygnet/xfrm"

// SAs lists what an owner holds, oldest first.
func (l *Ledger) SAs(owner xfrm.Owner) []xfrm.SAID {
	h := l.owners[owner]
	if h == nil {
		return nil
	}
	var ids []xfrm.SAID
	for _, s := range inOrder(h.sas, func(s *sa) uint64 { return s.seq }) {
		ids = append(ids, s.ID)
	}
	return ids
}
