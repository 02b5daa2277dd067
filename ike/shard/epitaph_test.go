package shard

import (
	"testing"
	"time"

	"cygnet/ike"
	"cygnet/ike/wire"
)

// ends opens a puppet that answers the next request and ends, and returns the request and what came of it.
func (st *stage) ends(id uint32) (spi wire.SPI, request []byte, acts []Action) {
	st.t.Helper()
	spi = st.step(Open{Connection: "site-b"})[0].SPI
	p := st.puppets[len(st.puppets)-1]
	p.peerSPI = 7
	h := wire.Header{SPIi: spi, SPIr: 7, Exchange: wire.Informational, MessageID: id}
	p.onStep = func(p *puppet, ev ike.Event, out *ike.Actions) {
		h := h
		h.Flags = wire.FlagResponse | wire.FlagInitiator
		out.Add(ike.Send{Path: ev.(ike.Packet).Path, Data: encode(st.t, h, sealed())})
		out.Add(ike.Finish{})
		p.finished = true
	}
	request = encode(st.t, h, sealed())
	return spi, request, st.packet("198.51.100.7:500", request)
}

// A repeat of the request that ended an IKE SA gets the same answer, for a while, and where it went before; another request gets INVALID_IKE_SPI.
func TestLastAnswerRepeated(t *testing.T) {
	st := newStage(t, Config{})
	_, request, acts := st.ends(3)
	answer := acts[0].Action.(ike.Send)
	again := st.packet("203.0.113.9:500", request)
	if len(again) != 1 || again[0].SPI != 0 || string(again[0].Action.(ike.Send).Data) != string(answer.Data) || again[0].Action.(ike.Send).Path != answer.Path {
		t.Errorf("a repeat got %+v, want %+v", again, answer)
	}
	st.counted(LastAnswerSent, 1)
	st.counted(UnknownSPI, 0)
	other := append([]byte(nil), request...)
	other[len(other)-1]++
	st.packet("198.51.100.7:500", other)
	st.counted(UnknownSPI, 1)
	st.now = st.now.Add(epitaphTime)
	st.packet("198.51.100.7:500", request)
	st.counted(UnknownSPI, 2)
	st.counted(LastAnswerSent, 1)
	if n := len(st.epitaphs.bySPI) + len(st.epitaphs.order); n != 0 {
		t.Errorf("%d epitaphs are kept too long", n)
	}
}

// Epitaphs are bounded: the oldest goes first.
func TestLastAnswersBounded(t *testing.T) {
	st := newStage(t, Config{})
	_, first, _ := st.ends(3)
	var last []byte
	for range epitaphLimit {
		st.now = st.now.Add(time.Millisecond)
		_, last, _ = st.ends(3)
	}
	if n, m := len(st.epitaphs.bySPI), len(st.epitaphs.order); n != epitaphLimit || m != epitaphLimit {
		t.Errorf("%d and %d epitaphs, want %d", n, m, epitaphLimit)
	}
	st.packet("198.51.100.7:500", first)
	st.counted(LastAnswerSent, 0)
	st.packet("198.51.100.7:500", last)
	st.counted(LastAnswerSent, 1)
}

// What ends otherwise leaves nothing: by an unprotected packet, by a response, or without an answer.
func TestNoLastAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		flags  wire.Flags
		with   wire.Payload
		answer bool
	}{"unprotected": {0, ni(1), true}, "response": {wire.FlagResponse, sealed(), true}, "no answer": {0, sealed(), false}} {
		st := newStage(t, Config{})
		spi := st.step(Open{Connection: "site-b"})[0].SPI
		p := st.puppets[0]
		h := wire.Header{SPIi: spi, SPIr: 7, Exchange: wire.Informational, MessageID: 3, Flags: c.flags}
		p.onStep = func(p *puppet, ev ike.Event, out *ike.Actions) {
			if h := h; c.answer {
				h.Flags = wire.FlagResponse
				out.Add(ike.Send{Path: ev.(ike.Packet).Path, Data: encode(t, h, sealed())})
			}
			p.finished = true
		}
		st.packet("198.51.100.7:500", encode(t, h, c.with))
		if !p.finished || len(st.epitaphs.order) != 0 {
			t.Errorf("%s: finished %v, %d epitaphs", name, p.finished, len(st.epitaphs.order))
		}
	}
}
