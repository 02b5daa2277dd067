package daemon

import (
	"fmt"
	"sync/atomic"
	"time"

	"cygnet/ike"
	"cygnet/ike/directory"
	"cygnet/ike/shard"
	"cygnet/ike/transport"
	"cygnet/ike/wire"
)

const (
	packetQueue = 2048 // IKE messages that wait for a shard
	firstQueue  = 4096 // first ones: at 20,000 a second those of some 200 ms for one shard, of 400 ms for two
	packetBurst = 64   // of those handled in one turn, so that answers and deadlines get theirs
)

// loop is the goroutine of one shard: it alone touches the shard. Packets come through bounded channels and are dropped when those are full; answers
// come through a mailbox and are never dropped. First messages, of which anyone can send any number, have a channel of their own: a flood of
// them takes no room from IKE SAs that exist, and of the turns only its share.
type loop struct {
	d       *Daemon
	shard   *shard.Shard
	packets chan ike.Packet
	firsts  chan ike.Packet // IKE_SA_INIT requests
	box     *mailbox[any]   // shard.Event, or func(*shard.Shard) to be run in the loop
	dropped atomic.Uint64
	actions []shard.Action
	unsent  wire.SPI // of this turn: the machine whose message the host did not send
}

func newLoop(d *Daemon, s *shard.Shard) *loop {
	return &loop{d: d, shard: s, packets: make(chan ike.Packet, packetQueue), firsts: make(chan ike.Packet, firstQueue), box: newMailbox[any]()}
}

// receive takes a packet from a receive loop of the transport.
func (l *loop) receive(h wire.Header, p ike.Packet) {
	queue := l.packets
	if h.Exchange == wire.IKESAInit && !h.Response() {
		queue = l.firsts
	}
	select {
	case queue <- p:
	default:
		l.dropped.Add(1)
	}
}

// tell delivers an event to the machine with our SPI.
func (l *loop) tell(spi wire.SPI, ev ike.Event) { l.box.put(shard.ForSA{SPI: spi, Event: ev}) }

// run handles events until the daemon's loops are told to end.
func (l *loop) run(alarm *alarm) {
	defer alarm.close()
	var mail []any
	for {
		select {
		case <-l.d.quit:
			return
		case <-l.box.signal:
			mail = l.box.take(mail)
			t := l.d.clock.now()
			for _, m := range mail {
				l.handle(t, m)
			}
		case p := <-l.packets:
			l.turnPackets(p, l.packets)
		case p := <-l.firsts:
			l.turnPackets(p, l.firsts)
		case <-alarm.C:
			alarm.rang()
			l.turn(l.d.clock.now(), shard.Wake{})
		}
		alarm.arm(l.shard.Deadline())
	}
}

func (l *loop) handle(t ike.Time, m any) {
	switch m := m.(type) {
	case shard.Event:
		l.turn(t, m)
	case func(*shard.Shard):
		m(l.shard)
	}
}

// turnPackets handles a packet and what waits behind it.
func (l *loop) turnPackets(p ike.Packet, queue <-chan ike.Packet) {
	t := l.d.clock.now()
	l.turn(t, shard.Packet{Packet: p})
	for range packetBurst - 1 {
		select {
		case p := <-queue:
			l.turn(t, shard.Packet{Packet: p})
		default:
			return
		}
	}
}

// turn is one Step and the carrying out of what it asked.
func (l *loop) turn(t ike.Time, ev shard.Event) {
	l.shard.Step(t, ev, &l.actions)
	for i, a := range l.actions {
		l.do(a.SPI, a.Action)
		l.actions[i] = shard.Action{} // packets and batches are not kept alive by the reused slice
	}
	l.actions, l.unsent = l.actions[:0], 0
}

// do carries out an action. Nothing here waits.
func (l *loop) do(spi wire.SPI, action ike.Action) {
	d := l.d
	switch a := action.(type) {
	case ike.Send:
		l.send(spi, a)
	case ike.Keepalive:
		d.noteSendError(d.transport.Keepalive(a.Path))
	case ike.Job:
		l.compute(spi, a)
	case ike.Resolve:
		d.resolver.ask(a, func(ev ike.ResolveDone) { l.tell(spi, ev) })
	case ike.Inquiry:
		d.inquirer.ask(a, func(ev ike.InquiryDone) { l.tell(spi, ev) })
	case ike.SADB:
		d.plane.box.put(batchOf{spi, a, func(ev ike.SADBDone) { l.tell(spi, ev) }})
	case ike.UsageQuery:
		d.plane.box.put(usageOf{spi, a, func(ev ike.UsageDone) { l.tell(spi, ev) }})
	case shard.Opened:
		d.directory.box.put(directory.Opened{Connection: a.Connection, SPI: spi})
	case ike.Claim:
		d.directory.box.put(directory.Claimed{SPI: spi, Claim: a})
	case ike.Adopt:
		if a.Inherits {
			d.plane.box.put(adoptOf{spi, a.SPI})
			d.directory.box.put(directory.Adopted{SPI: spi, Heir: a.SPI})
		}
	case ike.Moved:
		d.directory.box.put(directory.Moved{SPI: spi, Moved: a})
	case ike.Reauthenticate:
		d.directory.box.put(directory.Reauthenticate{SPI: spi})
	case ike.Report:
		l.report(spi, a)
	case ike.Finish:
		if spi != 0 { // 0: the shard could not even make a machine
			d.plane.box.put(finishOf{spi})
		}
		d.directory.box.put(directory.Finished{SPI: spi, Finish: a})
		d.tell(news{at: time.Now(), spi: spi, finish: &a})
	default:
		d.log.Errorf("a machine asked for %T, which this daemon does not know", a)
	}
}

// compute has the pool run a job. An IKE SA that is up hears at once when there is no room: its window is taken until it does, and what would show where its peer
// is now waits behind. Of those whose peer has proved nothing there may be very many, and they run into their deadline.
func (l *loop) compute(spi wire.SPI, a ike.Job) {
	done := func(result any) { l.tell(spi, ike.JobDone{Token: a.Token, Result: result}) }
	if !l.d.pool.add(a.Class, job{a.Run, done}) && a.Class == ike.JobEstablished {
		done(nil)
	}
}

// send tells the machine when the host did not send its message.
func (l *loop) send(spi wire.SPI, a ike.Send) {
	err := l.d.transport.Send(a.Path, a.Data)
	l.d.noteSendError(err)
	if err != nil && spi != 0 {
		l.unsent = spi
		l.tell(spi, ike.SendFailed{Path: a.Path, Fault: transport.FaultOf(a.Local.Addr(), err), Err: err})
	}
}

// report passes a line of the story on; children's ups and downs also concern the directory. What was not sent is not told as sent: why
// follows at once.
func (l *loop) report(spi wire.SPI, r ike.Report) {
	if r.Code == ike.CodeSent && spi == l.unsent && spi != 0 {
		return
	}
	switch r.Code {
	case ike.CodeChildUp, ike.CodeRekeyed:
		l.d.directory.box.put(directory.ChildUp{SPI: spi, Connection: r.Connection, Child: r.Child})
	case ike.CodeChildDown:
		l.d.directory.box.put(directory.ChildDown{SPI: spi, Connection: r.Connection, Child: r.Child})
	}
	switch {
	case r.Code.Failure() && r.Child != "":
		l.d.directory.box.put(directory.ChildFailed{SPI: spi, Child: r.Child, Text: r.Text})
	case r.Connection != "" && refusesChild(r.Code): // of ours it says which child
		l.d.directory.box.put(directory.RequestRefused{SPI: spi, Text: r.Text})
	case r.Caller != "":
		l.d.directory.box.put(directory.CallerRefused{Connection: r.Caller, Code: r.Code, Text: r.Text})
	}
	l.d.tell(news{at: time.Now(), spi: spi, report: r})
}

// refusesChild: without a child's name such a report tells of a child that the peer asked for.
func refusesChild(c ike.Code) bool {
	return c == ike.CodeNoSelectors || c == ike.CodeNoProposal || c == ike.CodeDataplane
}

// loopOf finds the shard of our SPI.
func (d *Daemon) loopOf(spi wire.SPI) *loop {
	// Of a message from the original initiator our SPI is the responder's, which alone decides.
	h := wire.Header{SPIi: 1, SPIr: spi, Exchange: wire.Informational, Flags: wire.FlagInitiator}
	return d.loops[shard.Route(h, "", len(d.loops), d.hashKey)]
}

// receive routes a packet by its header alone. What has no IKE header is dropped by the shard, which counts it.
func (d *Daemon) receive(p ike.Packet) {
	h, err := wire.ParseHeader(p.Data)
	if err != nil {
		d.counters.malformed.Add(1)
		return
	}
	d.loops[shard.Route(h, p.Remote.Addr().String(), len(d.loops), d.hashKey)].receive(h, p)
}

// inShard runs f in the loop of each shard and waits for all.
func (d *Daemon) inShards(f func(*shard.Shard)) error {
	done := make(chan struct{}, len(d.loops))
	for _, l := range d.loops {
		l.box.put(func(s *shard.Shard) { f(s); done <- struct{}{} })
	}
	for range d.loops {
		select {
		case <-done:
		case <-d.quit:
			return errStopping
		}
	}
	return nil
}

var errStopping = fmt.Errorf("cygnetd stops")
