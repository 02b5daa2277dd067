package sim

import (
	"fmt"
	"time"

	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/xfrm"
)

// plan scatters faults and commands over the fault period.
func (w *world) plan(length time.Duration) {
	kinds := []func(){
		w.crashOne, w.crashOne, w.partition, w.rebindOne, w.refuseOne, w.refuseOne, w.loseEvents, w.dropSA, w.hardExpire,
		w.operator, w.operator, w.operator, w.reloadOne, w.press, w.rekeyNow, w.dieInBatch,
		w.forge, w.forge, w.forge, w.forge, w.flood,
	}
	for range w.rng.IntN(24) {
		w.after(w.between(0, length), kinds[w.rng.IntN(len(kinds))])
	}
	w.planRoams(length)
}

// plainTraffic sends packets now and then.
func (w *world) plainTraffic(length time.Duration) {
	for range w.rng.IntN(30) {
		w.after(w.between(0, length), func() {
			c := pick(w, w.conns...)
			w.probe(c, w.rng.IntN(c.children), w.rng.IntN(2), false)
		})
	}
}

func (w *world) anyNode() *node { return pick(w, w.nodes...) }

func (w *world) crashOne() {
	if n := w.anyNode(); n.alive {
		w.saw("crash")
		w.crashFor(n, w.between(0, w.weather.down))
	}
}

// crashFor ends a daemon; another comes after a while over what the data plane holds.
func (w *world) crashFor(n *node, d time.Duration) {
	w.story(n, "crashes")
	n.crash()
	life := n.life
	w.after(d, func() {
		if !n.alive && n.life == life && len(n.conns) > 0 {
			w.story(n, "boots again")
			n.restart(n.plain())
		}
	})
}

// partition cuts a node off.
func (w *world) partition() {
	n := w.anyNode()
	d := w.between(time.Second, 30*time.Second)
	w.story(n, "cut off for %v", d)
	w.cut[n.index] = w.now.Add(d)
}

func (w *world) rebindOne() {
	if len(w.nats) > 0 {
		x := pick(w, w.nats...)
		x.rebind()
		w.story(x.nodes[0], "its NAT rebinds: %v", x.addr)
	}
}

// refuseOne has the kernel refuse an op of the next batch of some machine.
func (w *world) refuseOne() {
	if n := w.anyNode(); n.alive {
		n.plane.refuse, n.plane.exists = 1+w.rng.IntN(6), w.chance(0.4)
		w.story(n, "op %d of the next batch will be refused", n.plane.refuse)
	}
}

// dieInBatch kills the daemon between two ops.
func (w *world) dieInBatch() {
	if n := w.anyNode(); n.alive {
		n.plane.dies = 1 + w.rng.IntN(10)
	}
}

// loseEvents: the kernel's event queue overflows; a Gap tells so when there is room again.
func (w *world) loseEvents() {
	n := w.anyNode()
	n.driver.LoseEvents(true)
	w.story(n, "loses events")
	w.after(w.between(time.Millisecond, 10*time.Second), func() {
		n.driver.LoseEvents(false)
		n.drain()
	})
}

// anySA picks an SA that a node's driver holds, oldest first so that the choice depends on the seed alone.
func (n *node) anySA() (xfrm.SAID, bool) {
	ids := n.heldSAs()
	if len(ids) == 0 {
		return xfrm.SAID{}, false
	}
	return pick(n.w, ids...), true
}

// dropSA: another program deletes an SA, and the driver's events about it are lost, so that only a comparison finds it.
func (w *world) dropSA() {
	n := w.anyNode()
	id, ok := n.anySA()
	if !ok || !n.alive {
		return
	}
	w.story(n, "loses %v", id)
	n.lose(id)
	n.driver.LoseEvents(true)
	n.driver.Raise(xfrm.Expire{ID: id, Hard: true})
	n.driver.LoseEvents(false)
	n.drain()
}

// hardExpire: the kernel's safety net ends an SA.
func (w *world) hardExpire() {
	n := w.anyNode()
	id, ok := n.anySA()
	if !ok || !n.alive {
		return
	}
	w.saw("hard expire")
	w.story(n, "%v expires", id)
	n.lose(id)
	n.driver.Raise(xfrm.Expire{ID: id, Hard: true})
	n.drain()
}

func (n *node) lose(id xfrm.SAID) {
	n.driver.Lose(id)
	delete(n.sad, id)
}

// operator gives an order.
func (w *world) operator() {
	e := pick(w, w.conns...).ends[w.rng.IntN(2)]
	child := childName(w.rng.IntN(e.conn.children))
	w.saw("command")
	switch w.rng.IntN(5) {
	case 0, 1:
		e.command(directory.Up{Connection: e.name()})
	case 2:
		e.command(directory.Up{Connection: e.name(), Children: []string{child}})
	case 3:
		e.command(directory.Down{Connection: e.name()})
	case 4:
		w.saw("child lowered")
		e.command(directory.Down{Connection: e.name(), Child: child})
	}
}

// reloadOne changes a connection, and perhaps changes it back.
func (w *world) reloadOne() {
	e := pick(w, w.conns...).ends[w.rng.IntN(2)]
	if !e.node.alive {
		return
	}
	v := variant(w.rng.IntN(int(variants)))
	w.saw("reload: " + v.String())
	w.story(e.node, "reloads %s %v", e.name(), v)
	e.node.reload(e.node.configuration(e, v))
}

// rekeyNow is the operator's wish for new keys, at one end or at both at once.
func (w *world) rekeyNow() {
	c := pick(w, w.conns...)
	ev := ike.Rekey{IKE: w.chance(0.5)}
	if !ev.IKE && w.chance(0.5) {
		ev.Child = childName(w.rng.IntN(c.children))
	}
	both := w.chance(0.5)
	for side, e := range c.ends {
		if side == 1 && !both {
			break
		}
		for _, m := range e.node.machines() {
			if m.Connection == e.name() && m.Phase == "established" {
				w.saw("rekey by command")
				spi := m.SPIr
				if m.Initiated {
					spi = m.SPIi
				}
				w.story(e.node, "command %+v", ev)
				e.node.tell(spi, ev)
			}
		}
	}
}

// press: the pool's queue for new IKE SAs is full for a while, so that everyone is asked for a COOKIE.
func (w *world) press() {
	n := w.anyNode()
	if !n.alive || n.pressed {
		return
	}
	w.saw("pressure")
	n.pressure(true)
	n.after(w.between(time.Second, 10*time.Second), func() { n.pressure(false) })
}

func (n *node) pressure(full bool) {
	n.pressed = full
	n.w.story(n, "pressure %v", full)
	for _, l := range n.shards {
		n.post(&l.box, func() { n.turn(l, shard.Pressure{Full: full}) })
	}
}

// story is a line for the diagram's reader.
func (w *world) story(n *node, format string, args ...any) {
	if w.tap != nil {
		w.tap.line(w, n.name, fmt.Sprintf(format, args...))
	}
}
