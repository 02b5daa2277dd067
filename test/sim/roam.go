package sim

import (
	"fmt"
	"net/netip"
	"time"

	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
)

// roamEvery: of so many seeds one has peers that go from network to network (RFC 4555). It is not drawn, so that other seeds mean what they meant.
const roamEvery = 4

// roams reports whether the peers of this run have no address in any configuration.
func (w *world) roams() bool { return w.opt.Seed%roamEvery == roamEvery-1 }

// planRoams scatters changes of address over the fault period.
func (w *world) planRoams(length time.Duration) {
	if !w.roams() {
		return
	}
	w.saw("roaming")
	for range 1 + w.rng.IntN(6) {
		w.after(w.between(0, length), w.roamOne)
	}
}

// roamOne gives a peer another address. Its daemon hears of it a little later, and what leaves from the old address meanwhile is lost.
func (w *world) roamOne() {
	n := pick(w, w.nodes[1:]...)
	old := n.addr
	n.moves++
	switch {
	case n.nat != nil:
		n.addr = netip.AddrFrom4([4]byte{10, 9, byte(1 + n.index), byte(10 + n.moves)})
	case old.Is4():
		n.addr = netip.AddrFrom4([4]byte{198, 51, 100, byte(50*n.index + n.moves)})
	default:
		a := old.As16()
		a[14], a[15] = byte(n.index), byte(n.moves)
		n.addr = netip.AddrFrom16(a)
	}
	if n.nat == nil {
		delete(w.at, old)
		w.at[n.addr] = n
	}
	w.saw("address change")
	w.story(n, "goes from %v to %v", old, n.addr)
	n.after(w.between(500*time.Millisecond, 2500*time.Millisecond), func() {
		own := []netip.Addr{n.addr}
		for _, l := range n.shards {
			n.post(&l.box, func() { n.turn(l, shard.Paths{Own: own}) })
		}
		n.toDirectory(directory.Paths{})
	})
}

// astray says which end does not send to where its peer is, from where it is itself; "": both do. An end that has not followed yet looks established all the same, and
// what it owes the peer, such as a Delete, waits behind a request that cannot arrive. No connection is at rest so; it ends by the next packet from there, or in a dead peer.
func (c *conn) astray(all [][]ike.Status) string {
	for _, e := range c.ends {
		for _, m := range all[e.node.index] {
			if m.Connection != e.name() {
				continue
			}
			if !e.reaches(m.Path.Local.Addr(), m.Path.Remote) {
				return fmt.Sprintf("%s: IKE goes from %v to %v, where its peer is not: %s", e.node.name, m.Path.Local, m.Path.Remote, brief(m))
			}
			for _, ch := range m.Children {
				s := e.node.sad[ch.Out]
				to := netip.AddrPortFrom(s.ID.Dst, 0)
				if s.Encap != nil {
					to = netip.AddrPortFrom(s.ID.Dst, s.Encap.DstPort)
				}
				if !e.reaches(s.Src, to) {
					return fmt.Sprintf("%s: ESP of child %s goes from %v to %v, where its peer is not: %s", e.node.name, ch.Name, s.Src, to, brief(m))
				}
				if p := e.node.w.partner(e.node, s); p != nil && (p.Encap == nil) != (s.Encap == nil) {
					return fmt.Sprintf("%s: the ends do not agree whether ESP of child %s travels in UDP: %s", e.node.name, ch.Name, brief(m))
				}
			}
		}
	}
	return ""
}

// reaches reports whether what this end sends from one address to another leaves it and comes to its peer.
func (e *end) reaches(from netip.Addr, to netip.AddrPort) bool {
	n, _ := e.node.w.behind(to)
	return from == e.node.addr && n == e.other().node
}
