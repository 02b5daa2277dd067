// Package ledger owns policy slots, reqids and the knowledge of which SA belongs to whom. Machines claim and release slots;
// the ledger turns that into ops for a Driver. It is pure: it plans ops and is told how they went. It holds no keys: those pass
// through a Plan to the driver and are not kept.
//
// Why it exists: a kernel policy is identified by direction, selector, mark and if_id, not by reqid or priority. The old and the new child of a
// rekey, a trap and its child, two IKE SAs of one connection all land on one slot, and if each of them put and removed policies, the last
// one to go would take the others' protection with it.
//
// Sources: RFC 4301 sections 4.4.1 (SPD), 4.4.2 (SAD).
package ledger

import (
	"cmp"
	"slices"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// Ledger is not safe for concurrent use.
type Ledger struct {
	slots   map[xfrm.Slot]*slot
	sas     map[xfrm.SAID]*sa
	owners  map[xfrm.Owner]*holdings
	reqids  reqids
	seq     uint64 // of the last claim or SA: gives "newest" and an order that no map has
	pending *Plan
}

// slot is a policy slot with at least one claim. Claims are in order of precedence: the first decides the content.
type slot struct {
	claims    []*claim
	installed xfrm.Policy // what the driver was last told
}

type claim struct {
	xfrm.Claim
	owner   xfrm.Owner
	lineage string
	place   uint64 // seq of the claim from which its place comes
	seq     uint64
}

// sa is an SA as it was added, without its keys.
type sa struct {
	xfrm.SA
	owner   xfrm.Owner
	lineage string
	seq     uint64
}

// holdings are what one owner has.
type holdings struct {
	claims map[*claim]struct{}
	sas    map[*sa]struct{}
}

// New returns an empty ledger.
func New() *Ledger {
	return &Ledger{
		slots:  make(map[xfrm.Slot]*slot),
		sas:    make(map[xfrm.SAID]*sa),
		owners: make(map[xfrm.Owner]*holdings),
		reqids: newReqids(),
	}
}

// OwnerOf finds who an SA belongs to.
func (l *Ledger) OwnerOf(id xfrm.SAID) (xfrm.Owner, bool) {
	s, ok := l.sas[id]
	if !ok {
		return "", false
	}
	return s.owner, true
}

// Lineage finds what a reqid stands for. It is also known for a while after the last SA and claim of the lineage went.
func (l *Ledger) Lineage(reqid uint32) (string, bool) {
	name, ok := l.reqids.names[reqid]
	return name, ok
}

// Transfer hands SAs and claims of one owner to another (IKE rekey). The data plane does not change.
func (l *Ledger) Transfer(from, to xfrm.Owner) {
	h := l.owners[from]
	if h == nil || from == to {
		return
	}
	delete(l.owners, from)
	heir := l.holdings(to)
	for c := range h.claims {
		c.owner = to
		heir.claims[c] = struct{}{}
	}
	for s := range h.sas {
		s.owner = to
		heir.sas[s] = struct{}{}
	}
}

// Finish removes all that an owner holds and returns the ops for it: policies that fall back to another claim are updated first, then
// empty slots and SAs go. The ledger counts them as gone at once; if the driver fails, Diff repairs.
func (l *Ledger) Finish(owner xfrm.Owner) []xfrm.Op {
	h := l.owners[owner]
	if h == nil {
		return nil
	}
	p := newPlan()
	for _, c := range inOrder(h.claims, func(c *claim) uint64 { return c.seq }) {
		l.dropClaim(p, c)
	}
	for _, s := range inOrder(h.sas, func(s *sa) uint64 { return s.seq }) {
		l.dropSA(p, s)
	}
	l.settle(p)
	return p.assemble()
}

// Holds counts what an owner has: it is zero for all owners once every claim met its release and every SA its removal.
func (l *Ledger) Holds(owner xfrm.Owner) (claims, sas int) {
	if h := l.owners[owner]; h != nil {
		return len(h.claims), len(h.sas)
	}
	return 0, 0
}

// Size counts claims and SAs of all owners.
func (l *Ledger) Size() (claims, sas int) {
	for _, s := range l.slots {
		claims += len(s.claims)
	}
	return claims, len(l.sas)
}

func (l *Ledger) holdings(owner xfrm.Owner) *holdings {
	h := l.owners[owner]
	if h == nil {
		h = &holdings{claims: make(map[*claim]struct{}), sas: make(map[*sa]struct{})}
		l.owners[owner] = h
	}
	return h
}

// forgetIfEmpty keeps the owners' table as small as what is held.
func (l *Ledger) forgetIfEmpty(owner xfrm.Owner) {
	if h := l.owners[owner]; h != nil && len(h.claims) == 0 && len(h.sas) == 0 {
		delete(l.owners, owner)
	}
}

func (l *Ledger) next() uint64 { l.seq++; return l.seq }

// inOrder lists the members of a set by their sequence numbers, since a map has no order of its own.
func inOrder[T comparable](set map[T]struct{}, seq func(T) uint64) []T {
	list := make([]T, 0, len(set))
	for x := range set {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b T) int { return cmp.Compare(seq(a), seq(b)) })
	return list
}

// withoutKeys is what the ledger may keep of an SA.
func withoutKeys(s xfrm.SA) xfrm.SA {
	s.EncrKey, s.IntegKey = alg.Secret{}, alg.Secret{}
	return s
}
