package wiretap

import (
	"bytes"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
)

// set is which fragments belong together (RFC 7383): those of one message that was cut in one way.
type set struct {
	side     question
	response bool
	total    uint16
}

// openFragment opens a fragment. The last that was missing brings the payloads of the whole.
func (t *Tap) openFragment(data []byte, h wire.Header, skf *wire.SKF) Message {
	m := Message{Header: h, Protected: true, Fragment: int(skf.Number), Total: int(skf.Total)}
	s, p := t.side(h)
	if s == nil {
		m.Problem = "keys unknown"
		return m
	}
	plain, err := p.OpenFragment(data, skf)
	if err != nil {
		m.Problem = "forged"
		return m
	}
	k := set{question{h.Initiator(), h.MessageID}, h.Response(), skf.Total}
	if s.parts[k] == nil {
		s.parts[k] = make([][]byte, skf.Total)
	}
	parts := s.parts[k]
	if skf.Number == 1 {
		s.firsts[k] = skf.First
	}
	parts[skf.Number-1] = plain
	for _, part := range parts {
		if part == nil {
			return m
		}
	}
	if m.Payloads, err = wire.ParsePayloads(s.firsts[k], bytes.Join(parts, nil)); err != nil {
		m.Problem = "malformed"
		return m
	}
	m.Whole = true
	if h.Exchange == wire.CreateChildSA {
		t.rekeyed(s, h, m.Payloads)
	}
	return m
}

// side finds what opens the messages of a sender.
func (t *Tap) side(h wire.Header) (*session, *suite.Protector) {
	s := t.sessions[[2]wire.SPI{h.SPIi, h.SPIr}]
	switch {
	case s == nil:
		return nil, nil
	case h.Initiator():
		return s, s.fromI
	}
	return s, s.fromR
}
