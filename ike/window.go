package ike

import (
	"crypto/sha256"
	"math"
	"time"

	"cygnet/ike/wire"
)

// schedule says when an unanswered request is sent again (RFC 7296 section 2.4): after first, then after factor times as long, and so on.
// tries counts all sendings; the last one is waited for too.
type schedule struct {
	first  time.Duration
	factor float64
	tries  int
}

// openingSchedule is that of the initial exchanges: 1 s, 1.8 s, ... gives up after 41 s, so that a person who waits hears soon.
func openingSchedule() schedule { return schedule{first: time.Second, factor: 1.8, tries: 6} }

// closingSchedule is that of the last Delete: the answer is only a courtesy.
func closingSchedule() schedule { return schedule{first: time.Second, factor: 1.8, tries: 3} }

// exchange is one of our requests, from its intent to its end. Both roles of an exchange stand in one file.
type exchange interface {
	// name is for people: "IKE_AUTH".
	name() string
	// start builds the request and sends it, at once or after a job.
	start(sa *SA)
	// onResponse handles the answer, which has passed the rules. It ends the exchange by sa.done, now or after more jobs.
	onResponse(sa *SA, m *message)
	// onFailure: no answer came (CodeNoAnswer), or one that cannot be used.
	onFailure(sa *SA, r *Refusal)
}

// requests is the window of our requests. Its size is 1 (RFC 7296 section 2.3): one is sent when the last is answered.
type requests struct {
	next    uint64   // message ID of the next request; past 32 bits the IKE SA is used up (section 2.2)
	current exchange // nil: the window is free
	lost    bool     // the request with ID next was sent and never answered: no other can follow (RFC 7296 section 2.3)
	// While a request waits for its answer:
	data     []byte // as it was sent; nil before sending and after the answer
	header   wire.Header
	sent     int  // how often
	first    Time // when first
	due      Time // when again, or when given up
	interval time.Duration
	plan     schedule
	disowned bool // an unprotected INVALID_IKE_SPI came for it
}

// waiting reports whether a request is on the wire without an answer.
func (r *requests) waiting() bool { return r.data != nil }

// launch notes a request that is being sent for the first time.
func (r *requests) launch(now Time, h wire.Header, data []byte, plan schedule) {
	r.header, r.data, r.plan = h, data, plan
	r.sent, r.first, r.interval, r.disowned = 1, now, plan.first, false
	r.due = now.Add(plan.first)
}

// repeat notes that the request is sent again; false: it was sent often enough.
func (r *requests) repeat(now Time) bool {
	if r.sent >= r.plan.tries {
		return false
	}
	r.sent++
	r.interval = time.Duration(float64(r.interval) * r.plan.factor)
	r.due = now.Add(r.interval)
	return true
}

// answers reports whether a response with this header belongs to the request on the wire. Others are late, repeated or forged.
func (r *requests) answers(h wire.Header) bool {
	return r.waiting() && h.MessageID == r.header.MessageID && h.Exchange == r.header.Exchange
}

// answered closes the window's slot: the message ID is used.
func (r *requests) answered() {
	r.data = nil
	r.next++
}

// exhausted: RFC 7296 section 2.2: message IDs must not wrap.
func (r *requests) exhausted() bool { return r.next > math.MaxUint32 }

// responses is the window of the peer's requests, of size 1. The answer is kept for repeats until the next request comes.
type responses struct {
	next   uint64 // message ID that the peer's next request has
	busy   bool   // the request with ID next is being worked on
	header wire.Header
	path   Path     // where its answer goes: RFC 7296 section 2.11, the source of the request
	digest [32]byte // of the request
	answer []byte   // to the request with ID next-1; nil when there is none
}

// repeated reports whether data is, bit for bit, the request that was answered last (RFC 7296 section 2.1).
func (r *responses) repeated(h wire.Header, data []byte) bool {
	return !r.busy && r.answer != nil && uint64(h.MessageID)+1 == r.next && sha256.Sum256(data) == r.digest
}

// fresh reports whether a request with this header may be worked on.
func (r *responses) fresh(h wire.Header) bool { return !r.busy && uint64(h.MessageID) == r.next }

// take notes the request that is being worked on.
func (r *responses) take(h wire.Header, path Path, data []byte) {
	r.busy, r.header, r.path, r.digest, r.answer = true, h, path, sha256.Sum256(data), nil
}

// give stores the answer.
func (r *responses) give(data []byte) {
	r.busy, r.answer = false, data
	r.next++
}
