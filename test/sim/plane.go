package sim

import (
	"context"
	"errors"
	"slices"
	"strings"

	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/ike/wire"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
	"cygnet/xfrm/ledger"
	"cygnet/xfrm/xfrmfake"
)

// plane is the ledger and what the daemon does with it (ike/daemon/dataplane.go).
type plane struct {
	n      *node
	ledger *ledger.Ledger
	box    box
	spis   map[xfrm.Owner]wire.SPI
	usage  map[wire.SPI]map[xfrm.SAID]uint64
	direct bool // claims are served at once: nothing runs yet
	refuse int  // the op of the next machine's batch that the kernel refuses; 0: none
	exists bool // it says that the SA exists
	dies   int  // the daemon dies before this op of the next batch; 0: it does not
}

// said is an SA that the driver holds.
type said struct {
	xfrm.SA
	keys    xfrmfake.Digest
	packets uint64
}

// batch of a machine.
func (p *plane) batch(spi wire.SPI, a ike.SADB) {
	owner := shard.Owner(spi)
	p.spis[owner] = spi
	p.n.lastMoment(a.Batch)
	reqid, err := p.apply(owner, a.Batch, true)
	if p.n.alive {
		p.n.tell(spi, ike.SADBDone{Token: a.Token, Err: err, ReqID: reqid})
	}
}

// claims of a connection.
func (p *plane) claims(owner xfrm.Owner, b xfrm.Batch) {
	serve := func() {
		if _, err := p.apply(owner, b, false); err != nil && p.n.alive {
			p.n.w.fail(Ledger, "%s: the claims of %s were refused: %v", p.n.name, owner, err)
		}
	}
	if p.direct {
		serve()
		return
	}
	p.n.post(&p.box, serve)
}

func (p *plane) finish(spi wire.SPI) {
	owner := shard.Owner(spi)
	delete(p.spis, owner)
	delete(p.usage, spi)
	p.lastOf(owner)
	left := p.ledger.Outlive(owner)
	p.release(owner)
	if len(left) > 0 {
		p.n.w.saw("SAs outlive their IKE SA")
		p.n.after(ike.InboundGrace, func() { p.n.post(&p.box, func() { p.tryAll(p.ledger.Fade(left...), 0) }) })
	}
	if claims, sas := p.ledger.Holds(owner); claims+sas != 0 {
		p.n.w.fail(Ledger, "%s: %s has finished and holds %d claims and %d SAs", p.n.name, owner, claims, sas)
	}
}

func (p *plane) release(owner xfrm.Owner) { p.tryAll(p.ledger.Finish(owner), 0) }

// apply books a batch, carries it out, and undoes the done part when an op fails.
func (p *plane) apply(owner xfrm.Owner, b xfrm.Batch, machine bool) (reqid uint32, err error) {
	plan, err := p.ledger.Plan(owner, b)
	if err != nil {
		var exists *xfrm.OpError
		if !errors.As(err, &exists) {
			p.n.w.fail(Ledger, "%s: the ledger refuses a batch of %s: %v", p.n.name, owner, err)
		}
		return 0, err
	}
	p.n.w.watch.ordered(p.n, plan.Ops)
	refuse := 0
	if machine {
		refuse, p.refuse = p.refuse, 0
	}
	if len(b.Add)+len(b.Claims)+len(b.Update) == 0 { // its owner has forgotten what goes: there is nothing to return to
		p.ledger.Commit(plan)
		p.tryAll(plan.Ops, refuse)
		return plan.ReqID, nil
	}
	at, err := p.carryOut(plan.Ops, refuse)
	for _, sa := range b.Add {
		sa.EncrKey.Wipe()
		sa.IntegKey.Wipe()
	}
	if err != nil {
		if !p.n.alive {
			return 0, err
		}
		p.tryAll(p.ledger.Rollback(plan, at), 0)
		return 0, err
	}
	p.ledger.Commit(plan)
	return plan.ReqID, nil
}

// tryAll carries out ops whose failure nobody can answer for.
func (p *plane) tryAll(ops []xfrm.Op, refuse int) {
	for len(ops) > 0 {
		at, err := p.carryOut(ops, refuse)
		if err == nil || !p.n.alive {
			return
		}
		ops, refuse = ops[at+1:], 0
	}
}

// carryOut gives ops to the driver one by one, so that what must hold between two of them can be looked at. It may be told to refuse one.
func (p *plane) carryOut(ops []xfrm.Op, refuse int) (int, error) {
	n := p.n
	for i, op := range ops {
		if p.dies > 0 {
			if p.dies--; p.dies == 0 && n.w.wild {
				n.w.saw("crash within a batch")
				n.w.story(n, "dies before %s", xfrm.OpName(op))
				n.w.crashFor(n, n.w.between(0, n.w.weather.down))
				return i, errRefused
			}
		}
		if refuse == i+1 && n.w.wild && !removes(op) { // a refusal that was planned ends with the faults
			n.w.saw("kernel refusal")
			err := error(errRefused)
			if _, add := op.(xfrm.AddSA); add && p.exists {
				n.w.saw("SPI taken")
				err = xfrm.ErrExists
			}
			n.driver.Fail(1, err, nil)
		}
		err := n.driver.Apply(context.Background(), ops[i:i+1])
		n.w.story(n, "%s: %v", xfrm.OpName(op), err)
		mixText(n.w, xfrm.OpName(op))
		if err != nil {
			var oe *xfrm.OpError
			if errors.As(err, &oe) {
				oe.Index = i
			}
			n.w.watch.driver(n)
			return i, err
		}
		n.mirror(op)
	}
	return 0, nil
}

// removes: a kernel does not refuse to let something go.
func removes(op xfrm.Op) bool {
	switch op.(type) {
	case xfrm.RemoveSA, xfrm.RemovePolicy:
		return true
	}
	return false
}

// mirror keeps up with what the driver holds.
func (n *node) mirror(op xfrm.Op) {
	switch o := op.(type) {
	case xfrm.AddSA:
		s := &said{SA: o.SA}
		s.keys, _ = n.driver.Keys(o.SA.ID)
		n.w.watch.added(n, s, o.SA)
		s.EncrKey, s.IntegKey = alg.Secret{}, alg.Secret{}
		n.sad[o.SA.ID] = s
	case xfrm.RemoveSA:
		delete(n.sad, o.ID)
	case xfrm.UpdateSA:
		n.sad[o.ID].Encap = &o.Encap
	case xfrm.MoveSA:
		s := n.sad[o.ID]
		delete(n.sad, o.ID)
		s.ID.Dst, s.Src, s.Encap = o.Dst, o.Src, o.Encap
		n.sad[s.ID] = s
	case xfrm.PutPolicy:
		n.spd[o.Policy.Slot] = o.Policy
		n.w.watch.covered(n)
	case xfrm.RemovePolicy:
		delete(n.spd, o.Slot)
		n.w.watch.covered(n)
	}
}

func (p *plane) usageOf(spi wire.SPI, a ike.UsageQuery) {
	last, seen := p.usage[spi], make(map[xfrm.SAID]uint64, len(a.In)+len(a.Out))
	done := ike.UsageDone{Token: a.Token}
	more := func(id xfrm.SAID) (packets uint64, at ike.Time) {
		use, err := p.n.driver.Usage(context.Background(), id)
		if err != nil {
			return 0, 0
		}
		seen[id] = use.Packets
		return use.Packets - min(last[id], use.Packets), ike.Time(use.LastUse * 1e9)
	}
	for _, id := range a.In {
		packets, at := more(id)
		done.Inbound += packets
		done.LastIn = max(done.LastIn, at)
	}
	for _, id := range a.Out {
		packets, _ := more(id)
		done.Outbound += packets
	}
	p.usage[spi] = seen
	p.n.tell(spi, done)
}

// drain takes the driver's events, a little later each.
func (n *node) drain() {
	for {
		select {
		case ev, ok := <-n.driver.Events():
			if !ok {
				return
			}
			if n.alive {
				n.post(&n.plane.box, func() { n.plane.event(ev) })
			}
		default:
			return
		}
	}
}

// event tells the owner of what the data plane saw.
func (p *plane) event(ev xfrm.Event) {
	switch e := ev.(type) {
	case xfrm.Acquire:
		p.acquire(e)
	case xfrm.Expire:
		p.toOwner(e.ID, ike.Expire{ID: e.ID, Hard: e.Hard})
	case xfrm.FirstUse:
		p.toOwner(e.ID, ike.FirstUse{ID: e.ID})
	case xfrm.Mapping:
		p.n.w.saw("ESP mapping")
		p.toOwner(e.ID, ike.Mapping{ID: e.ID, From: e.From})
	case xfrm.Gap:
		p.n.w.saw("gap")
		p.repair()
	}
}

func (p *plane) toOwner(id xfrm.SAID, ev ike.Event) {
	if owner, ok := p.ledger.OwnerOf(id); ok {
		if spi, ok := p.spis[owner]; ok {
			p.n.tell(spi, ev)
		}
	}
}

func (p *plane) acquire(e xfrm.Acquire) {
	lineage, ok := p.ledger.Lineage(e.ReqID)
	if !ok {
		return
	}
	p.n.w.saw("acquire")
	connection, rest, _ := strings.Cut(lineage, "/")
	child, _, _ := strings.Cut(rest, "/")
	p.n.toDirectory(directory.Acquire{Connection: connection, Child: child, Packet: e.Selector})
}

// repair makes the driver hold what the ledger knows.
func (p *plane) repair() {
	state, err := p.n.driver.Dump(context.Background())
	if err != nil {
		p.n.w.fail(Panic, "%s: Dump: %v", p.n.name, err)
	}
	ops, lost := p.ledger.Diff(state)
	p.tryAll(ops, 0)
	for _, owner := range lost {
		for _, id := range p.ledger.SAs(owner) {
			if !slices.ContainsFunc(state.SAs, func(s xfrm.SA) bool { return s.ID == id }) {
				p.n.w.saw("SA gone from the kernel")
				p.toOwner(id, ike.Expire{ID: id, Hard: true})
			}
		}
	}
}
