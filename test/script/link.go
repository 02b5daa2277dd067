package script

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"cygnet/ike"
	"cygnet/ike/shard"
	"cygnet/ike/wire"
	"cygnet/test/wiretap"
)

// natAddr is the outside of the NAT; it adds natPorts, more after it has rebound, to the ports inside.
var natAddr = netip.MustParseAddr("203.0.113.1")

const natPorts = 20000

// link joins the parties: it delivers, holds, loses, delays and repeats what they send.
type link struct {
	w       *world
	rebound uint16 // how often the NAT has forgotten its mappings
	holding bool
	held    []*letter
	rules   []*rule
	seen    map[string]bool              // by its octets: what was sent before
	answers map[answerID]wire.NotifyType // what is to be answered instead
	swapped map[string][]byte            // requests by their octets: what the peer gets instead

	sent     int
	accident accident
}

// letter is a message on its way.
type letter struct {
	from     *party
	src, dst netip.AddrPort
	data     []byte
	text     string // "I1 CREATE_CHILD_SA response 2 {...}"
}

// accident befalls one message that no command is about.
type accident struct {
	what string // "lose", "late", "repeat"
	n    int    // which message, from 1
}

const accidentDelay = 2500 * time.Millisecond

// rule says what becomes of the next messages that it fits.
type rule struct {
	what  string // "lose", "late", "repeat", "answer"
	left  int    // how many times
	delay time.Duration
	from  *party
	words []string
	reply wire.NotifyType
}

// answerID names a request whose answer is forged.
type answerID struct {
	spii, spir wire.SPI
	id         uint32
	initiator  bool // who asked
}

func (r *rule) fits(l *letter) bool {
	if r.left == 0 || r.from != l.from {
		return false
	}
	for _, word := range r.words {
		if !strings.Contains(l.text, word) {
			return false
		}
	}
	return true
}

// send puts a message on the wire.
func (k *link) send(p *party, path ike.Path, data []byte) {
	m, err := k.w.tap.Read(data)
	if err != nil {
		k.w.problem("%s sent what is no IKE message: %v", p.name, err)
		return
	}
	src, dst := path.Local, path.Remote
	if p.nat {
		src = netip.AddrPortFrom(natAddr, src.Port()+k.natPorts())
	}
	l := &letter{from: p, src: src, dst: dst, data: data}
	k.instead(l, &m)
	l.text = k.w.names.message(p.name, p.peer.name, m)
	fate := ""
	if k.seen[string(l.data)] {
		fate = ", again"
	}
	k.seen[string(l.data)] = true
	r := k.ruleFor(l)
	switch {
	case p.cut || p.peer.cut || !p.peer.alive:
		fate += ", lost"
	case r != nil:
		fate += k.obey(r, l, m)
	case k.holding:
		k.held = append(k.held, l)
		fate += ", held"
	default:
		k.w.after(oneWay, func() { k.arrive(l) })
	}
	k.w.show("%s->%s  %s%s", p.name, p.peer.name, l.text, fate)
}

// natStep is how far a rebinding moves the ports.
const natStep = 5000

func (k *link) natPorts() uint16 { return natPorts + k.rebound*natStep }

func (k *link) ruleFor(l *letter) *rule {
	for _, r := range k.rules {
		if r.fits(l) {
			r.left--
			return r
		}
	}
	if k.sent++; k.sent == k.accident.n {
		return &rule{what: k.accident.what, delay: accidentDelay}
	}
	return nil
}

func (k *link) obey(r *rule, l *letter, m wiretap.Message) (fate string) {
	later := func(d time.Duration) {
		k.w.after(d, func() {
			k.w.show("%s->%s  %s, arrives", l.from.name, l.from.peer.name, l.text)
			k.arrive(l)
		})
	}
	switch r.what {
	case "lose":
		return ", lost"
	case "late":
		later(r.delay)
		return fmt.Sprintf(", late by %s", span(r.delay))
	case "repeat":
		k.w.after(oneWay, func() { k.arrive(l) })
		later(r.delay)
		return ", repeated"
	}
	k.w.after(oneWay, func() { k.swap(l, m, r.reply) })
	return ""
}

// arrive gives a message to its receiver.
func (k *link) arrive(l *letter) {
	to := l.from.peer
	data := l.data
	if other, ok := k.swapped[string(data)]; ok { // a repeat
		data = other
	}
	if !to.alive || to.cut || l.from.cut {
		return
	}
	dst := l.dst
	if to.nat {
		if dst.Addr() != natAddr || dst.Port() < k.natPorts() || dst.Port() >= k.natPorts()+natStep {
			return
		}
		dst = netip.AddrPortFrom(to.addr, dst.Port()-k.natPorts())
	}
	if dst.Addr() != to.addr {
		return
	}
	to.turn(shard.Packet{Packet: ike.Packet{Path: ike.Path{Local: dst, Remote: l.src}, Data: data}})
}

// swap lets a peer refuse a request that it never reads: it gets an empty INFORMATIONAL with the same message ID, and what it answers to that is
// replaced by the refusal. That is what a minimal implementation looks like (RFC 7296 section 4), and keeps the windows of both sides right.
func (k *link) swap(l *letter, m wiretap.Message, reply wire.NotifyType) {
	h := m.Header
	h.Exchange = wire.Informational
	data, err := k.w.tap.Seal(h, nil, l.from.dice)
	if err != nil {
		k.w.problem("%v", err)
		return
	}
	k.swapped[string(l.data)] = data
	k.answers[answerID{h.SPIi, h.SPIr, h.MessageID, h.Initiator()}] = reply
	k.arrive(&letter{from: l.from, src: l.src, dst: l.dst, data: data})
}

// instead replaces the answer to a request that was swapped.
func (k *link) instead(l *letter, m *wiretap.Message) {
	id := answerID{m.SPIi, m.SPIr, m.MessageID, !m.Initiator()}
	reply, ok := k.answers[id]
	if !ok || !m.Response() {
		return
	}
	m.Exchange, m.Payloads = wire.CreateChildSA, []wire.Payload{wire.NewNotify(reply, nil)}
	data, err := k.w.tap.Seal(m.Header, m.Payloads, l.from.dice)
	if err != nil {
		k.w.problem("%v", err)
		return
	}
	l.data = data
}

// next takes the oldest message of a party out of those that are held.
func (k *link) next(p *party) (*letter, error) {
	for i, l := range k.held {
		if l.from == p {
			k.held = append(k.held[:i:i], k.held[i+1:]...)
			return l, nil
		}
	}
	return nil, fmt.Errorf("no message of %s is held", p.name)
}
