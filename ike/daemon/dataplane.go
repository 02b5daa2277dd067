package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/ike/wire"
	"cygnet/xfrm"
	"cygnet/xfrm/ledger"
)

// applyTime bounds one batch. A netlink request takes microseconds; a data plane that hangs must not hang the daemon with it.
const applyTime = 10 * time.Second

// plane is the goroutine that alone touches the ledger and applies its plans, one batch after the other, so that batches of one owner
// keep their order and the ledger always knows what the driver holds.
type plane struct {
	d      *Daemon
	driver xfrm.Driver
	ledger *ledger.Ledger
	box    *mailbox[request]
	spis   map[xfrm.Owner]wire.SPI           // machines that have something here
	usage  map[wire.SPI]map[xfrm.SAID]uint64 // packets at the last UsageQuery
	totals *totals
	failed error // a connection's policies could not be put
}

// request is what others ask of the data plane.
type request interface{ serve(*plane) }

type (
	// batchOf a machine.
	batchOf struct {
		spi    wire.SPI
		ask    ike.SADB
		answer func(ike.SADBDone)
	}
	// usageOf a machine's children.
	usageOf struct {
		spi    wire.SPI
		ask    ike.UsageQuery
		answer func(ike.UsageDone)
	}
	// adoptOf: all that a machine holds is another's from now on.
	adoptOf struct{ old, heir wire.SPI }
	// finishOf a machine: everything it holds goes.
	finishOf struct{ spi wire.SPI }
	// claimsOf a connection: its trap and block.
	claimsOf struct {
		owner xfrm.Owner
		batch xfrm.Batch
	}
	// releaseOf removes everything of a connection.
	releaseOf struct{ owner xfrm.Owner }
	// call runs in the plane's goroutine.
	call func(*plane)
)

func newPlane(d *Daemon, driver xfrm.Driver) *plane {
	return &plane{
		d: d, driver: driver, ledger: ledger.New(), box: newMailbox[request](), totals: newTotals(),
		spis: make(map[xfrm.Owner]wire.SPI), usage: make(map[wire.SPI]map[xfrm.SAID]uint64),
	}
}

func (p *plane) run() {
	events := p.driver.Events()
	var mail []request
	for {
		select {
		case <-p.d.planeQuit:
			return
		case <-p.box.signal:
			mail = p.serve(mail)
		case ev, ok := <-events:
			if !ok {
				events = nil // a nil channel is never ready
				continue
			}
			p.event(ev)
		}
	}
}

// serve handles all requests that wait and returns the slice for reuse.
func (p *plane) serve(spare []request) []request {
	list := p.box.take(spare)
	for _, r := range list {
		r.serve(p)
	}
	return list
}

func (b batchOf) serve(p *plane) {
	owner := shard.Owner(b.spi)
	p.spis[owner] = b.spi
	reqid, err := p.apply(owner, b.ask.Batch)
	b.answer(ike.SADBDone{Token: b.ask.Token, Err: err, ReqID: reqid})
}

func (c claimsOf) serve(p *plane) {
	if _, err := p.apply(c.owner, c.batch); err != nil {
		p.failed = err
		p.d.log.Errorf("%s: its policies could not be put, its traffic may be unprotected: %v", c.owner, err)
	}
}

func (a adoptOf) serve(p *plane) {
	old, heir := shard.Owner(a.old), shard.Owner(a.heir)
	p.ledger.Transfer(old, heir)
	delete(p.spis, old)
	p.spis[heir] = a.heir
	if u, ok := p.usage[a.old]; ok {
		delete(p.usage, a.old)
		p.usage[a.heir] = u
	}
}

func (f finishOf) serve(p *plane) { p.finish(f.spi) }

func (p *plane) finish(spi wire.SPI) {
	owner := shard.Owner(spi)
	delete(p.spis, owner)
	delete(p.usage, spi)
	left := p.ledger.Outlive(owner)
	p.tryAll(p.ledger.Finish(owner))
	if len(left) > 0 {
		time.AfterFunc(ike.InboundGrace, func() { p.box.put(call(func(p *plane) { p.tryAll(p.ledger.Fade(left...)) })) })
	}
}

// releaseAll removes what machines that could not end in time still hold, and what has outlived others, when the daemon stops.
func (p *plane) releaseAll() {
	for _, spi := range p.spis {
		p.finish(spi)
	}
	p.tryAll(p.ledger.Fade())
}

func (r releaseOf) serve(p *plane) { p.tryAll(p.ledger.Finish(r.owner)) }

func (c call) serve(p *plane) { c(p) }

// apply books a batch, carries it out, and undoes the done part when an op fails.
func (p *plane) apply(owner xfrm.Owner, b xfrm.Batch) (reqid uint32, err error) {
	plan, err := p.ledger.Plan(owner, b)
	if err != nil {
		return 0, err
	}
	if onlyRemoves(b) { // its owner has forgotten what goes: there is nothing to return to
		p.ledger.Commit(plan)
		p.tryAll(plan.Ops)
		return plan.ReqID, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	p.totals.before(ctx, p.driver, plan.Ops)
	err = p.driver.Apply(ctx, plan.Ops)
	for _, sa := range b.Add { // the driver has its own copies
		sa.EncrKey.Wipe()
		sa.IntegKey.Wipe()
	}
	if err != nil {
		failed := 0
		var oe *xfrm.OpError
		if errors.As(err, &oe) {
			failed = oe.Index
		}
		p.tryAll(p.ledger.Rollback(plan, failed))
		return 0, err
	}
	p.ledger.Commit(plan)
	p.totals.added(b)
	return plan.ReqID, nil
}

func onlyRemoves(b xfrm.Batch) bool { return len(b.Add)+len(b.Claims)+len(b.Update) == 0 }

// tryAll carries out ops whose failure nobody can answer for: each is tried, failures are logged.
func (p *plane) tryAll(ops []xfrm.Op) {
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	p.totals.before(ctx, p.driver, ops)
	for len(ops) > 0 {
		err := p.driver.Apply(ctx, ops)
		if err == nil {
			return
		}
		p.d.log.Errorf("data plane: %v", err)
		var oe *xfrm.OpError
		if !errors.As(err, &oe) || oe.Index < 0 || oe.Index >= len(ops) {
			return
		}
		ops = ops[oe.Index+1:]
	}
}

func (u usageOf) serve(p *plane) {
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	t := p.d.clock.now()
	last, seen := p.usage[u.spi], make(map[xfrm.SAID]uint64, len(u.ask.In)+len(u.ask.Out))
	done := ike.UsageDone{Token: u.ask.Token}
	more := func(id xfrm.SAID) (packets uint64, at ike.Time) {
		use, err := p.driver.Usage(ctx, id)
		if err != nil {
			return 0, 0 // the SA has just gone
		}
		seen[id] = use.Packets
		return use.Packets - min(last[id], use.Packets), sinceEpoch(use.LastUse, t)
	}
	for _, id := range u.ask.In {
		packets, at := more(id)
		done.Inbound += packets
		done.LastIn = max(done.LastIn, at)
	}
	for _, id := range u.ask.Out {
		packets, _ := more(id)
		done.Outbound += packets
	}
	p.usage[u.spi] = seen
	u.answer(done)
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
		p.toOwner(e.ID, ike.Mapping{ID: e.ID, From: e.From})
	case xfrm.Gap:
		p.d.log.Warn("the data plane lost events: comparing what it holds with what it should")
		if err := p.repair(); err != nil {
			p.d.log.Errorf("data plane: %v", err)
		}
	}
}

func (p *plane) toOwner(id xfrm.SAID, ev ike.Event) {
	owner, ok := p.ledger.OwnerOf(id)
	if !ok {
		return // gone since
	}
	if spi, ok := p.spis[owner]; ok {
		p.d.loopOf(spi).tell(spi, ev)
	}
}

// acquire asks the directory for the child whose policy a packet met.
func (p *plane) acquire(e xfrm.Acquire) {
	lineage, ok := p.ledger.Lineage(e.ReqID)
	if !ok {
		p.d.counters.strangeAcquires.Add(1)
		return
	}
	connection, child := splitLineage(lineage)
	p.d.directory.box.put(directory.Acquire{Connection: connection, Child: child, Packet: e.Selector})
}

// splitLineage takes the connection and the child out of a lineage ("connection/child" or "connection/child/peer").
func splitLineage(s string) (connection, child string) {
	connection, rest, _ := strings.Cut(s, "/")
	child, _, _ = strings.Cut(rest, "/")
	return connection, child
}

// repair makes the driver hold what the ledger knows, adds first, so that no protected selector is ever without a policy. Children whose SAs
// have gone, with their keys, are ended; the directory brings wanted ones up again.
func (p *plane) repair() error {
	ctx, cancel := context.WithTimeout(context.Background(), applyTime)
	defer cancel()
	state, err := p.driver.Dump(ctx)
	if err != nil {
		return fmt.Errorf("what it holds cannot be read: %w", err)
	}
	ops, lost := p.ledger.Diff(state)
	for _, op := range ops {
		p.d.log.Debugf("data plane: repair: %s", xfrm.OpName(op))
	}
	p.tryAll(ops)
	for _, owner := range lost {
		for _, id := range p.ledger.SAs(owner) {
			if !slices.ContainsFunc(state.SAs, func(s xfrm.SA) bool { return s.ID == id }) {
				p.d.log.Warnf("%s has gone from the data plane: its child is made anew", id)
				p.toOwner(id, ike.Expire{ID: id, Hard: true})
			}
		}
	}
	return nil
}

// inPlane runs f in the plane's goroutine, after all that was asked before, and waits.
func (d *Daemon) inPlane(f func(*plane)) error {
	done := make(chan struct{})
	d.plane.box.put(call(func(p *plane) { f(p); close(done) }))
	select {
	case <-done:
		return nil
	case <-d.planeQuit:
		return errStopping
	}
}
