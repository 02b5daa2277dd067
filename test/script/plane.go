package script

import (
	"context"
	"strings"

	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/ike/wire"
	"cygnet/xfrm"
	"cygnet/xfrm/xfrmfake"
)

// This file is the ledger and what the daemon does with it (ike/daemon/dataplane.go).

func (p *party) batch(spi wire.SPI, a ike.SADB) {
	owner := shard.Owner(spi)
	p.spis[owner] = spi
	reqid, err := p.apply(owner, a.Batch)
	p.tell(spi, ike.SADBDone{Token: a.Token, Err: err, ReqID: reqid})
}

// apply books a batch, carries it out, and undoes the done part when an op fails.
func (p *party) apply(owner xfrm.Owner, b xfrm.Batch) (reqid uint32, err error) {
	plan, err := p.ledger.Plan(owner, b)
	if err != nil {
		return 0, err
	}
	for i := range plan.Ops {
		if err := p.carryOut(plan.Ops[i]); err != nil {
			p.tryAll(p.ledger.Rollback(plan, i))
			return 0, err
		}
	}
	p.ledger.Commit(plan)
	return plan.ReqID, nil
}

func (p *party) carryOut(op xfrm.Op) error {
	p.w.active = p.w.now
	err := p.driver.Apply(context.Background(), []xfrm.Op{op})
	if err != nil {
		p.story("data plane: %s: %v", strings.Fields(xfrm.OpName(op))[0], err)
	}
	return err
}

// tryAll carries out ops whose failure nobody can answer for.
func (p *party) tryAll(ops []xfrm.Op) {
	for _, op := range ops {
		p.carryOut(op)
	}
}

func (p *party) adopt(old, heir wire.SPI) {
	p.ledger.Transfer(shard.Owner(old), shard.Owner(heir))
	delete(p.spis, shard.Owner(old))
	p.spis[shard.Owner(heir)] = heir
	if u, ok := p.usage[old]; ok {
		delete(p.usage, old)
		p.usage[heir] = u
	}
}

func (p *party) finish(spi wire.SPI) {
	owner := shard.Owner(spi)
	delete(p.spis, owner)
	delete(p.usage, spi)
	left := p.ledger.Outlive(owner)
	p.tryAll(p.ledger.Finish(owner))
	if len(left) > 0 {
		p.at(p.w.now.Add(ike.InboundGrace), func() { p.tryAll(p.ledger.Fade(left...)) })
	}
}

// repair makes the data plane hold what the ledger knows.
func (p *party) repair() {
	state, err := p.driver.Dump(context.Background())
	if err != nil {
		p.w.problem("%s: Dump: %v", p.name, err)
	}
	ops, _ := p.ledger.Diff(state)
	p.tryAll(ops)
}

func (p *party) usageOf(spi wire.SPI, a ike.UsageQuery) {
	last, seen := p.usage[spi], make(map[xfrm.SAID]uint64)
	done := ike.UsageDone{Token: a.Token}
	more := func(id xfrm.SAID) (packets uint64, at ike.Time) {
		use, err := p.driver.Usage(context.Background(), id)
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
	p.tell(spi, done)
}

// drain passes on what the data plane saw.
func (p *party) drain() {
	for {
		select {
		case ev, ok := <-p.driver.Events():
			if !ok {
				return
			}
			p.soon(func() { p.saw(ev) })
		default:
			return
		}
	}
}

func (p *party) saw(ev xfrm.Event) {
	switch e := ev.(type) {
	case xfrm.Acquire:
		if lineage, ok := p.ledger.Lineage(e.ReqID); ok {
			part := strings.Split(lineage, "/")
			p.directed(directory.Acquire{Connection: part[0], Child: part[1], Packet: e.Selector})
		}
	case xfrm.Expire:
		p.toOwner(e.ID, ike.Expire{ID: e.ID, Hard: e.Hard})
	case xfrm.FirstUse:
		p.toOwner(e.ID, ike.FirstUse{ID: e.ID})
	}
}

func (p *party) toOwner(id xfrm.SAID, ev ike.Event) {
	if owner, ok := p.ledger.OwnerOf(id); ok {
		p.tell(p.spis[owner], ev)
	}
}

// packet sends one of a child's network to the peer's. in is the SPI of the child SA that took it there, 0 when it did not arrive.
func (p *party) packet(child int) (in uint32, fate string) {
	packet := xfrmfake.Packet{Src: p.host(child), Dst: p.peer.host(child), Proto: 17, SrcPort: 5000, DstPort: 5000, Octets: 100}
	left, id := p.driver.Outbound(packet)
	p.drain()
	switch {
	case left == xfrmfake.Dropped:
		return 0, "held back: there is no child SA"
	case left == xfrmfake.Clear:
		return 0, "would leave in clear"
	case p.cut || p.peer.cut:
		return 0, "lost"
	}
	arrives := xfrm.SAID{Dst: p.peer.addr, SPI: id.SPI, Proto: xfrm.ProtoESP}
	came := p.peer.driver.Inbound(arrives, packet)
	p.peer.drain()
	if came != xfrmfake.Protected {
		return 0, "in " + p.w.names.ofChild(p.peer.name, id.SPI) + ", which " + p.peer.name + " does not have"
	}
	return id.SPI, "in " + p.w.names.ofChild(p.peer.name, id.SPI)
}
