package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cygnet/ike/directory"
	"cygnet/policy"
)

// cookieThreshold is low, so that a small flood reaches it.
const cookieThreshold = 12

// setUp draws the nodes and their connections.
func (w *world) setUp() {
	w.calm = w.chance(0.12) && !w.opt.Impaired
	if w.rekeys = w.opt.Rekey && (w.chance(0.4) || w.opt.Impaired); w.rekeys {
		w.saw("short lifetimes")
	}
	six := w.chance(0.15)
	public := func(v4, v6 string) netip.Addr {
		if six {
			w.saw("IPv6 outside")
			return netip.MustParseAddr(v6)
		}
		return netip.MustParseAddr(v4)
	}
	gw := newNode(w, "gw", public("192.0.2.1", "2001:db8::1"))
	w.at[gw.addr] = gw
	peers := 1
	if w.chance(0.3) {
		w.saw("three nodes")
		peers = 2
	}
	for i := range peers {
		if !six && w.chance(0.35) {
			w.behindNAT(i)
			continue
		}
		n := newNode(w, fmt.Sprintf("p%d", i+1), public(fmt.Sprintf("198.51.100.%d", 7+i), fmt.Sprintf("2001:db8:7::%d", 7+i)))
		w.at[n.addr] = n
	}
	for _, peer := range w.nodes[1:] {
		w.connect(gw, peer)
	}
	w.drawFragments()
	w.drawNarrow()
	if !w.calm {
		w.drawWeather()
		if w.chance(0.15) || w.opt.Impaired {
			w.impair()
		}
	}
	for _, n := range w.nodes {
		w.after(w.between(0, 3*time.Second), func() { n.boot(n.plain()) })
	}
}

// behindNAT puts a node behind a NAT: its own, or the one that is there.
func (w *world) behindNAT(i int) {
	w.saw("NAT")
	n := newNode(w, fmt.Sprintf("p%d", i+1), netip.AddrFrom4([4]byte{10, 9, 0, byte(5 + i)}))
	if len(w.nats) == 0 || w.chance(0.5) {
		x := &nat{w: w, addr: netip.AddrFrom4([4]byte{203, 0, 113, byte(10 + 100*i)}), idle: w.between(22*time.Second, 90*time.Second),
			next: 20000, mapping: make(map[netip.AddrPort]*mapped)}
		w.nats = append(w.nats, x)
		w.natAt[x.addr] = x
	} else {
		w.saw("two peers behind one NAT")
	}
	n.nat = w.nats[len(w.nats)-1]
	n.nat.nodes = append(n.nat.nodes, n)
}

// connect draws a connection.
func (w *world) connect(gw, peer *node) {
	c := &conn{
		w: w, number: len(w.conns), children: 1 + w.rng.IntN(3), psk: fmt.Sprintf("%016x correct horse", w.rng.Uint64()), want: w.chance(0.85),
		ike: pick(w, "aes256gcm16-prfsha256-x25519", "aes128gcm16-prfsha512-x25519", "aes256-sha256-x25519", "chacha20poly1305-prfsha256-x25519", "aes256gcm16-prfsha384-ecp256-x25519"),
		esp: pick(w, "aes256gcm16", "aes128gcm16-esn", "aes256-sha256", "chacha20poly1305", "aes256gcm16, aes128-sha256"),
		pfs: pick(w, "no", "yes", "prefer", "x25519", "x25519"),
	}
	for range c.children {
		c.protos = append(c.protos, pick(w, "", "", "", "[tcp/443]", "[udp]"))
	}
	for side, n := range []*node{gw, peer} {
		e := &end{
			conn: c, node: n, side: side, extras: w.chance(0.2), encap: w.chance(0.15), byName: w.chance(0.2),
			start: pick(w, policy.StartBoot, policy.StartBoot, policy.StartTraffic, policy.StartManual),
			idle:  pick(w, 3*time.Second, 8*time.Second, 30*time.Second, 60*time.Second), tries: 2 + w.rng.IntN(4), wait: pick(w, 500*time.Millisecond, time.Second, 4*time.Second),
		}
		c.ends[side] = e
		n.conns = append(n.conns, e)
	}
	if peer.nat != nil || w.roams() { // the gateway cannot call
		e := c.ends[0]
		e.any, e.byName, e.start = true, false, policy.StartManual
		if w.chance(0.4) { // silence that only keepalives break
			c.ends[0].idle, c.ends[1].idle = time.Minute, time.Minute
		}
	}
	for _, e := range c.ends {
		switch e.start {
		case policy.StartTraffic:
			e.drop = true
		default:
			e.drop = w.chance(0.6)
		}
		w.saw("start " + string(e.start))
	}
	if w.rekeys {
		c.drawLifetimes()
	}
	w.conns = append(w.conns, c)
}

// drawWeather chooses which faults a run has, and how bad they are.
func (w *world) drawWeather() {
	some := func(most float64) float64 {
		if w.chance(0.4) {
			return 0
		}
		return w.rng.Float64() * most
	}
	w.weather = weather{
		loss: some(0.35), duplicate: some(0.3), corrupt: some(0.1), reorder: some(0.3), late: w.between(50*time.Millisecond, 4*time.Second),
		stall: some(0.1), slowJob: some(0.1), jobLost: some(0.05), noName: some(0.3), unsent: some(0.03), down: w.between(10*time.Millisecond, 15*time.Second),
	}
}

// Phases of a run.
const (
	settleMost = 700 * time.Second // T of the seventh invariant: dead peer detection, back-off and the last try, one after the other
	settleHold = 15 * time.Second  // for so long what was reached must stay
	calmTime   = 40 * time.Second
	// restartMost: both ends may begin at once, so that duplicates are settled too; less than it takes to find a peer dead by silence.
	restartMost = 40 * time.Second
	renewalMost = 90 * time.Second // on a clean link no rekey waits for the silence of anybody
)

// play runs the phases: faults, quiet, checks, taking down.
func (w *world) play() {
	if w.calm {
		w.saw("calm")
		w.calmRun()
	} else {
		w.wild = true
		length := w.between(5*time.Second, 40*time.Second)
		if w.opt.Impaired {
			length = 40 * time.Second
		}
		w.plan(length)
		w.plainTraffic(length)
		w.runUntil(epoch.Add(length))
		w.wild = false
		w.endFaults()
	}
	w.settle(settleMost)
	w.probeAll()
	if w.rekeys {
		w.renewals()
	}
	if len(w.nats) > 0 {
		w.quietNATs()
	}
	if w.calm {
		w.quietRestart()
	}
	w.takeDown()
}

// calmRun: nothing goes wrong, and no packet is lost from the moment on when both ends are up.
func (w *world) calmRun() {
	w.runUntil(epoch.Add(3500 * time.Millisecond)) // all have booted
	for _, c := range w.conns {
		c.want = true
		w.raise(c)
	}
	w.clean = true
	for at := 5 * time.Second; at < calmTime; at += w.between(200*time.Millisecond, 3*time.Second) {
		w.after(at, func() {
			c := pick(w, w.conns...)
			w.probe(c, w.rng.IntN(c.children), w.rng.IntN(2), true)
		})
	}
	w.runUntil(w.now.Add(calmTime))
	w.clean = false
}

// endFaults: hosts are up, configurations as they were, and the operators say what they want.
func (w *world) endFaults() {
	w.heal()
	for _, n := range w.nodes {
		n.driver.LoseEvents(false)
		n.drain()
		if !n.alive {
			n.restart(n.plain())
		}
		if n.pressed {
			n.pressure(false)
		}
		n.reload(n.plain())
	}
	w.runUntil(w.now.Add(10 * time.Second)) // what is still on its way has come
	for _, c := range w.conns {
		if c.want {
			w.raise(c)
		} else {
			w.lowerConn(c)
		}
	}
}

// raise: at least one end wants the connection, and none refuses it.
func (w *world) raise(c *conn) {
	one := false
	for _, e := range c.ends {
		boot := e.start == policy.StartBoot && e.canStart()
		up := boot || e.start == policy.StartTraffic && e.canStart() || w.chance(0.5)
		if up && e.canStart() || e.closed() {
			e.command(directory.Up{Connection: e.name()})
			one = one || e.canStart()
		}
	}
	for _, e := range c.ends {
		if !one && e.canStart() {
			e.command(directory.Up{Connection: e.name()})
			one = true
		}
	}
}

func (w *world) lowerConn(c *conn) {
	for _, e := range c.ends {
		e.command(directory.Down{Connection: e.name()})
	}
}

// closed: an operator took it down there, and the peer would be refused.
func (e *end) closed() bool {
	return slices.ContainsFunc(e.node.directory.Status(), func(s directory.ConnStatus) bool { return s.Name == e.name() && s.Closed })
}

// command is the operator's, by ikectl.
func (e *end) command(ev directory.Event) {
	if e.node.alive {
		e.node.w.story(e.node, "command %T %+v", ev, ev)
		e.node.toDirectory(ev)
	}
}

// settle waits until all is as wanted and stays so. Where lifetimes are short it is not so in the midst of each rekey, but between them.
func (w *world) settle(most time.Duration) {
	end, since, hold := w.now.Add(most), ike0, settleHold
	if w.rekeys {
		hold = 2 * time.Second
	}
	for {
		w.runUntil(w.now.Add(time.Second))
		why := w.unsettled()
		switch {
		case why != "" && w.now >= end:
			w.fail(Liveness, "%v after the faults stopped: %s", most, why)
		case why != "":
			since = ike0
		case since == ike0:
			since = w.now
		case w.now.Sub(since) >= hold:
			return
		}
	}
}

// renewals: where lifetimes are short no packet is lost across the rekeys, and all comes to rest between them, again and again.
func (w *world) renewals() {
	w.clean = true
	for range 3 {
		for range 20 {
			w.after(w.between(0, 30*time.Second), func() {
				c := pick(w, w.conns...)
				w.probe(c, w.rng.IntN(c.children), w.rng.IntN(2), c.want)
			})
		}
		w.runUntil(w.now.Add(30 * time.Second))
		w.settle(renewalMost)
	}
	w.clean = false
	w.runUntil(w.now.Add(500 * time.Millisecond)) // what is on its way has come
}

// quietNATs: on a clean link a mapping is kept alive while nothing is sent, and one that moves is followed by the first packet from there.
func (w *world) quietNATs() {
	behind := func(f func(c *conn, k int)) {
		for _, c := range w.conns {
			for k := range c.children {
				if c.ends[1].node.nat != nil {
					f(c, k)
				}
			}
		}
		w.runUntil(w.now.Add(300 * time.Millisecond))
	}
	inward := func(c *conn, k int) { w.probe(c, k, 0, c.want) }
	outward := func(c *conn, k int) { w.probe(c, k, 1, c.want) }
	w.runUntil(w.now.Add(45 * time.Second))
	behind(inward)
	for _, x := range w.nats {
		x.rebind()
	}
	behind(outward)
	behind(outward) // what was on its way from the old mapping may have moved it back: the next packet counts
	behind(inward)
	w.settle(settleMost)
}

// quietRestart: a daemon dies on a clean link and comes back. It says that it began anew, so that nobody waits for the old IKE SA to be found dead.
func (w *world) quietRestart() {
	n := w.anyNode()
	n.crash()
	n.restart(n.plain())
	w.runUntil(w.now.Add(time.Second))
	for _, e := range n.conns {
		if e.canStart() {
			e.command(directory.Up{Connection: e.name()})
		}
	}
	callable := !slices.ContainsFunc(n.conns, func(e *end) bool { return !e.canStart() })
	most := settleMost
	if callable && !w.rekeys { // with rekeys it comes to rest less often
		most = restartMost
	}
	w.settle(most)
	w.probeAll()
}

// takeDown lowers everything, unloads the configurations, and looks whether anything is left.
func (w *world) takeDown() {
	for _, c := range w.conns {
		w.lowerConn(c)
	}
	w.runUntil(w.now.Add(time.Second))
	if w.chance(0.5) {
		w.runUntil(w.now.Add(40 * time.Second))
	}
	empty := &policy.Snapshot{Daemon: w.nodes[0].snapshot.Daemon}
	for _, n := range w.nodes {
		n.reload(empty)
	}
	w.runUntil(w.now.Add(45 * time.Second)) // half-open IKE SAs live for 30 s
	if w.rekeys {
		w.runUntil(w.now.Add(4 * time.Minute)) // what is left over from rekeys that collided
	}
	w.nothingLeft()
}
