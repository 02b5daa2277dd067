package sim

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"cygnet/ike"
	"cygnet/xfrm"
	"cygnet/xfrm/xfrmfake"
)

// probe sends one packet of a child from one side's network to the other's. must: it has to arrive, if both ends have the child.
func (w *world) probe(c *conn, k, side int, must bool) {
	from, to := c.ends[side], c.ends[1-side]
	p := from.packet(k)
	must = must && from.has(k) && to.has(k)
	fate, id := from.node.driver.Outbound(p)
	from.node.drain()
	w.mix(uint64(fate), uint64(id.SPI))
	w.story(from.node, "a packet for %s %s: %v %v", from.name(), childName(k), fate, id)
	switch {
	case fate == xfrmfake.Clear && from.guards(k):
		w.fail(Clear, "%s sends a packet of %s, child %s, in clear", from.node.name, from.name(), childName(k))
	case fate == xfrmfake.Clear:
		w.saw("clear, as nothing protects")
		w.inClear(c, to, k, p)
	case fate == xfrmfake.Dropped && must:
		w.fail(Loss, "%s drops a packet of %s, child %s, which both ends have", from.node.name, from.name(), childName(k))
	case fate == xfrmfake.Protected:
		w.saw("protected packet")
		w.carry(from, to, id, p, must)
	}
}

// aroundRekey sends packets both ways while the new pair of a child takes over from the old.
func (w *world) aroundRekey(n *node, connection, child string) {
	if !w.clean {
		return
	}
	for _, e := range n.conns {
		for k := range e.conn.children {
			if e.name() != connection || childName(k) != child || e.counted() || e.other().counted() {
				continue
			}
			for i := range 6 {
				w.after(w.between(0, 400*time.Millisecond), func() { w.probe(e.conn, k, i%2, e.conn.want && w.clean) })
			}
		}
	}
}

// lastMoment sends a packet on each outbound SA that is about to go; the answer to the Delete that ends it may be there first.
func (n *node) lastMoment(b xfrm.Batch) {
	for _, id := range b.Remove {
		s := n.sad[id]
		if s == nil || s.Direction != xfrm.Out || !n.w.clean {
			continue
		}
		for _, e := range n.conns {
			for k := range e.conn.children {
				if p := e.packet(k); e.conn.want && !e.counted() && !e.other().counted() && carries(s, p) {
					n.w.saw("packet at the last moment")
					n.w.probe(e.conn, k, e.side, true)
				}
			}
		}
	}
}

// lastOf sends such packets when an IKE SA ends whose children another one carries.
func (p *plane) lastOf(owner xfrm.Owner) {
	p.n.lastMoment(xfrm.Batch{Remove: p.ledger.SAs(owner)})
}

func carries(s *said, p xfrmfake.Packet) bool {
	return slices.ContainsFunc(s.Selectors, func(x xfrm.Selector) bool { return x.Src.Contains(p.Src) && x.Dst.Contains(p.Dst) })
}

// moveWhileTwo has a NAT forget its mappings while two IKE SAs of one connection stand behind it: what the peer sends then belongs to one of them, and the other must follow.
func (n *node) moveWhileTwo(connection string) {
	i := slices.IndexFunc(n.conns, func(e *end) bool { return e.name() == connection })
	if i < 0 || !n.w.clean {
		return
	}
	w, e := n.w, n.conns[i]
	x := e.other().node.nat
	if x == nil || len(x.nodes) > 1 {
		return
	}
	w.after(w.between(50*time.Millisecond, 1200*time.Millisecond), func() {
		if !w.clean || len(e.serving()) < 2 {
			return
		}
		w.saw("NAT rebinding under two IKE SAs")
		x.rebind()
		w.moved = w.now
		for at := time.Duration(0); at < 200*time.Millisecond; at += 50 * time.Millisecond {
			w.after(at, func() {
				for k := range e.conn.children {
					w.probe(e.conn, k, 1-e.side, false)
				}
			})
		}
		w.after(400*time.Millisecond, func() {
			for _, m := range e.serving() {
				if to, _ := w.behind(m.Path.Remote); to != e.other().node {
					w.fail(Loss, "%s: an IKE SA has not followed its peer, of which another has heard: %s is at %v", n.name, brief(m), m.Path.Remote)
				}
			}
		})
	})
}

// serving are the established IKE SAs of the connection there.
func (e *end) serving() []ike.Status {
	return slices.DeleteFunc(e.node.machines(), func(m ike.Status) bool { return m.Connection != e.name() || m.Phase != "established" })
}

// counted: packets themselves cause the next rekey.
func (e *end) counted() bool { return strings.Contains(e.childLifetimes, "rekey_packets") }

// has: the daemon there says that the child is up.
func (e *end) has(k int) bool {
	for _, m := range e.node.machines() {
		if m.Connection != e.name() {
			continue
		}
		for _, ch := range m.Children {
			if ch.Name == childName(k) && ch.Up {
				return true
			}
		}
	}
	return false
}

// packet of a child, outbound at this end.
func (e *end) packet(k int) xfrmfake.Packet {
	p := xfrmfake.Packet{Src: e.conn.host(k, e.side), Dst: e.conn.host(k, 1-e.side), Proto: 6, SrcPort: 443, DstPort: 443, Octets: 100}
	if e.conn.protos[k] == "[udp]" {
		p.Proto = 17
	}
	return p
}

// guards: the child's packets must not be in clear here.
func (e *end) guards(k int) bool { return e.node.protects[guarded{e.name(), childName(k)}] }

// inClear: a packet in clear, ours or an adversary's, must not come in where policy protects.
func (w *world) inClear(c *conn, to *end, k int, p xfrmfake.Packet) {
	w.after(w.between(0, 20e6), func() {
		if to.node.driver.Inbound(xfrm.SAID{}, p) == xfrmfake.Clear && to.guards(k) {
			w.fail(Clear, "%s lets a packet of %s, child %s, in that came in clear", to.node.name, to.name(), childName(k))
		}
	})
}

// carry takes an ESP packet over the path that its SA says, through NATs, to the inbound SA with the same keys.
func (w *world) carry(from, to *end, id xfrm.SAID, p xfrmfake.Packet, must bool) {
	out := from.node.sad[id]
	if out == nil {
		w.fail(Panic, "%s: the driver uses %v, which was never added", from.node.name, id)
	}
	lost := func(why string) {
		w.story(from.node, "the packet is lost: %s", why)
		if must && !(w.moved != 0 && w.now.Sub(w.moved) < time.Second) { // what was on its way through a mapping is lost with it
			w.fail(Loss, "a packet of %s, child of %s, in %v was lost: %s", from.name(), to.name(), id, why)
		}
	}
	if out.Src != from.node.addr && from.node.moves > 0 {
		lost("its host no longer has " + out.Src.String())
		return
	}
	src, dst := netip.AddrPortFrom(out.Src, 0), netip.AddrPortFrom(id.Dst, 0)
	if out.Encap != nil {
		src, dst = netip.AddrPortFrom(out.Src, out.Encap.SrcPort), netip.AddrPortFrom(id.Dst, out.Encap.DstPort)
		if from.node.nat != nil {
			src = from.node.nat.outward(src)
		}
	} else if from.node.nat != nil || to.node.nat != nil {
		lost("plain ESP does not pass the NAT")
		return
	}
	delay, ok := w.pass(from.node, dst.Addr())
	if !ok {
		return
	}
	from.node.used(out)
	w.outlives(from, id)
	keys, encap := out.keys, out.Encap
	w.after(delay, func() {
		n, local := w.behind(dst)
		if n == nil {
			lost("nobody has " + dst.String())
			return
		}
		in := n.sad[xfrm.SAID{Dst: local.Addr(), SPI: id.SPI, Proto: id.Proto}]
		switch {
		case in == nil:
			lost("no such SA at " + n.name)
		case in.keys != keys:
			lost("other keys at " + n.name)
		case (in.Encap == nil) != (encap == nil):
			lost("the ends do not agree about encapsulation")
		default:
			if fate := n.driver.Inbound(in.ID, p); fate != xfrmfake.Protected {
				lost("inbound: " + fate.String())
			}
			n.used(in)
			if in.Encap != nil && (src.Addr() != in.Src || src.Port() != in.Encap.SrcPort) {
				n.driver.Raise(xfrm.Mapping{ID: in.ID, From: src})
			}
			n.drain()
		}
	})
}

// outlives: an outbound SA goes with its child, and is not used any longer than until the data plane has heard of it.
func (w *world) outlives(from *end, id xfrm.SAID) {
	n := from.node
	orphan := func() bool {
		return n.alive && n.sad[id] != nil && !slices.ContainsFunc(n.machines(), func(m ike.Status) bool {
			return slices.ContainsFunc(m.Children, func(c ike.ChildStatus) bool { return c.Out == id })
		})
	}
	if !w.clean || !orphan() {
		return
	}
	w.after(5*time.Millisecond, func() {
		if w.clean && orphan() {
			w.fail(Pairs, "%s sends on %v, whose child is gone", n.name, id)
		}
	})
}

// used counts towards an SA's limits, as a kernel does.
func (n *node) used(s *said) {
	const first = 1 // a soft limit of one packet is how a machine asks for FirstUse, which the driver raises by itself
	switch s.packets++; s.packets {
	case first:
	case s.SoftPackets:
		n.w.saw("soft expire")
		n.driver.Raise(xfrm.Expire{ID: s.ID})
	case s.HardPackets:
		n.driver.Raise(xfrm.Expire{ID: s.ID, Hard: true})
		n.lose(s.ID)
	}
	n.drain()
}

// probeAll: everything that is wanted carries packets both ways, and nothing that is to be protected leaves in clear.
func (w *world) probeAll() {
	for _, n := range w.nodes {
		w.watch.status(n)
	}
	for round := range 2 {
		for _, c := range w.conns {
			behind := c.ends[0].node.nat != nil || c.ends[1].node.nat != nil // the first packet from there shows where it is now
			for k := range c.children {
				for side := range 2 {
					from := c.ends[side]
					if c.want && !(from.has(k) && c.ends[1-side].has(k)) {
						w.fail(Liveness, "%s: child %s of %s is not up", from.node.name, childName(k), from.name())
					}
					w.probe(c, k, side, c.want && (round > 0 || !behind))
				}
			}
		}
		w.runUntil(w.now.Add(300e6))
	}
	if !w.rekeys || w.unsettled() == "" { // in the midst of a rekey one end is always ahead
		w.pairs()
	}
}

// heldSAs lists what a driver holds, by SPI.
func (n *node) heldSAs() []xfrm.SAID {
	var ids []xfrm.SAID
	for id := range n.sad {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b xfrm.SAID) int { return cmp.Or(cmp.Compare(a.SPI, b.SPI), a.Dst.Compare(b.Dst)) })
	return ids
}
