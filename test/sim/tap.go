package sim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"cygnet/ike"
	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm/alg"
)

// tap records messages and opens them for a failure's diagram. It needs nothing of the machines: it saw the random octets of which they made
// their private values, and so computes what they compute.
type tap struct {
	seeds    [][]byte
	messages []message
	story    []string
	sessions map[[2]wire.SPI]*session
}

type message struct {
	at       ike.Time
	from, to string
	data     []byte
	fate     string // "" arrived
}

// session holds what opens the messages of an IKE SA.
type session struct {
	keys         *suite.Keys
	fromI, fromR *suite.Protector
	asks         map[question][]wire.Payload // CREATE_CHILD_SA requests, for what follows from them
}

type question struct {
	initiator bool // sent by the original initiator
	id        uint32
}

func newTap() *tap { return &tap{sessions: make(map[[2]wire.SPI]*session)} }

func (t *tap) drawn(p []byte) {
	if len(p) == 1024 {
		t.seeds = append(t.seeds, slices.Clone(p))
	}
}

func (t *tap) line(w *world, who, text string) {
	t.story = append(t.story, fmt.Sprintf("%10.6f %-3s %s", w.now.Sub(epoch).Seconds(), who, text))
}

// tapped records what became of a packet.
func (w *world) tapped(p *packet, fate string) {
	if w.tap == nil {
		return
	}
	from, to := "adversary", "nobody"
	if p.from != nil {
		from = p.from.name
	}
	if n, _ := w.behind(p.dst); n != nil {
		to = n.name
	}
	if !p.genuine() {
		fate = strings.TrimPrefix(p.what+", "+fate, ", ")
	}
	m := message{w.now, from, to, slices.Clone(p.data), strings.TrimSuffix(fate, ", ")}
	w.tap.messages = append(w.tap.messages, m)
	w.tap.line(w, from, "-> "+to+" "+w.tap.describe(w, m))
}

// diagram of the last messages, in Mermaid's words.
func (t *tap) diagram(w *world) string {
	const most = 40
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for _, m := range t.messages[max(0, len(t.messages)-most):] {
		arrow := "->>"
		if m.fate == "lost" || m.fate == "nobody there" {
			arrow = "--x"
		}
		fmt.Fprintf(&b, "    %s%s%s: %.3f s %s\n", m.from, arrow, m.to, m.at.Sub(epoch).Seconds(), t.describe(w, m))
	}
	return b.String()
}

// describe is "IKE_AUTH request 1 [SPIs] IDi AUTH SA TSi TSr (lost)".
func (t *tap) describe(w *world, m message) string {
	h, err := wire.ParseHeader(m.data)
	if err != nil {
		return fmt.Sprintf("%d octets that are no IKE message (%s)", len(m.data), m.fate)
	}
	kind := "request"
	if h.Response() {
		kind = "response"
	}
	side := "from responder"
	if h.Initiator() {
		side = "from initiator"
	}
	text := fmt.Sprintf("%s %s %d %s %08x/%08x %s", h.Exchange, kind, h.MessageID, side, uint64(h.SPIi)>>32, uint64(h.SPIr)>>32, t.payloads(w, m.data, h))
	if m.fate != "" {
		text += " (" + m.fate + ")"
	}
	return text
}

// payloads names what a message holds; that of an SK payload where it can be opened.
func (t *tap) payloads(w *world, data []byte, h wire.Header) string {
	m, err := wire.Decode(data)
	if err != nil {
		return "malformed"
	}
	if len(m.Payloads) == 0 {
		return "empty"
	}
	sk, ok := m.Payloads[len(m.Payloads)-1].(*wire.SK)
	if !ok {
		if h.Exchange == wire.IKESAInit && h.Response() {
			t.learn(w, m)
		}
		return names(m.Payloads)
	}
	s := t.sessions[[2]wire.SPI{h.SPIi, h.SPIr}]
	if s == nil {
		return "SK{?}"
	}
	p := s.fromR
	if h.Initiator() {
		p = s.fromI
	}
	plain, err := p.Open(data, sk)
	if err != nil {
		return "SK{forged}"
	}
	inner, err := wire.ParsePayloads(sk.First, plain)
	if err != nil {
		return "SK{malformed}"
	}
	if h.Exchange == wire.CreateChildSA {
		t.rekeyed(s, h, inner)
	}
	return "SK{" + names(inner) + "}"
}

func names(ps []wire.Payload) string {
	var list []string
	for _, p := range ps {
		switch p := p.(type) {
		case *wire.Notify:
			list = append(list, fmt.Sprintf("N(%v)", p.Kind))
		case *wire.Delete:
			list = append(list, fmt.Sprintf("D(%d %08x)", p.Protocol, p.SPIs))
		default:
			list = append(list, p.Type().String())
		}
	}
	return strings.Join(list, " ")
}

// learn computes the keys of an IKE SA from its IKE_SA_INIT messages and the private values that were drawn.
func (t *tap) learn(w *world, r *wire.Message) {
	id := [2]wire.SPI{r.SPIi, r.SPIr}
	answer, okSA := wire.Find[*wire.SA](r.Payloads)
	ke, okKE := wire.Find[*wire.KE](r.Payloads)
	nr, okN := wire.Find[*wire.Nonce](r.Payloads)
	if t.sessions[id] != nil || !okSA || !okKE || !okN {
		return
	}
	for _, m := range slices.Backward(t.messages) {
		h, err := wire.ParseHeader(m.data)
		if err != nil || h.Exchange != wire.IKESAInit || h.Response() || h.SPIi != r.SPIi {
			continue
		}
		q, err := wire.Decode(m.data)
		if err != nil {
			continue
		}
		offer, okSA := wire.Find[*wire.SA](q.Payloads)
		kei, okKE := wire.Find[*wire.KE](q.Payloads)
		ni, okN := wire.Find[*wire.Nonce](q.Payloads)
		if !okSA || !okKE || !okN || kei.Group != ke.Group {
			continue
		}
		chosen, mm := policy.CheckIKE(offer.Proposals, answer.Proposals)
		if mm != nil {
			continue
		}
		t.sessions[id] = t.session(chosen, kei, ke, ni.Data, nr.Data, id)
		return
	}
}

// rekeyed computes the keys of an IKE SA that replaces another, once both halves of its exchange were seen.
func (t *tap) rekeyed(s *session, h wire.Header, inner []wire.Payload) {
	if !h.Response() {
		s.asks[question{h.Initiator(), h.MessageID}] = inner
		return
	}
	ask := s.asks[question{!h.Initiator(), h.MessageID}]
	offer, ok1 := wire.Find[*wire.SA](ask)
	answer, ok2 := wire.Find[*wire.SA](inner)
	kei, ok3 := wire.Find[*wire.KE](ask)
	ker, ok4 := wire.Find[*wire.KE](inner)
	if !ok1 || !ok2 || !ok3 || !ok4 || len(answer.Proposals) != 1 || answer.Proposals[0].Protocol != wire.ProtoIKE || kei.Group != ker.Group {
		return
	}
	ni, _ := wire.Find[*wire.Nonce](ask)
	nr, _ := wire.Find[*wire.Nonce](inner)
	chosen, mm := policy.CheckIKE(offer.Proposals, answer.Proposals)
	if mm != nil || len(answer.Proposals[0].SPI) != 8 || len(offer.Proposals[0].SPI) != 8 {
		return
	}
	id := [2]wire.SPI{wire.SPI(binary.BigEndian.Uint64(offer.Proposals[0].SPI)), wire.SPI(binary.BigEndian.Uint64(answer.Proposals[0].SPI))}
	if shared, ok := t.shared(kei, ker); ok && t.sessions[id] == nil {
		if keys, err := s.keys.DeriveRekey(chosen, shared, ni.Data, nr.Data, id[0], id[1]); err == nil {
			t.sessions[id] = newSession(keys)
		}
	}
}

func (t *tap) session(chosen suite.IKE, kei, ker *wire.KE, ni, nr []byte, id [2]wire.SPI) *session {
	shared, ok := t.shared(kei, ker)
	if !ok {
		return nil
	}
	keys, err := suite.Derive(chosen, shared, ni, nr, id[0], id[1])
	if err != nil {
		return nil
	}
	return newSession(keys)
}

func newSession(keys *suite.Keys) *session {
	asR, err := suite.NewProtector(keys, false)
	if err != nil {
		return nil
	}
	asI, err := suite.NewProtector(keys, true)
	if err != nil {
		return nil
	}
	return &session{keys: keys, fromI: asR, fromR: asI, asks: make(map[question][]wire.Payload)}
}

// shared is the secret of a key exchange whose initiator's private value was drawn before our eyes.
func (t *tap) shared(kei, ker *wire.KE) (alg.Secret, bool) {
	for _, seed := range slices.Backward(t.seeds) {
		kx, err := suite.NewKeyExchange(kei.Group, bytes.NewReader(seed))
		if err != nil || !bytes.Equal(kx.Public(), kei.Data) {
			continue
		}
		shared, err := kx.Shared(ker.Data)
		return shared, err == nil
	}
	return alg.Secret{}, false
}
