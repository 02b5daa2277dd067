package ike

import (
	"fmt"
	"net/netip"
	"slices"

	"cygnet/policy"
	"cygnet/xfrm"
)

// inbound and outbound are the SAs of a child. Secrets are copied: those in a batch belong to whoever gets it.
func (sa *SA) inbound(c *child) xfrm.SA {
	s := sa.half(c, xfrm.In)
	s.ID, s.Src, s.Replay = c.inID(), c.path.Remote.Addr(), c.config.Replay
	s.Selectors = policy.Selectors(c.remote, c.local)
	sa.limit(c, &s)
	return s
}

func (sa *SA) outbound(c *child) xfrm.SA {
	s := sa.half(c, xfrm.Out)
	s.ID, s.Src, s.HideDSCP = c.outID(), c.path.Local.Addr(), c.config.HideDSCP
	s.Selectors = policy.Selectors(c.local, c.remote)
	sa.limit(c, &s)
	return s
}

func (sa *SA) half(c *child, d xfrm.Direction) xfrm.SA {
	s := xfrm.SA{Direction: d, Mode: xfrm.Tunnel, Suite: c.suite, Encap: sa.encap(d)}
	if (d == xfrm.Out) == c.initiated {
		s.EncrKey, s.IntegKey = c.keys.EncrI2R.Clone(), c.keys.IntegI2R.Clone()
	} else {
		s.EncrKey, s.IntegKey = c.keys.EncrR2I.Clone(), c.keys.IntegR2I.Clone()
	}
	return s
}

// claims are the policy slots of a child, both directions of each pair of selectors.
func (c *child) claims() []xfrm.Claim {
	local, remote := c.path.Local.Addr(), c.path.Remote.Addr()
	out := xfrm.Template{Src: local, Dst: remote, Mode: xfrm.Tunnel, SPI: c.spiOut}
	in := xfrm.Template{Src: remote, Dst: local, Mode: xfrm.Tunnel, SPI: c.spiIn}
	rank := xfrm.RankChild
	if c.behind != 0 {
		rank = xfrm.RankNext
	}
	var list []xfrm.Claim
	for _, s := range policy.Selectors(c.local, c.remote) {
		list = append(list, xfrm.Claim{Slot: xfrm.Slot{Direction: xfrm.Out, Selector: s}, Template: out, Rank: rank, Peer: c.peer})
	}
	for _, s := range policy.Selectors(c.remote, c.local) {
		list = append(list, xfrm.Claim{Slot: xfrm.Slot{Direction: xfrm.In, Selector: s}, Template: in, Rank: xfrm.RankChild, Peer: c.peer})
	}
	return list
}

func (c *child) slots() []xfrm.Slot {
	var list []xfrm.Slot
	for _, cl := range c.claims() {
		list = append(list, cl.Slot)
	}
	return list
}

// sadb asks the data plane for a batch.
func (sa *SA) sadb(b xfrm.Batch, then func(SADBDone)) {
	sa.next.batches++
	t := sa.wait(func(ev Event) {
		sa.next.batches--
		if d, ok := ev.(SADBDone); ok {
			then(d)
		}
	})
	sa.out.Add(SADB{Token: t, Batch: b})
}

// install adds the SAs of a new child, inbound first; then is told how it went. A rekeyed child gets its outbound SA and its claims later.
// On an error nothing is installed, since a batch is all or nothing, and the child is forgotten.
func (sa *SA) install(c *child, then func(error)) {
	w := sa.way()
	c.path, c.placed, c.encap, c.peer = w.path, w.path, w.nat.encap(), peerName(sa.peer)
	if c.replaces == nil && !c.initiated {
		c.behind = sa.now.Add(behindLimit)
	}
	b := xfrm.Batch{Lineage: sa.lineage(c), Add: []xfrm.SA{sa.inbound(c)}}
	c.in = installing
	if (c.replaces == nil || c.initiated) && !c.redundant {
		b.Add = append(b.Add, sa.outbound(c))
		b.Claims = c.claims()
		c.out = installing
	}
	sa.children = append(sa.children, c)
	sa.sadb(b, func(d SADBDone) {
		if d.Err != nil {
			sa.forget(c)
			then(d.Err)
			return
		}
		c.reqid = d.ReqID
		c.in = installed
		if c.out == installing {
			sa.sending(c)
		} else if !c.gone && sa.strays(c) {
			sa.moveChild(c, c.path)
		}
		then(nil)
	})
}

// sending: the outbound SA is there, so the keys are no longer needed here. The path may have moved meanwhile.
func (sa *SA) sending(c *child) {
	c.out = installed
	c.keys.Wipe()
	if !c.gone && sa.strays(c) {
		sa.moveChild(c, c.path)
	}
}

// forget takes a child off the list.
func (sa *SA) forget(c *child) {
	c.gone = true
	if c.keys != nil {
		c.keys.Wipe()
	}
	sa.children = slices.DeleteFunc(sa.children, func(x *child) bool { return x == c })
	for _, x := range sa.children {
		if x.replaces == c {
			sa.takesOver(c, x)
		}
	}
	c.rekeys = nil // else a child would keep all that went before it
}

// remove takes SAs of a child out of the data plane. Removing the outbound SA releases the claims with it.
func (sa *SA) remove(c *child, in, out bool) {
	b := xfrm.Batch{Lineage: sa.lineage(c)}
	if in && c.in != absent {
		b.Remove = append(b.Remove, c.ids(c.inID)...)
		c.in = absent
	}
	if out && c.out != absent {
		b.Remove = append(b.Remove, c.ids(c.outID)...)
		b.Release = c.slots()
		c.out = absent
	}
	next := sa.handOver(c, &b)
	if len(b.Remove) == 0 && next == nil {
		return
	}
	sa.sadb(b, func(d SADBDone) {
		if next != nil {
			if d.Err != nil { // nothing of the batch was done: the old SAs go without the new
				sa.sadb(xfrm.Batch{Lineage: b.Lineage, Release: b.Release, Remove: b.Remove}, func(SADBDone) {})
			}
			sa.outboundDone(next, d.Err)
		} else if d.Err != nil {
			sa.ignored("removing %s of child %s: %v", c.spiText(), c.config.Name, d.Err)
		}
	})
}

// ids are the names by which the data plane may know an SA: while a move is on its way there are two, and one that is not there is removed in vain.
func (c *child) ids(name func() xfrm.SAID) []xfrm.SAID {
	now := name()
	path := c.path
	c.path = c.placed
	before := name()
	c.path = path
	if before == now {
		return []xfrm.SAID{now}
	}
	return []xfrm.SAID{now, before}
}

// handOver lets the successor of a rekeyed child send by the same batch that removes the old outbound SA, so that no packet is lost.
func (sa *SA) handOver(old *child, b *xfrm.Batch) (next *child) {
	next = sa.findChild(func(c *child) bool {
		return c.replaces == old && c.in == installed && c.out == absent && !c.deleting && !c.redundant
	})
	if next == nil || old.out != absent || sa.mute() {
		return nil
	}
	b.Add = append(b.Add, sa.outbound(next))
	b.Claims = append(b.Claims, next.claims()...)
	next.out, next.outboundDue = installing, 0
	return next
}

// dropChild removes a child wholly and says why, when no other instance of it is left.
func (sa *SA) dropChild(c *child, why string) {
	sa.outlive(c)
	sa.remove(c, true, true)
	sa.forget(c)
	sa.takeOver(c)
	other := sa.findChild(func(x *child) bool { return x.config == c.config && x.up })
	if c.up && other == nil {
		sa.report(Report{Child: c.config.Name, Code: CodeChildDown, Text: "down: " + why})
	}
}

// moveChild tells the data plane about a new path.
func (sa *SA) moveChild(c *child, old Path) {
	in, out := c.inID(), c.outID()
	was := c.encap
	w := sa.way()
	c.path, c.encap = w.path, w.nat.encap()
	to := c.path
	b := xfrm.Batch{Lineage: sa.lineage(c)}
	sameAddr := old.Local.Addr() == c.path.Local.Addr() && old.Remote.Addr() == c.path.Remote.Addr()
	if sameAddr && !was && !c.encap { // only IKE's ports are others
		c.placed = to
		return
	}
	if c.in == installed {
		b.Update = append(b.Update, sa.moveOp(in, xfrm.In, sameAddr && was, c.path.Remote, c.path.Local))
	}
	if c.out == installed {
		b.Update = append(b.Update, sa.moveOp(out, xfrm.Out, sameAddr && was, c.path.Local, c.path.Remote))
		if !sameAddr { // the templates name the addresses
			b.Claims, b.Release = c.claims(), c.slots()
		}
	}
	sa.sadb(b, func(d SADBDone) {
		switch {
		case d.Err == nil:
			c.placed = to
		case !c.gone: // its SAs are where they were, and the peer is not
			c.path = c.placed
			sa.report(Report{Child: c.config.Name, Code: CodeDataplane, Text: fmt.Sprintf("the data plane refused to follow the peer: %v", d.Err)})
			sa.deleteChild(c, "the data plane refused to follow the peer")
		}
	})
}

// moveOp: ports change in place; to begin or end encapsulation an SA is added anew.
func (sa *SA) moveOp(id xfrm.SAID, d xfrm.Direction, ports bool, src, dst netip.AddrPort) xfrm.Op {
	encap := sa.encap(d)
	if ports && encap != nil {
		return xfrm.UpdateSA{ID: id, Encap: *encap}
	}
	return xfrm.MoveSA{ID: id, Src: src.Addr(), Dst: dst.Addr(), Encap: encap}
}
