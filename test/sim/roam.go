package sim

import (
	"net/netip"
	"time"

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
