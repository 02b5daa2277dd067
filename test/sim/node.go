package sim

import (
	"hash/fnv"
	"net/netip"
	"time"

	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
	"cygnet/xfrm/ledger"
	"cygnet/xfrm/xfrmfake"
)

// node is a gateway: a host with its data plane, and the daemon on it while that lives.
type node struct {
	w     *world
	index int
	name  string
	addr  netip.Addr
	nat   *nat // that it sits behind, or nil
	moves int  // how often its address has changed
	conns []*end

	asMeant *policy.Snapshot
	liar    *liar // holds keys and does not keep to the RFC; nil: it does

	driver *xfrmfake.Driver
	sad    map[xfrm.SAID]*said // what the driver holds, with its outer addresses and key digests
	spd    map[xfrm.Slot]xfrm.Policy
	fading map[xfrm.SAID]ike.Time // inbound SAs that no child has any more, and since when

	// Of the daemon:
	alive     bool
	life      int // number of its present life: events of an earlier one are void
	snapshot  *policy.Snapshot
	hashKey   [16]byte
	shards    []*loop
	directory *directory.Directory
	dirBox    box
	dirAlarm  alarm
	plane     *plane
	protects  map[guarded]bool // children whose selectors must not be in clear
	pressed   bool
}

// loop is a shard and its mailbox.
type loop struct {
	shard   *shard.Shard
	box     box
	alarm   alarm
	actions []shard.Action
}

// box is a mailbox: what is put in comes out in order, a little later.
type box struct {
	last    ike.Time
	waiting int
}

// alarm is the one timer of a loop.
type alarm struct {
	at  ike.Time
	set bool
}

func newNode(w *world, name string, addr netip.Addr) *node {
	n := &node{w: w, index: len(w.nodes), name: name, addr: addr, sad: make(map[xfrm.SAID]*said), spd: make(map[xfrm.Slot]xfrm.Policy), fading: make(map[xfrm.SAID]ike.Time)}
	n.driver = xfrmfake.New()
	n.driver.SetClock(n.seconds)
	w.nodes = append(w.nodes, n)
	return n
}

// seconds is the host's wall clock.
func (n *node) seconds() int64 { return int64(time.Duration(n.w.now) / time.Second) }

// after has f run in this life of the daemon.
func (n *node) after(d time.Duration, f func()) {
	life := n.life
	n.w.after(d, func() {
		if n.alive && n.life == life {
			f()
		}
	})
}

// post puts f into a mailbox.
func (n *node) post(b *box, f func()) {
	at := max(n.w.now.Add(n.w.hop()), b.last)
	b.last = at
	b.waiting++
	n.after(at.Sub(n.w.now), func() {
		b.waiting--
		f()
	})
}

// hop is how long a message between goroutines takes: in bad times a goroutine is not run for a while.
func (w *world) hop() time.Duration {
	if w.wild && w.chance(w.weather.stall) {
		w.saw("stall")
		return w.between(time.Millisecond, 80*time.Millisecond)
	}
	return time.Duration(w.rng.Int64N(int64(50 * time.Microsecond)))
}

// boot starts the daemon as Daemon.Run does: first what protects, then the repair of what an earlier life left, then everything else.
func (n *node) boot(snap *policy.Snapshot) {
	w := n.w
	n.alive, n.snapshot = true, snap
	n.life++
	rand := entropy{w}
	rand.Read(n.hashKey[:])
	n.shards = nil
	count := 1 + w.rng.IntN(2)
	for i := range count {
		n.shards = append(n.shards, &loop{shard: shard.New(shard.Config{
			Index: i, Count: count, HashKey: n.hashKey, Rand: rand, Snapshot: snap, Caps: n.driver.Capabilities(),
		})})
	}
	n.directory = directory.New(rand)
	n.dirBox, n.dirAlarm, n.pressed = box{}, alarm{}, false
	n.plane = &plane{n: n, ledger: ledger.New(), spis: make(map[xfrm.Owner]wire.SPI), usage: make(map[wire.SPI]map[xfrm.SAID]uint64)}
	n.plane.direct = true
	n.directoryTurn(directory.Load{Snapshot: snap})
	n.plane.direct = false
	n.plane.repair()
	n.noteProtected()
}

// crash ends the daemon at once. The host's data plane stays as it is.
func (n *node) crash() {
	n.alive = false
	n.life++
	n.driver.Close()
	n.w.watch.died(n)
}

// restart boots again over what the data plane holds.
func (n *node) restart(snap *policy.Snapshot) {
	n.driver = n.driver.Reopen()
	n.driver.SetClock(n.seconds)
	n.boot(snap)
}

// reload puts another configuration in force, as Daemon.Reload does.
func (n *node) reload(snap *policy.Snapshot) {
	still := guardedBy(snap)
	for g := range n.protects {
		if !still[g] {
			delete(n.protects, g)
		}
	}
	n.snapshot = snap
	for _, l := range n.shards {
		n.post(&l.box, func() { n.turn(l, shard.Reload{Snapshot: snap}) })
	}
	n.post(&n.dirBox, func() {
		n.directoryTurn(directory.Load{Snapshot: snap})
		n.post(&n.plane.box, func() {
			if n.snapshot == snap {
				n.noteProtected()
			}
		})
	})
}

// guarded names a child whose packets leave encrypted or not at all, from load to unload of the configuration.
type guarded struct{ connection, child string }

func guardedBy(snap *policy.Snapshot) map[guarded]bool {
	m := make(map[guarded]bool)
	for _, c := range snap.Connections {
		for _, ch := range c.Children {
			if c.Drop && c.Start != policy.StartManual {
				m[guarded{c.Name, ch.Name}] = true
			}
		}
	}
	return m
}

// noteProtected: the claims of the snapshot in force stand.
func (n *node) noteProtected() {
	n.protects = guardedBy(n.snapshot)
	n.w.watch.covered(n)
}

// receive routes a datagram to its shard, as Daemon.receive does.
func (n *node) receive(p ike.Packet) {
	h, err := wire.ParseHeader(p.Data)
	if err != nil {
		return
	}
	n.turn(n.shards[shard.Route(h, p.Remote.Addr().String(), len(n.shards), n.hashKey)], shard.Packet{Packet: p})
}

// loopOf finds the shard of our SPI.
func (n *node) loopOf(spi wire.SPI) *loop {
	h := wire.Header{SPIi: 1, SPIr: spi, Exchange: wire.Informational, Flags: wire.FlagInitiator}
	return n.shards[shard.Route(h, "", len(n.shards), n.hashKey)]
}

// tell delivers an event to the machine with our SPI.
func (n *node) tell(spi wire.SPI, ev ike.Event) {
	l := n.loopOf(spi)
	n.post(&l.box, func() { n.turn(l, shard.ForSA{SPI: spi, Event: ev}) })
}

// turn is one Step of a shard and the carrying out of what it asked.
func (n *node) turn(l *loop, ev shard.Event) {
	l.shard.Step(n.w.now, ev, &l.actions)
	for _, a := range l.actions {
		n.do(a.SPI, a.Action)
	}
	clear(l.actions)
	l.actions = l.actions[:0]
	n.w.watch.bounded(n, l.shard)
	n.arm(&l.alarm, func() (ike.Time, bool) { return l.shard.Deadline() }, func() { n.turn(l, shard.Wake{}) })
}

// arm sets a loop's timer to its deadline.
func (n *node) arm(a *alarm, deadline func() (ike.Time, bool), ring func()) {
	at, ok := deadline()
	if !ok || a.set && a.at <= at {
		return // an alarm that is too early looks again when it rings
	}
	a.at, a.set = at, true
	late := time.Duration(n.w.rng.Int64N(int64(time.Millisecond)))
	n.after(max(at.Sub(n.w.now), 0)+late, func() {
		if !a.set || a.at != at {
			return
		}
		a.set = false
		if due, ok := deadline(); ok && due <= n.w.now {
			ring()
			if due, ok := deadline(); ok && due <= n.w.now {
				n.w.fail(Panic, "%s: a deadline that is over does not go by Wake: the daemon would spin", n.name)
			}
			return
		}
		n.arm(a, deadline, ring)
	})
}

// do carries out an action of a machine.
func (n *node) do(spi wire.SPI, action ike.Action) {
	w := n.w
	switch a := action.(type) {
	case ike.Send:
		w.watch.sent(n, spi, a)
		if w.wild && spi != 0 && w.chance(w.weather.unsent) {
			w.saw("not sent by the host")
			fault := pick(w, ike.SendRefused, ike.SendRefused, ike.SendNoSource, ike.SendNoRoute)
			n.tell(spi, ike.SendFailed{Path: a.Path, Fault: fault, Err: errRefused})
			return
		}
		w.send(n, a.Path, w.lie(n, a.Path, a.Data))
	case ike.Keepalive:
		w.keepalive(n, a.Path)
	case ike.Job:
		n.job(spi, a)
	case ike.Resolve:
		done := n.resolve(a)
		n.after(w.between(0, 300*time.Millisecond), func() { n.tell(spi, done) })
	case ike.SADB:
		n.post(&n.plane.box, func() { n.plane.batch(spi, a) })
	case ike.UsageQuery:
		n.post(&n.plane.box, func() { n.plane.usageOf(spi, a) })
	case shard.Opened:
		n.toDirectory(directory.Opened{Connection: a.Connection, SPI: spi})
	case ike.Claim:
		n.moveWhileTwo(a.Connection)
		n.toDirectory(directory.Claimed{SPI: spi, Claim: a})
	case ike.Adopt:
		if a.Inherits {
			w.saw("IKE SA rekeyed")
		}
		n.adopt(spi, a)
	case ike.Moved:
		n.toDirectory(directory.Moved{SPI: spi, Moved: a})
	case ike.Reauthenticate:
		w.saw("reauthentication")
		n.toDirectory(directory.Reauthenticate{SPI: spi})
	case ike.Report:
		n.report(spi, a)
	case ike.Finish:
		w.watch.text(n, a.Text)
		w.story(n, "finish %016x %s: %s: %s", uint64(spi), a.Connection, a.Code, a.Text)
		if spi != 0 {
			n.post(&n.plane.box, func() { n.plane.finish(spi) })
		}
		n.toDirectory(directory.Finished{SPI: spi, Finish: a})
	default:
		w.fail(Panic, "a machine asked for %T, which the simulation does not know", a)
	}
}

func (n *node) toDirectory(ev directory.Event) {
	n.post(&n.dirBox, func() { n.directoryTurn(ev) })
}

// job computes at once and gives the result later. A pool past its bound drops a job, of which a machine hears only when its IKE SA is up.
func (n *node) job(spi wire.SPI, a ike.Job) {
	w := n.w
	if w.wild && w.chance(w.weather.jobLost) {
		w.saw("job lost")
		if a.Class == ike.JobEstablished { // refused at once, or failed when its turn came
			n.after(w.between(0, 3*time.Second), func() { n.tell(spi, ike.JobDone{Token: a.Token}) })
		}
		return
	}
	took := w.between(100*time.Microsecond, 3*time.Millisecond)
	if w.wild && w.chance(w.weather.slowJob) {
		w.saw("slow job")
		took = w.between(10*time.Millisecond, 3*time.Second)
	}
	n.after(took, func() { n.tell(spi, ike.JobDone{Token: a.Token, Result: a.Run()}) })
}

// resolve answers as the host's resolver would: names are "peer name's" addresses, with dead ones before them at times.
func (n *node) resolve(a ike.Resolve) ike.ResolveDone {
	w := n.w
	done := ike.ResolveDone{Token: a.Token, Local: n.addr}
	if w.wild && w.chance(w.weather.noName) {
		w.saw("name not found")
		done.Err = errNoName
		return done
	}
	if a.Remote.IsValid() {
		done.Remote = []netip.Addr{a.Remote}
		return done
	}
	for _, c := range n.conns {
		if c.other().hostName() == a.Name {
			if w.wild && w.chance(0.2) {
				w.saw("dead address first")
				done.Remote = append(done.Remote, netip.MustParseAddr("192.0.2.99"))
			}
			done.Remote = append(done.Remote, c.other().node.addr)
		}
	}
	return done
}

type simError string

func (e simError) Error() string { return string(e) }

const (
	errNoName  = simError("no such name")
	errRefused = simError("no buffer space available")
)

// report passes children's ups and downs on to the directory.
func (n *node) report(spi wire.SPI, r ike.Report) {
	switch r.Code {
	case ike.CodeChildUp, ike.CodeRekeyed:
		if r.Code == ike.CodeRekeyed {
			n.w.saw("child rekeyed")
			n.w.aroundRekey(n, r.Connection, r.Child)
		}
		n.toDirectory(directory.ChildUp{SPI: spi, Connection: r.Connection, Child: r.Child})
	case ike.CodeChildDown:
		n.toDirectory(directory.ChildDown{SPI: spi, Connection: r.Connection, Child: r.Child})
	case ike.CodeInternal:
		if n.w.watch.internal(r.Text) {
			n.w.fail(Panic, "%s: an internal error: %s", n.name, r.Text)
		}
	}
	switch {
	case r.Code.Failure() && r.Child != "":
		n.toDirectory(directory.ChildFailed{SPI: spi, Child: r.Child, Text: r.Text})
	case r.Caller != "":
		n.toDirectory(directory.CallerRefused{Connection: r.Caller, Code: r.Code, Text: r.Text})
	}
	n.w.story(n, "%016x %s %s: %s: %s", uint64(spi), r.Connection, r.Child, r.Code, r.Text)
	n.w.mix(uint64(spi))
	mixText(n.w, string(r.Code))
	n.w.watch.text(n, r.Text)
	n.w.watch.text(n, r.Detail)
	n.w.watch.text(n, r.Hint)
}

// directoryTurn is one Step of the directory and the carrying out of what it asked.
func (n *node) directoryTurn(ev directory.Event) {
	var actions []directory.Action
	n.directory.Step(n.w.now, ev, &actions)
	for _, a := range actions {
		n.directed(a)
	}
	n.arm(&n.dirAlarm, n.directory.Deadline, func() { n.directoryTurn(directory.Wake{}) })
}

func (n *node) directed(action directory.Action) {
	switch a := action.(type) {
	case directory.Start:
		l := n.home(a.Connection)
		n.w.story(n, "start %s %v, initial contact %v", a.Connection, a.Children, a.InitialContact)
		n.post(&l.box, func() {
			n.turn(l, shard.Open{Connection: a.Connection, Children: a.Children, InitialContact: a.InitialContact})
		})
	case directory.Tell:
		n.w.story(n, "the directory tells %016x: %T %+v", uint64(a.SPI), a.Event, a.Event)
		n.tell(a.SPI, a.Event)
	case directory.Claims:
		n.plane.claims(a.Owner, a.Batch)
	case directory.Release:
		n.post(&n.plane.box, func() { n.plane.release(a.Owner) })
	case directory.Close:
		for _, l := range n.shards {
			n.post(&l.box, func() { n.turn(l, shard.Close{Connection: a.Connection, Closed: a.Closed}) })
		}
	case directory.Report:
		n.w.story(n, "directory: %s: %s", a.Connection, a.Text)
		n.w.watch.text(n, a.Text)
	default:
		n.w.fail(Panic, "the directory asked for %T, which the simulation does not know", a)
	}
}

// home is the shard that opens a connection.
func (n *node) home(connection string) *loop {
	h := fnv.New32a()
	h.Write([]byte(connection))
	return n.shards[int(h.Sum32()%uint32(len(n.shards)))]
}

// machines lists all IKE SAs.
func (n *node) machines() (list []ike.Status) {
	if !n.alive {
		return nil
	}
	for _, l := range n.shards {
		list = append(list, l.shard.Status()...)
	}
	return list
}
