// Package wiretap reads the protected messages of IKE SAs under test, for diagrams and golden texts.
//
// It needs nothing of the machines: it sees the random octets of which they make their private values, and so computes what they compute.
package wiretap

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm/alg"
)

// keyOctets are what a machine draws for a key exchange.
const keyOctets = 1024

// Tap is not safe for concurrent use.
type Tap struct {
	seeds    [][]byte
	inits    map[wire.SPI][]first // IKE_SA_INIT requests by SPIi
	sessions map[[2]wire.SPI]*session
}

// first is an IKE_SA_INIT request, as it was on the wire too.
type first struct {
	*wire.Message
	data []byte
}

// session holds what opens and seals the messages of an IKE SA.
type session struct {
	keys         *suite.Keys
	fromI, fromR *suite.Protector            // each opens what one side sent
	asks         map[question][]wire.Payload // CREATE_CHILD_SA requests, for what follows from them
	parts        map[set][][]byte            // of messages in fragments
	firsts       map[set]wire.PayloadType
	initI, initR []byte // the IKE_SA_INIT messages, where it began by them
	ni, nr       []byte
}

type question struct {
	initiator bool // sent by the original initiator
	id        uint32
}

// New makes a tap that has heard nothing yet.
func New() *Tap {
	return &Tap{inits: make(map[wire.SPI][]first), sessions: make(map[[2]wire.SPI]*session)}
}

// Drawn tells of octets that a machine drew from its random reader.
func (t *Tap) Drawn(p []byte) {
	if len(p) == keyOctets {
		t.seeds = append(t.seeds, slices.Clone(p))
	}
}

// Message is one as its receiver reads it.
type Message struct {
	wire.Header
	Protected bool           // the payloads were inside SK
	Payloads  []wire.Payload // nil where Problem is set
	Fragment  int            // of Total fragments; 0: it came whole
	Total     int
	Whole     bool   // of a fragment: with it all of the message are here, and Payloads are those of the message
	Problem   string // why it cannot be read: "malformed", "forged", "keys unknown"
}

// Read opens a message. Each is to be shown in the order of sending; showing one again does no harm. An error: it is no IKE message.
func (t *Tap) Read(data []byte) (Message, error) {
	h, err := wire.ParseHeader(data)
	if err != nil {
		return Message{}, err
	}
	m, err := wire.Decode(data)
	if err != nil {
		return Message{Header: h, Problem: "malformed"}, nil
	}
	var sk *wire.SK
	if len(m.Payloads) > 0 {
		sk, _ = m.Payloads[len(m.Payloads)-1].(*wire.SK)
	}
	var skf *wire.SKF
	if len(m.Payloads) > 0 {
		skf, _ = m.Payloads[len(m.Payloads)-1].(*wire.SKF)
	}
	switch {
	case sk != nil:
		return t.open(data, h, sk), nil
	case skf != nil:
		return t.openFragment(data, h, skf), nil
	case h.Exchange == wire.IKESAInit && h.Response():
		t.learn(m, data)
	case h.Exchange == wire.IKESAInit:
		t.inits[h.SPIi] = append(t.inits[h.SPIi], first{m, data})
	}
	return Message{Header: h, Payloads: m.Payloads}, nil
}

func (t *Tap) open(data []byte, h wire.Header, sk *wire.SK) Message {
	m := Message{Header: h, Protected: true}
	s, p := t.side(h)
	if s == nil {
		m.Problem = "keys unknown"
		return m
	}
	plain, err := p.Open(data, sk)
	if err != nil {
		m.Problem = "forged"
		return m
	}
	if m.Payloads, err = wire.ParsePayloads(sk.First, plain); err != nil {
		m.Problem = "malformed"
		return m
	}
	if h.Exchange == wire.CreateChildSA {
		t.rekeyed(s, h, m.Payloads)
	}
	return m
}

// Seal protects payloads as the side would that the header names as the sender.
func (t *Tap) Seal(h wire.Header, ps []wire.Payload, rand io.Reader) ([]byte, error) {
	first, plain, err := wire.AppendPayloads(nil, ps)
	if err != nil {
		return nil, err
	}
	return t.SealOctets(h, first, plain, rand)
}

// learn computes the keys of an IKE SA from its IKE_SA_INIT messages and the private values that were drawn.
func (t *Tap) learn(r *wire.Message, data []byte) {
	id := [2]wire.SPI{r.SPIi, r.SPIr}
	answer, okSA := wire.Find[*wire.SA](r.Payloads)
	ke, okKE := wire.Find[*wire.KE](r.Payloads)
	nr, okN := wire.Find[*wire.Nonce](r.Payloads)
	if t.sessions[id] != nil || !okSA || !okKE || !okN {
		return
	}
	for _, q := range slices.Backward(t.inits[r.SPIi]) {
		offer, okSA := wire.Find[*wire.SA](q.Payloads)
		kei, okKE := wire.Find[*wire.KE](q.Payloads)
		ni, okN := wire.Find[*wire.Nonce](q.Payloads)
		if !okSA || !okKE || !okN || kei.Group != ke.Group {
			continue
		}
		chosen, mm := policy.CheckIKE(known(offer.Proposals), answer.Proposals)
		if mm != nil {
			continue
		}
		if shared, ok := t.shared(kei, ke); ok {
			if keys, err := suite.Derive(chosen, shared, ni.Data, nr.Data, id[0], id[1]); err == nil {
				s := newSession(keys)
				s.initI, s.initR, s.ni, s.nr = q.data, data, ni.Data, nr.Data
				t.sessions[id] = s
			}
		}
		return
	}
}

// rekeyed computes the keys of an IKE SA that replaces another, once both halves of its exchange were seen.
func (t *Tap) rekeyed(s *session, h wire.Header, inner []wire.Payload) {
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
	ni, ok1 := wire.Find[*wire.Nonce](ask)
	nr, ok2 := wire.Find[*wire.Nonce](inner)
	chosen, mm := policy.CheckIKE(known(offer.Proposals), answer.Proposals)
	if !ok1 || !ok2 || mm != nil || len(answer.Proposals[0].SPI) != 8 || len(offer.Proposals[0].SPI) != 8 {
		return
	}
	id := [2]wire.SPI{wire.SPI(binary.BigEndian.Uint64(offer.Proposals[0].SPI)), wire.SPI(binary.BigEndian.Uint64(answer.Proposals[0].SPI))}
	if shared, ok := t.shared(kei, ker); ok && t.sessions[id] == nil {
		if keys, err := s.keys.DeriveRekey(chosen, shared, ni.Data, nr.Data, id[0], id[1]); err == nil {
			t.sessions[id] = newSession(keys)
		}
	}
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
	return &session{keys: keys, fromI: asR, fromR: asI, asks: make(map[question][]wire.Payload),
		parts: make(map[set][][]byte), firsts: make(map[set]wire.PayloadType)}
}

// shared is the secret of a key exchange whose initiator's private value was drawn before our eyes.
func (t *Tap) shared(kei, ker *wire.KE) (alg.Secret, bool) {
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

// known leaves away what no IKE SA is made of: a peer under test may offer anything.
func known(list []wire.Proposal) (out []wire.Proposal) {
	for _, p := range list {
		p.Transforms = slices.DeleteFunc(slices.Clone(p.Transforms), func(t wire.Transform) bool { return t.Type > wire.TransformKE })
		out = append(out, p)
	}
	return out
}
