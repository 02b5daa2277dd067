// Package ledger owns policy slots, reqids and the knowledge of which SA belongs to whom. Machines claim and release slots;
// the ledger turns that into ops for a Driver. It is pure: it plans ops and is told how they went.
package ledger

import "cygnet/xfrm"

// ReqIDFirst and ReqIDLast bound the reqids that are ours.
const (
	ReqIDFirst uint32 = 0x43590000 // "CY"
	ReqIDLast  uint32 = 0x4359ffff
	// PriorityFirst..PriorityLast is our band of policy priorities.
	PriorityFirst uint32 = 0x00100000
	PriorityLast  uint32 = 0x001fffff
)

// Ledger is not safe for concurrent use.
type Ledger struct{}

func New() *Ledger { panic("contract") }

// Plan is what one batch needs of the driver. Ops are applied in order; then exactly one of Commit or Rollback is called before the next Plan.
type Plan struct {
	Ops   []xfrm.Op
	ReqID uint32
}

// Plan books a batch of an owner.
func (l *Ledger) Plan(owner xfrm.Owner, b xfrm.Batch) (*Plan, error) { panic("contract") }

// Commit: all ops were applied.
func (l *Ledger) Commit(p *Plan) { panic("contract") }

// Rollback: the op with this index failed. It returns the ops that undo the ones before it (best effort) and forgets the batch.
func (l *Ledger) Rollback(p *Plan, failed int) []xfrm.Op { panic("contract") }

// Finish removes all that an owner holds and returns the ops for it.
func (l *Ledger) Finish(owner xfrm.Owner) []xfrm.Op { panic("contract") }

// Transfer hands SAs and claims of one owner to another (IKE rekey).
func (l *Ledger) Transfer(from, to xfrm.Owner) { panic("contract") }

// OwnerOf finds who an SA or a reqid belongs to.
func (l *Ledger) OwnerOf(id xfrm.SAID) (xfrm.Owner, bool) { panic("contract") }

// Lineage finds what a reqid stands for.
func (l *Ledger) Lineage(reqid uint32) (string, bool) { panic("contract") }

// Diff compares with what the driver holds and returns the ops that make it right: adds and updates first, removals (only of what is ours by
// reqid range or priority band) last. Missing SAs cannot be made again (their keys are gone): their owners are returned.
func (l *Ledger) Diff(s xfrm.State) (ops []xfrm.Op, lost []xfrm.Owner) { panic("contract") }
