package shard

import "maps"

// Names of counters: what became of packets and events that reached no machine, and what the shard sent by itself.
const (
	BadHeader       = "bad-header"       // shorter than it says, or longer
	BadSPI          = "bad-spi"          // SPIi zero, or SPIr or message ID set in a first message
	OldVersion      = "old-version"      // IKEv1: never answered
	NewVersion      = "new-version"      // major version above 2
	UnknownSPI      = "unknown-spi"      // no such IKE SA
	LateEvent       = "late-event"       // an answer for a machine that is gone
	LastAnswerSent  = "last-answer-sent" // repeat of the request that ended an IKE SA: its answer is sent again
	InitRepeated    = "init-repeated"    // repeated IKE_SA_INIT request, given to its machine
	InitAdmitted    = "init-admitted"    // a machine was made
	InitMalformed   = "init-malformed"   // no Ni where a cookie was needed
	InitSourceFull  = "init-source-full" // too many half-open IKE SAs of one source
	InitFull        = "init-full"        // too many half-open IKE SAs in all
	InitNoSPI       = "init-no-spi"      // no SPI could be drawn
	InitRefused     = "init-refused"     // an IKE_SA_INIT request was answered with a refusal
	AuthNever       = "auth-never"       // an IKE_SA_INIT request was answered, and IKE_AUTH never came whole
	CookieSent      = "cookie-sent"      // COOKIE demanded
	CookieGood      = "cookie-good"      // a demanded COOKIE came back
	CookieBad       = "cookie-bad"       // wrong or too old: a new one is demanded
	Amplification   = "amplification"    // an answer larger than what came was held back
	NotifySent      = "notify-sent"      // INVALID_IKE_SPI or INVALID_MAJOR_VERSION
	NotifyHeldBack  = "notify-held-back" // the same or a refusal, not sent: too many of them
	MachinePanicked = "machine-panicked" // a programming error ended one IKE SA
)

func (s *Shard) count(name string) { s.counters[name]++ }

// Counters returns a copy of all counters that are not zero.
func (s *Shard) Counters() map[string]uint64 { return maps.Clone(s.counters) }
