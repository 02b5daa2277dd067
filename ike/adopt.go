package ike

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
)

// A rekey of the IKE SA makes another machine, its heir, which the shard takes in by Adopt. The heir gets the children at once, or, when both sides
// rekey at the same time, as soon as it is clear which of the two heirs stays (RFC 7296 section 2.8.2). It gets them as they are: nothing in the
// data plane changes but the ledger's name for their owner, so a heir is named only while no batch for a child is on its way.

const (
	// pendingLimit ends a heir that never hears whether it inherits: its predecessor is gone without a word.
	pendingLimit = 5 * time.Minute
	// replacedLimit bounds how long a replaced IKE SA waits for the Delete of the peer, which did the rekey, before it sends its own.
	replacedLimit = time.Minute
	// replacedLast bounds the life of a replaced IKE SA, its own Delete with all repeats included.
	replacedLast = 3 * time.Minute
	// yieldLimit bounds how long our Delete of a replaced IKE SA waits for the peer's Delete of its own heir: long enough for a few repeats of the peer's rekey.
	yieldLimit = 30 * time.Second
)

// heir is an IKE SA that a rekey of this one has made.
type heir struct {
	sa    *SA
	ours  bool   // we began that rekey
	least []byte // the lowest of its two nonces
}

// succession is what goes on about the replacement of an IKE SA.
type succession struct {
	answering *rekeyAnswer // the peer's rekey is being worked on
	heirs     []*heir      // made, and none has inherited yet
	replaced  *SA          // the one that inherited
	batches   int          // of children, that the data plane has not answered yet
	deleted   bool         // the peer deleted this IKE SA while it had heirs
	ending    *ending      // what follows when the rekey that is on its way is over
	endBy     Time         // and not later than then

	pending Time    // of a heir: it has not inherited yet, and gives up then; 0: it has, or never was one
	before  *SA     // of a heir that yields: its predecessor
	inbox   []Event // what another of these machines left for this one, handled before anything else
}

// inherit tells a heir that the children are its own now.
type inherit struct{}

// yield tells a heir that the other one stays, and that the peer will delete it. The predecessor of both waits for that.
type yield struct{ before *SA }

// yielded tells a replaced IKE SA that the heir which yields has ended.
type yielded struct{}

// surrender tells a heir that the other one stays, and that it is ours to delete.
type surrender struct{}

// receives tells a heir that the peer has shown its predecessor that it receives at an address.
type receives struct{ at netip.Addr }

func (receives) event()  {}
func (inherit) event()   {}
func (yield) event()     {}
func (yielded) event()   {}
func (surrender) event() {}

// rekeyingIKE: an exchange that replaces this IKE SA is on its way, begun by either side.
func (sa *SA) rekeyingIKE() bool {
	_, ours := sa.requests.current.(*rekeyIKEExchange)
	return ours || sa.next.answering != nil
}

// held: no request may begin, since the heir is the one to make it (RFC 7296 section 2.8: Delete is the last request).
func (sa *SA) held() bool {
	return sa.next.replaced == nil && (sa.next.answering != nil || len(sa.next.heirs) > 0)
}

// succeed brings the replacement on as far as it can go. It is called at the end of each Step.
func (sa *SA) succeed() {
	n := &sa.next
	if sa.finished || n.replaced != nil || n.batches > 0 {
		return
	}
	if a := n.answering; a != nil && a.result != nil {
		sa.answerRekeyIKE(a)
	}
	if x, ok := sa.requests.current.(*rekeyIKEExchange); ok && x.result != nil && !sa.responses.busy {
		x.conclude(sa)
		if p, ok := sa.phase.(*closing); ok { // the peer has made the new IKE SA, and handed the children over
			sa.disown(p.end.Text, false)
		}
	}
	if len(n.heirs) > 0 && !sa.rekeyingIKE() && !sa.finished {
		sa.decide()
	}
	if n.ending != nil && !sa.finished && n.replaced == nil && !sa.rekeyingIKE() && len(n.heirs) == 0 {
		sa.endNow()
	}
}

// birth makes the machine of the IKE SA that a rekey agreed on. Its message IDs begin at 0 (RFC 7296 section 2.18), and who began the rekey is its
// original initiator (section 2.2). The shard knows it from now on, as the peer may use it before it has inherited.
func (sa *SA) birth(keys *suite.Keys, ours, theirs wire.SPI, initiator bool, ni, nr []byte) (*heir, error) {
	protect, err := suite.NewProtector(keys, initiator)
	if err != nil {
		return nil, err
	}
	next := &SA{
		config: sa.config, initiator: initiator, conn: sa.conn, peer: sa.peer, proved: sa.proved, path: sa.path, peerSPI: theirs,
		phase: &established{}, nat: sa.nat, fragments: sa.fragments, suite: keys.Suite, keys: keys, protect: protect,
		since: sa.now, up: sa.now, lastHeard: sa.lastHeard, lastSent: sa.lastSent, waits: make(map[Token]func(Event)), now: sa.now,
	}
	next.config.SPI = ours
	next.mobility.inherit(sa.mobility)
	next.next.pending = sa.now.Add(pendingLimit)
	next.startLifetime()
	h := &heir{sa: next, ours: initiator, least: slices.Clone(lowest(ni, nr))}
	sa.next.heirs = append(sa.next.heirs, h)
	sa.out.Add(Adopt{SPI: ours, Successor: next})
	return h, nil
}

// decide names the heir that inherits: of two the one without the lowest of the four nonces (RFC 7296 section 2.8.2). Who made the other one deletes it.
func (sa *SA) decide() {
	list := slices.DeleteFunc(sa.next.heirs, func(h *heir) bool { return !h.sa.Established() })
	sa.next.heirs = nil
	switch {
	case len(list) == 0:
		if sa.next.deleted {
			sa.finish(CodeClosed, "closed by the peer", true)
		}
		return
	case len(list) == 1:
		sa.bequeath(list[0], false)
		return
	}
	stays, goes := list[0], list[1]
	if bytes.Compare(stays.least, goes.least) < 0 {
		stays, goes = goes, stays
	}
	sa.report(Report{Code: CodePhase, Text: "both sides rekeyed the IKE SA at once; the one with the lowest nonce goes"})
	if goes.ours {
		sa.leave(goes.sa, surrender{})
	} else {
		sa.leave(goes.sa, yield{sa})
	}
	sa.bequeath(stays, !goes.ours)
}

// leave puts an event where a heir finds it, and has the shard give it a turn.
func (sa *SA) leave(to *SA, ev Event) {
	to.next.inbox = append(to.next.inbox, ev)
	sa.out.Add(Adopt{SPI: to.config.SPI, Successor: to})
}

// bequeath hands everything over to a heir but the IKE SA itself, which the side that began the rekey deletes. Where the peer has a heir that yields, our Delete waits for its end:
// a peer that has our Delete before our answer to its own rekey, which may have been lost, takes us for a side that has not noticed the collision, and forgets
// its heir instead of deleting it (RFC 7296 section 2.8.2).
func (sa *SA) bequeath(h *heir, yields bool) {
	next := h.sa
	sa.next.replaced = next
	if next.responses.next == 0 || sa.mobility.agreed && !next.mobility.taken { // it has not heard of a path by itself
		next.path, next.nat = sa.path, sa.nat
		next.mobility.inherit(sa.mobility)
	}
	next.lastHeard, next.lastSent = max(next.lastHeard, sa.lastHeard), max(next.lastSent, sa.lastSent)
	next.children = append(next.children, sa.children...)
	for _, x := range sa.queue {
		if survives(x) {
			next.queue = append(next.queue, x)
		}
	}
	for _, p := range sa.postponed {
		if survives(p.x) {
			next.postponed = append(next.postponed, p)
		}
	}
	next.fading = append(next.fading, sa.fading...)
	next.life.inherit(sa)
	next.next.inbox = append(next.next.inbox, inherit{})
	if sa.next.ending != nil {
		next.next.inbox = append(next.next.inbox, *sa.next.ending)
	}
	sa.children, sa.fading, sa.queue, sa.postponed, sa.usageSent = nil, nil, nil, nil, 0
	who := "by the peer"
	if h.ours {
		who = "by us"
	}
	sa.report(Report{Code: CodeIKERekeyed, Text: "IKE SA rekeyed " + who + ": " + next.suite.String(), Detail: next.spiText()})
	sa.out.Add(Adopt{SPI: next.config.SPI, Successor: next, Inherits: true})
	end := Finish{Code: CodeClosed, Text: "replaced by a rekey"}
	if sa.next.deleted {
		sa.finish(end.Code, end.Text, false)
		return
	}
	sa.enter(&closing{limit: sa.now.Add(replacedLast), end: end}, "replaced")
	x := &deleteOld{}
	switch {
	case !h.ours:
		sa.postpone(replacedLimit, x)
	case yields:
		sa.postpone(yieldLimit, x)
	default:
		sa.enqueue(x)
	}
}

// deleteOld is the last request of an IKE SA that another has replaced. The peer should hear it, so that it is sent as often as any other.
type deleteOld struct{}

func (*deleteOld) name() string { return "INFORMATIONAL (Delete)" }
func (x *deleteOld) start(sa *SA) {
	sa.request(wire.Informational, sa.fullSchedule(), &wire.Delete{Protocol: wire.ProtoIKE})
}
func (*deleteOld) onResponse(sa *SA, _ *message) { sa.phase.overdue(sa) }
func (*deleteOld) onFailure(sa *SA, _ *Refusal)  { sa.phase.overdue(sa) }

// survives: an intent that a heir has as well.
func survives(x exchange) bool {
	switch x.(type) {
	case *rekeyIKEExchange, *livenessExchange:
		return false
	}
	return true
}

// fromInbox handles what a predecessor left.
func (sa *SA) fromInbox() {
	list := sa.next.inbox
	sa.next.inbox = nil
	for _, ev := range list {
		if sa.finished {
			return
		}
		switch e := ev.(type) {
		case inherit:
			sa.inherit()
		case yield:
			sa.yield(e.before)
		case yielded:
			sa.yielded()
		case surrender:
			sa.surrender()
		case receives:
			if sa.mobility.held != nil && sa.path.Remote.Addr() == e.at && sa.phase.name() == phaseEstablished {
				sa.receives()
			}
		case Lower:
			sa.lower(e)
		case ending:
			sa.end(e)
		}
	}
}

// inherit: the children are here. The path may have moved, and the peer may have deleted children here already.
func (sa *SA) inherit() {
	sa.next.pending = 0
	early := sa.early
	sa.early = nil
	if sa.mobility.held != nil && !sa.mobility.begun { // who asked went with its IKE SA
		sa.verifyRoute()
	}
	for _, c := range slices.Clone(sa.children) {
		if (c.in == installed || c.out == installed) && sa.strays(c) {
			sa.moveChild(c, c.path)
		}
		if slices.Contains(early, c.spiOut) {
			sa.deleteChild(c, "the peer deleted it")
		}
	}
}

// surrender: this IKE SA, which we made, goes. While the peer waits for our answer to its own rekey, which may have been lost, it may know nothing of this one and take
// no Delete of it. strongSwan 5.9 does so: the Delete must go on for longer than the peer's repeats take.
func (sa *SA) surrender() {
	if sa.phase.name() != phaseEstablished {
		return
	}
	sa.queue, sa.postponed = nil, nil
	sa.enter(&closing{limit: sa.now.Add(replacedLast), end: Finish{Code: CodeClosed, Text: "both sides rekeyed at once; the other IKE SA stays"}}, "lowered")
	sa.enqueue(&deleteOld{})
}

// yield: the peer, which made this IKE SA, is to delete it. If it does not, we do.
func (sa *SA) yield(before *SA) {
	if sa.phase.name() != phaseEstablished {
		return
	}
	sa.next.before = before
	sa.queue, sa.postponed = nil, nil
	end := Finish{Code: CodeClosed, Text: "both sides rekeyed at once; the other IKE SA stays"}
	sa.enter(&closing{limit: sa.now.Add(replacedLimit + 2*closingLimit), end: end, empty: true}, "yielded")
	sa.postpone(replacedLimit, &lastExchange{[]wire.Payload{deleteIKE()}})
}

// endYield tells the predecessor that this heir, which yielded to another, has ended.
func (sa *SA) endYield() {
	if old := sa.next.before; old != nil && !old.finished {
		sa.leave(old, yielded{})
	}
}

// yielded: the peer has deleted its heir, and so has our answer; now it can have our Delete.
func (sa *SA) yielded() {
	for i, p := range sa.postponed {
		if _, ok := p.x.(*deleteOld); ok {
			sa.postponed = slices.Delete(sa.postponed, i, i+1)
			sa.enqueue(p.x)
			return
		}
	}
}

// disown: this IKE SA ends before one of its heirs has inherited, and they end with it.
func (sa *SA) disown(why string, silent bool) {
	if sa.next.replaced != nil {
		return
	}
	for _, h := range sa.next.heirs {
		if !h.sa.finished {
			sa.leave(h.sa, Lower{Why: why, Silent: silent})
		}
	}
	sa.next.heirs = nil
	if a := sa.next.answering; a != nil && a.result != nil {
		a.result.wipe()
	}
	sa.next.answering = nil
}

// orphaned: our own rekey got no answer, or none that can be used, but the peer's made a heir, and that one stays.
func (sa *SA) orphaned() bool {
	x, ok := sa.requests.current.(*rekeyIKEExchange)
	if len(sa.next.heirs) == 0 || !ok {
		return false
	}
	sa.done(x)
	return true
}

// replacedByPeer: the peer deletes this IKE SA while it has heirs: it has one of them in mind (RFC 7296 section 2.8.2). A rekey of ours that it has not
// answered is forgotten; what its answer makes is concluded first, or its half of that would stay.
func (sa *SA) replacedByPeer() bool {
	if len(sa.next.heirs) == 0 || sa.next.replaced != nil {
		return false
	}
	if x, ok := sa.requests.current.(*rekeyIKEExchange); !ok || x.answer == nil {
		sa.orphaned()
	}
	sa.next.deleted = true
	return true
}

// deletedLate: the peer deletes a child on an IKE SA that has been replaced. The heir, which has it, deletes it properly.
func (sa *SA) deletedLate(spi uint32) {
	next := sa.next.replaced
	if next == nil || next.finished {
		return
	}
	if c := next.childByOutbound(spi); c != nil {
		next.deleteChild(c, "the peer deleted it")
		sa.out.Add(Adopt{SPI: next.config.SPI, Successor: next})
	}
}

// succeeding: a rekey is on its way, begun by either side, so that the peer may have handed the children to a new IKE SA already.
func (sa *SA) succeeding() bool {
	x, ours := sa.requests.current.(*rekeyIKEExchange)
	return ours && x.sent || sa.next.answering != nil || len(sa.next.heirs) > 0
}

// endLater: while a rekey is on its way a Delete of this IKE SA might not end the children. The end waits for the rekey, though not long.
func (sa *SA) endLater(e ending) bool {
	n := &sa.next
	if n.replaced != nil || !sa.succeeding() {
		return false
	}
	if n.endBy == 0 {
		n.ending, n.endBy = &e, sa.now.Add(closingLimit)
	}
	return n.ending != nil
}

func (sa *SA) endDue() (Time, bool) { return sa.next.endBy, sa.next.ending != nil }

func (sa *SA) wakeEnding() {
	if sa.due(sa.endDue()) {
		sa.endNow()
	}
}

func (sa *SA) endNow() {
	e := *sa.next.ending
	sa.next.ending = nil
	if sa.phase.name() == phaseEstablished {
		sa.close(e, deleteIKE())
	}
}
