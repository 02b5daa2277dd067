// Package xfrmfake is a data plane in memory, for tests and simulation. It is stricter than a kernel: every op is checked against what
// the vocabulary promises, keys are remembered by digest so that none is used twice, and faults can be ordered.
//
// It carries no packets, but answers what would become of one: see Outbound and Inbound.
package xfrmfake

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// eventQueue is how many events wait at the most; further ones are lost, as with a netlink socket.
const eventQueue = 256

// Driver is safe for concurrent use.
type Driver struct {
	mu       sync.Mutex
	caps     xfrm.Capabilities
	sas      map[xfrm.SAID]*sa
	policies map[xfrm.Slot]xfrm.Policy
	keys     map[Digest]xfrm.SAID // all keys that were ever added, and where first
	log      []string
	faults   []string // what callers did wrong
	added    uint64   // number of the last AddSA
	opsAdded int
	opsGone  int
	clock    func() int64
	closed   bool

	fail   failure
	events chan xfrm.Event
	lose   bool
	lost   bool
}

// sa is an SA without its keys.
type sa struct {
	xfrm.SA
	keys  Digest
	order uint64
	usage xfrm.Usage
}

// Digest stands for the keys of an SA.
type Digest [sha256.Size]byte

// New makes an empty data plane that can do everything.
func New() *Driver {
	caps := xfrm.Capabilities{Name: "fake", Why: "tests", Encr: map[alg.Encr]bool{}, Integ: map[alg.Integ]bool{}, ESN: true, PlainESP: true, NATT: true}
	for _, c := range alg.Ciphers() {
		caps.Encr[c.ID] = true
	}
	for _, m := range alg.MACs() {
		caps.Integ[m.ID] = true
	}
	return &Driver{
		caps:     caps,
		sas:      make(map[xfrm.SAID]*sa),
		policies: make(map[xfrm.Slot]xfrm.Policy),
		keys:     make(map[Digest]xfrm.SAID),
		events:   make(chan xfrm.Event, eventQueue),
		clock:    func() int64 { return 1 },
	}
}

// SetCapabilities replaces what the driver says it can do. AddSA refuses the rest.
func (d *Driver) SetCapabilities(c xfrm.Capabilities) { d.locked(func() { d.caps = c }) }

// SetClock gives LastUse its seconds since the epoch.
func (d *Driver) SetClock(clock func() int64) { d.locked(func() { d.clock = clock }) }

func (d *Driver) Capabilities() (c xfrm.Capabilities) {
	d.locked(func() { c = d.caps })
	return c
}

func (d *Driver) locked(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// Apply carries out ops in order. An error is an *xfrm.OpError.
func (d *Driver) Apply(ctx context.Context, ops []xfrm.Op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, op := range ops {
		if err := d.one(ctx, op); err != nil {
			d.log = append(d.log, fmt.Sprintf("%s: %v", xfrm.OpName(op), err))
			return &xfrm.OpError{Index: i, Op: op, Err: err}
		}
		d.log = append(d.log, xfrm.OpName(op))
	}
	return nil
}

var errClosed = errors.New("the data plane is closed")

func (d *Driver) one(ctx context.Context, op xfrm.Op) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.closed {
		return errClosed
	}
	if err := d.fail.due(op); err != nil {
		return err
	}
	if wrong := check(op); wrong != "" {
		return d.fault(op, wrong)
	}
	switch o := op.(type) {
	case xfrm.AddSA:
		return d.add(o)
	case xfrm.UpdateSA:
		return d.update(o)
	case xfrm.MoveSA:
		return d.move(o)
	case xfrm.RemoveSA:
		if d.sas[o.ID] != nil {
			delete(d.sas, o.ID)
			d.opsGone++
		}
	case xfrm.PutPolicy:
		p := o.Policy
		p.Slot = canonical(p.Slot)
		d.policies[p.Slot] = p
	case xfrm.RemovePolicy:
		delete(d.policies, canonical(o.Slot))
	}
	return nil
}

// fault notes that a caller broke the contract, and refuses the op.
func (d *Driver) fault(op xfrm.Op, wrong string) error {
	d.faults = append(d.faults, xfrm.OpName(op)+": "+wrong)
	return errors.New(wrong)
}

func (d *Driver) add(o xfrm.AddSA) error {
	if d.sas[o.SA.ID] != nil {
		return xfrm.ErrExists
	}
	if !d.caps.Encr[o.SA.Suite.Encr] || o.SA.Suite.Integ != alg.IntegNone && !d.caps.Integ[o.SA.Suite.Integ] || o.SA.Suite.ESN && !d.caps.ESN {
		return d.fault(o, "the suite is not among the capabilities")
	}
	digest := digestOf(o.SA)
	if where, ok := d.keys[digest]; ok {
		return d.fault(o, fmt.Sprintf("its keys were used before, by %s", where))
	}
	d.keys[digest] = o.SA.ID
	d.added++
	d.opsAdded++
	kept := o.SA
	kept.EncrKey, kept.IntegKey = alg.Secret{}, alg.Secret{}
	d.sas[kept.ID] = &sa{SA: kept, keys: digest, order: d.added}
	return nil
}

func digestOf(s xfrm.SA) Digest {
	h := sha256.New()
	fmt.Fprintf(h, "%d ", s.EncrKey.Len())
	h.Write(s.EncrKey.Bytes())
	h.Write(s.IntegKey.Bytes())
	return Digest(h.Sum(nil))
}

func (d *Driver) update(o xfrm.UpdateSA) error {
	s := d.sas[o.ID]
	if s == nil {
		return errors.New("no such SA")
	}
	if s.Encap == nil {
		return d.fault(o, "it has no UDP encapsulation whose ports could change")
	}
	s.Encap = &o.Encap
	return nil
}

func (d *Driver) move(o xfrm.MoveSA) error {
	s := d.sas[o.ID]
	if s == nil {
		return errors.New("no such SA")
	}
	to := xfrm.SAID{Dst: o.Dst, SPI: o.ID.SPI, Proto: o.ID.Proto}
	if to != o.ID && d.sas[to] != nil {
		return xfrm.ErrExists
	}
	delete(d.sas, o.ID)
	s.ID, s.Src, s.Encap = to, o.Src, o.Encap
	d.sas[to] = s
	return nil
}

// Usage of an SA.
func (d *Driver) Usage(_ context.Context, id xfrm.SAID) (xfrm.Usage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.sas[id]; s != nil {
		return s.usage, nil
	}
	return xfrm.Usage{}, errors.New("no such SA")
}

// UsageAll yields all SAs in the order in which they were added.
func (d *Driver) UsageAll(_ context.Context, yield func(xfrm.SAID, xfrm.Usage) bool) error {
	d.mu.Lock()
	list := make([]sa, 0, len(d.sas))
	for _, s := range d.inOrder() {
		list = append(list, *s)
	}
	d.mu.Unlock()
	for _, s := range list {
		if !yield(s.ID, s.usage) {
			break
		}
	}
	return nil
}

// Dump lists SAs in the order in which they were added, policies by priority and slot.
func (d *Driver) Dump(context.Context) (xfrm.State, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return xfrm.State{}, errClosed
	}
	var s xfrm.State
	for _, x := range d.inOrder() {
		s.SAs = append(s.SAs, x.SA)
	}
	s.Policies = slices.SortedFunc(maps.Values(d.policies), byPriority)
	return s, nil
}

func (d *Driver) inOrder() []*sa {
	return slices.SortedFunc(maps.Values(d.sas), func(a, b *sa) int { return int(a.order) - int(b.order) })
}

// Close ends the driver. Its policies outlive it, as those of a kernel do: Reopen finds them.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed = true
		close(d.events)
	}
	return nil
}

// Reopen returns a driver for the next process on the same host: what was installed is still there, SAs and policies.
func (d *Driver) Reopen() *Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	next := New()
	next.caps, next.clock, next.added = d.caps, d.clock, d.added
	next.sas, next.policies, next.keys = maps.Clone(d.sas), maps.Clone(d.policies), maps.Clone(d.keys)
	next.opsAdded, next.opsGone = d.opsAdded, d.opsGone
	return next
}
