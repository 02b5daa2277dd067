package sim

import (
	"net/netip"
	"slices"
	"time"

	"cygnet/ike"
)

// weather is how bad the links and hosts are during the fault period: chances, and the longest times.
type weather struct {
	loss, duplicate, corrupt, reorder float64
	late                              time.Duration // of a packet that is overtaken
	stall, slowJob, jobLost, noName   float64
	unsent                            float64
	down                              time.Duration // of a host after a crash
}

// packet is an IKE datagram on its way.
type packet struct {
	id       uint64
	from     *node // nil: the adversary's
	src, dst netip.AddrPort
	data     []byte
	what     string // "", or why it is not authentic
}

// genuine: it is as a node sent it.
func (p *packet) genuine() bool { return p.what == "" }

const ikePort, nattPort = 500, 4500

// send puts a datagram on the wire.
func (w *world) send(n *node, path ike.Path, data []byte) {
	if path.Local.Addr() != n.addr && n.moves > 0 { // its host no longer has the address
		return
	}
	if path.Local.Addr() != n.addr || path.Local.Port() != ikePort && path.Local.Port() != nattPort {
		w.fail(Panic, "%s sends from %v, which it does not have", n.name, path.Local)
	}
	mixText(w, data)
	w.keys.heard(data)
	w.number++
	p := &packet{id: w.number, from: n, src: path.Local, dst: path.Remote, data: data}
	if n.nat != nil {
		p.src = n.nat.outward(p.src)
	}
	w.keep(p)
	if f := w.flooded[p.dst.Addr()]; f != nil {
		f.answered(w, len(data))
		return
	}
	copies := 1
	if w.wild && w.chance(w.weather.duplicate) {
		w.saw("duplicate")
		copies = 2
	}
	for range copies {
		w.carryOne(p)
	}
}

// carryOne carries one copy.
func (w *world) carryOne(p *packet) {
	delay, ok := w.pass(p.from, p.dst.Addr())
	if !ok {
		w.tapped(p, "lost")
		return
	}
	if w.tooLarge(p) {
		w.saw("too large")
		w.tapped(p, "too large")
		return
	}
	if w.wild && w.chance(w.weather.corrupt) {
		w.saw("corrupt")
		p = &packet{id: p.id, from: p.from, src: p.src, dst: p.dst, data: w.mutate(p.data), what: "corrupted"}
	}
	w.after(delay, func() { w.arrive(p) })
}

// pass says whether and when something gets through.
func (w *world) pass(from *node, to netip.Addr) (time.Duration, bool) {
	delay := w.between(2*time.Millisecond, 15*time.Millisecond)
	if !w.wild {
		return delay, true
	}
	if w.parted(from, to) {
		w.saw("partition")
		return 0, false
	}
	if w.chance(w.weather.loss) {
		w.saw("loss")
		return 0, false
	}
	if w.chance(w.weather.reorder) {
		w.saw("reorder")
		delay += w.between(0, w.weather.late)
	}
	return delay, true
}

// parted: nothing gets through between a node that is cut off and others.
func (w *world) parted(from *node, to netip.Addr) bool {
	for _, n := range w.nodes {
		if w.now >= w.cut[n.index] {
			continue
		}
		outside := n.addr
		if n.nat != nil {
			outside = n.nat.addr
		}
		if from == n || to == outside {
			return true
		}
	}
	return false
}

// arrive delivers a datagram to whoever has its destination.
func (w *world) arrive(p *packet) {
	n, local := w.behind(p.dst)
	if n == nil || !n.alive {
		w.tapped(p, "nobody there")
		return
	}
	w.tapped(p, "")
	in := ike.Packet{Path: ike.Path{Local: local, Remote: p.src}, Data: slices.Clone(p.data)}
	if !p.genuine() {
		w.forged(n, p, in)
		return
	}
	w.watch.arrived(n, p.data)
	n.receive(in)
}

// behind finds the node of an outside address, and what its own address is.
func (w *world) behind(dst netip.AddrPort) (*node, netip.AddrPort) {
	if n := w.at[dst.Addr()]; n != nil {
		return n, dst
	}
	if x := w.natAt[dst.Addr()]; x != nil {
		return x.inward(dst)
	}
	return nil, dst
}

// keepalive is the one octet of RFC 3948: all it does is to keep a mapping.
func (w *world) keepalive(n *node, path ike.Path) {
	if n.nat != nil && path.Local.Addr() == n.addr {
		w.saw("keepalive")
		n.nat.outward(path.Local)
	}
}

// keep remembers genuine packets for the adversary, who sees the wire.
func (w *world) keep(p *packet) {
	const most = 24
	if len(w.recent) >= most {
		w.recent = slices.Delete(w.recent, 0, 1)
	}
	w.recent = append(w.recent, p)
}

// nat translates the addresses of the nodes behind it. Mappings do not depend on the destination; they go when nothing leaves for a while.
type nat struct {
	w       *world
	addr    netip.Addr
	nodes   []*node
	idle    time.Duration
	next    uint16
	mapping map[netip.AddrPort]*mapped // by inner address
}

type mapped struct {
	port uint16
	used ike.Time
}

// outward maps a source and keeps its mapping.
func (x *nat) outward(src netip.AddrPort) netip.AddrPort {
	m := x.mapping[src]
	if m == nil || x.w.now.Sub(m.used) > x.idle {
		if m != nil {
			x.w.saw("NAT mapping timed out")
		}
		m = &mapped{port: x.fresh()}
		x.mapping[src] = m
	}
	m.used = x.w.now
	return netip.AddrPortFrom(x.addr, m.port)
}

func (x *nat) fresh() uint16 {
	x.next += uint16(1 + x.w.rng.IntN(50))
	if x.next < 20000 {
		x.next = 20000
	}
	return x.next
}

// inward finds who has an outside port.
func (x *nat) inward(dst netip.AddrPort) (*node, netip.AddrPort) {
	for _, n := range x.nodes {
		for _, port := range [...]uint16{ikePort, nattPort} {
			inner := netip.AddrPortFrom(n.addr, port)
			if m := x.mapping[inner]; m != nil && m.port == dst.Port() && x.w.now.Sub(m.used) <= x.idle {
				return n, inner
			}
		}
	}
	return nil, dst
}

// rebind forgets all mappings, at times with another outside address.
func (x *nat) rebind() {
	x.w.saw("NAT rebinding")
	clear(x.mapping)
	if x.w.chance(0.4) {
		x.w.saw("NAT address change")
		delete(x.w.natAt, x.addr)
		a := x.addr.As4()
		a[3]++
		x.addr = netip.AddrFrom4(a)
		x.w.natAt[x.addr] = x
	}
}
