package sim

import (
	"fmt"
	"slices"

	"cygnet/ike"
	"cygnet/ike/wire"
	"cygnet/test/wiretap"
	"cygnet/xfrm/alg"
)

// An impaired peer holds all keys and does not keep to the RFC: what a node sends is opened, changed and sealed again (lies.go). What must hold at the others holds
// all the same. When the faults stop it is replaced by a sane one, as by a restart, and then everything must come about.

// keyring knows all keys of a run in which somebody needs them.
type keyring struct {
	*wiretap.Tap
	on bool
}

func (k *keyring) drawn(p []byte) {
	if k.on {
		k.Tap.Drawn(p)
	}
}

// heard is each message as it is on the wire, in order of sending.
func (k *keyring) heard(data []byte) {
	if k.on {
		k.Tap.Read(data)
	}
}

// liar is the impaired side of a node.
type liar struct {
	often float64           // how often a message is changed
	told  map[uint64][]byte // what was made of a message: its repeat is the same
	known map[kindOf][]payload
}

// kindOf messages that a liar has sent, to be sent again where they do not belong.
type kindOf struct {
	exchange wire.ExchangeType
	response bool
}

// impair makes one node a liar.
func (w *world) impair() {
	w.saw("impaired peer")
	n := w.anyNode()
	n.liar = &liar{often: pick(w, 0.2, 0.4, 0.7), told: make(map[uint64][]byte), known: make(map[kindOf][]payload)}
	w.keys.on = true
	if w.chance(0.6) { // nothing else is wrong, so that exchanges get far
		w.weather = weather{late: w.weather.late, down: w.weather.down}
	}
}

// heal replaces the liars.
func (w *world) heal() {
	for _, n := range w.nodes {
		if n.liar == nil {
			continue
		}
		n.liar = nil
		w.story(n, "is replaced by a sane gateway")
		if n.alive {
			n.crash()
			n.restart(n.plain())
		}
	}
}

// lie is what a liar makes of a message of its machine.
func (w *world) lie(n *node, path ike.Path, data []byte) []byte {
	l := n.liar
	if l == nil || !w.wild || w.flooded[path.Remote.Addr()] != nil {
		return data
	}
	sum := sumOf(data)
	if b, ok := l.told[sum]; ok && w.chance(0.8) {
		return b
	}
	m, err := w.keys.Read(data)
	if err != nil || m.Problem != "" {
		return data
	}
	first, plain, err := wire.AppendPayloads(nil, m.Payloads)
	if err != nil {
		return data
	}
	honest := split(first, plain)
	l.known[kindOf{m.Exchange, m.Response()}] = honest
	if m.Response() && m.Protected && w.chance(l.often/4) {
		w.intrude(n, path, m.Header)
	}
	if !w.chance(l.often) {
		l.told[sum] = data
		return data
	}
	h, pieces := m.Header, slices.Clone(honest)
	what := w.twist(l, &h, &pieces)
	b := w.sealed(n, path, h, m.Protected, pieces)
	if b == nil {
		return data
	}
	w.story(n, "lies: %s", what)
	w.noteLie(path, h, what)
	l.told[sum] = b
	return b
}

// sealed is the message of these pieces, with a proof of identity that is right for what was said.
func (w *world) sealed(n *node, path ike.Path, h wire.Header, protected bool, pieces []payload) []byte {
	w.prove(n, path, h, pieces)
	first, plain := join(pieces)
	if !protected {
		h.NextPayload, h.Length = first, uint32(wire.HeaderLen+len(plain))
		return append(h.AppendHeader(nil), plain...)
	}
	b, err := w.keys.SealOctets(h, first, plain, entropy{w})
	if err != nil {
		return nil
	}
	return b
}

// prove signs what the IKE_SA_INIT messages became on the wire: the peer is to be led on by what was twisted there.
func (w *world) prove(n *node, path ike.Path, h wire.Header, pieces []payload) {
	who := wire.PayloadIDr
	if h.Initiator() {
		who = wire.PayloadIDi
	}
	id := slices.IndexFunc(pieces, func(p payload) bool { return p.kind == who })
	proof := slices.IndexFunc(pieces, func(p payload) bool { return p.kind == wire.PayloadAuth && len(p.body) > 4 && p.length < 0 })
	if id < 0 || proof < 0 || w.chance(0.1) {
		return
	}
	peer, _ := w.behind(path.Remote)
	for _, c := range w.conns {
		if c.ends[0].node == n && c.ends[1].node == peer || c.ends[1].node == n && c.ends[0].node == peer {
			if mac, ok := w.keys.Prove(h, alg.NewSecret([]byte(c.psk)), pieces[id].body); ok {
				pieces[proof].body = append(slices.Clone(pieces[proof].body[:4]), mac...)
			}
		}
	}
}

// intrude sends a request that the liar's machine knows nothing of, in whatever state the peer is.
func (w *world) intrude(n *node, path ike.Path, h wire.Header) {
	spi := h.SPIr
	if h.Initiator() {
		spi = h.SPIi
	}
	f := w.watch.flow(n, spi)
	if f.requests.last >= 0 && !f.answered {
		return
	}
	h.Flags &^= wire.FlagResponse
	h.MessageID = uint32(f.requests.last + 1)
	pieces := w.elsewhere(n.liar, &h)
	if b := w.sealed(n, path, h, true, pieces); b != nil {
		w.story(n, "intrudes: %v", h.Exchange)
		w.noteLie(path, h, "exchange")
		w.send(n, path, b)
	}
}

// elsewhere turns a message into one of another exchange, with what was said in such a one before.
func (w *world) elsewhere(l *liar, h *wire.Header) []payload {
	list := exchanges()
	h.Exchange = list[w.nextCell("exchange", len(list))]
	return slices.Clone(l.known[kindOf{h.Exchange, h.Response()}])
}

// exchanges that a peer may begin: all that have a name, and one that has none.
func exchanges() []wire.ExchangeType {
	return []wire.ExchangeType{wire.IKESAInit, wire.IKEAuth, wire.CreateChildSA, wire.Informational, wire.IKESessionResume, wire.GSAAuth, wire.IKEIntermediate, wire.IKEFollowupKE, 240}
}

// nextCell walks through a table, from a place that the seed gives, so that few runs cover it.
func (w *world) nextCell(table string, n int) int {
	c, ok := w.cells[table]
	if !ok {
		c = int(w.opt.Seed % 1_000_003)
	}
	w.cells[table] = c + 1
	return c % n
}

// noteLie remembers what was tried, and of another exchange in which state its receiver was.
func (w *world) noteLie(path ike.Path, h wire.Header, what string) {
	if what != "exchange" {
		w.lies[what] = true
		return
	}
	spi, kind := h.SPIi, "request"
	if h.Initiator() {
		spi = h.SPIr
	}
	if h.Response() {
		kind = "response"
	}
	n, _ := w.behind(path.Remote)
	if n == nil {
		return
	}
	for _, m := range n.machines() {
		if own := m.SPIr; m.Initiated && m.SPIi == spi || !m.Initiated && own == spi {
			w.lies[fmt.Sprintf("%v %s while %s", h.Exchange, kind, m.Phase)] = true
		}
	}
}
