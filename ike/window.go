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
	message  *outgoing // nil before sending and after the answer
	header   wire.Header
	parts    reassembly // of the answer
	sent     int        // how often
	unsent   int        // how often of these the host could not
	first    Time       // when first
	due      Time       // when again, or when given up
	interval time.Duration
	plan     schedule
	disowned bool // an unprotected INVALID_IKE_SPI came for it
}

// waiting reports whether a request is on the wire without an answer.
func (r *requests) waiting() bool { return r.message != nil }

// launch notes a request that is being sent for the first time.
func (r *requests) launch(now Time, m *outgoing, plan schedule) {
	r.forget()
	r.header, r.message, r.plan = m.header, m, plan
	r.sent, r.unsent, r.first, r.interval, r.disowned = 1, 0, now, plan.first, false
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

// restart: the request is sent again in another form, and its timers start over.
func (r *requests) restart(now Time) {
	r.plan.tries += r.sent
	r.sent++
	r.interval = r.plan.first
	r.due = now.Add(r.interval)
}

// afresh: the request goes another way from now on, or its answer has not been waited for: it is sent as often as a new one.
func (r *requests) afresh(now Time) {
	r.sent, r.unsent, r.interval = 1, 0, r.plan.first
	r.due = now.Add(r.interval)
}

// forget: no request is on the wire any more.
func (r *requests) forget() {
	r.message.wipe()
	r.message = nil
	r.parts.drop()
}

// answers reports whether a response with this header belongs to the request on the wire. Others are late, repeated or forged.
func (r *requests) answers(h wire.Header) bool {
	return r.waiting() && h.MessageID == r.header.MessageID && h.Exchange == r.header.Exchange
}

// answered closes the window's slot: the message ID is used.
func (r *requests) answered() {
	r.forget()
	r.next++
}

// exhausted: RFC 7296 section 2.2: message IDs must not wrap.
func (r *requests) exhausted() bool { return r.next > math.MaxUint32 }

// responses is the window of the peer's requests, of size 1. The answer is kept for repeats until the next request comes.
type responses struct {
	next    uint64 // message ID that the peer's next request has
	busy    bool   // the request with ID next is being worked on
	header  wire.Header
	path    Path              // where its answer goes: RFC 7296 section 2.11, the source of the request
	digest  [sha256.Size]byte // by which a repeat of the request is known
	answer  *outgoing         // to the request with ID next-1; nil when there is none
	repeats int               // how often the last request was repeated
	parts   reassembly        // of the request with ID next
}

// answeredLast reports whether a request has the message ID of the one that was answered last.
func (r *responses) answeredLast(h wire.Header) bool {
	return !r.busy && r.answer != nil && uint64(h.MessageID)+1 == r.next
}

// fresh reports whether a request with this header may be worked on.
func (r *responses) fresh(h wire.Header) bool { return !r.busy && uint64(h.MessageID) == r.next }

// take notes the request that is being worked on.
func (r *responses) take(h wire.Header, path Path, digest [sha256.Size]byte) {
	r.answer.wipe()
	r.parts.drop()
	r.busy, r.header, r.path, r.digest, r.answer, r.repeats = true, h, path, digest, nil, 0
}

// give stores the answer.
func (r *responses) give(m *outgoing) {
	r.busy, r.answer = false, m
	r.next++
}
