package shard

import (
	"crypto/sha256"
	"time"

	"cygnet/ike"
	"cygnet/ike/wire"
)

// RFC 7296 section 2.1: a response is kept for repeats of its request. A machine that ends by a request of its peer, such as Delete, cannot do so: what stays of it is its last
// answer. Where that is lost the peer repeats the request, and would hear INVALID_IKE_SPI, an unprotected word that it must not believe (section 2.21.4): strongSwan
// would repeat its Delete for minutes.

const (
	epitaphTime  = 30 * time.Second // enough for the first repeats of all known peers
	epitaphLimit = 1024             // in a shard; the oldest goes first
)

// epitaph is the last answer of a machine that is gone.
type epitaph struct {
	spi     wire.SPI // ours
	request [sha256.Size]byte
	answer  ike.Send
	until   ike.Time
}

// epitaphs, the oldest first.
type epitaphs struct {
	bySPI map[wire.SPI]*epitaph
	order []*epitaph
}

// expire forgets those that are too old, and the oldest when there are too many.
func (e *epitaphs) expire(now ike.Time) {
	for len(e.order) > 0 && (!now.Before(e.order[0].until) || len(e.order) > epitaphLimit) {
		delete(e.bySPI, e.order[0].spi)
		e.order[0] = nil
		e.order = e.order[1:]
	}
}

// bury keeps what a machine that has just ended answered to a protected request of its peer, if it did.
func (s *Shard) bury(now ike.Time, m *machine, ev ike.Event) {
	p, ok := ev.(ike.Packet)
	if !ok || !m.peer.Finished() {
		return
	}
	request, err := wire.ParseHeader(p.Data)
	if err != nil || request.Response() || request.NextPayload != wire.PayloadSK {
		return
	}
	for _, a := range s.actions.List {
		send, ok := a.(ike.Send)
		if !ok {
			continue
		}
		h, err := wire.ParseHeader(send.Data)
		if err == nil && h.Response() && h.MessageID == request.MessageID && h.Exchange == request.Exchange {
			e := &epitaph{spi: m.spi, request: sha256.Sum256(p.Data), answer: send, until: now.Add(epitaphTime)}
			s.epitaphs.bySPI[m.spi] = e
			s.epitaphs.order = append(s.epitaphs.order, e)
			s.epitaphs.expire(now)
			return
		}
	}
}

// recite answers a repeat of the last request that a machine had before it ended. The answer goes where it went before.
func (s *Shard) recite(now ike.Time, h wire.Header, p ike.Packet, out *[]Action) bool {
	s.epitaphs.expire(now)
	e := s.epitaphs.bySPI[ourSPI(h)]
	if e == nil || sha256.Sum256(p.Data) != e.request {
		return false
	}
	s.count(LastAnswerSent)
	*out = append(*out, Action{0, e.answer})
	return true
}
