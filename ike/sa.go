package ike

import (
	"fmt"
	"io"
	"time"

	"cygnet/ike/auth"
	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
)

// SA is one IKE SA with its Child SAs. It is not safe for concurrent use and never blocks.
type SA struct {
	config    Config
	initiator bool               // we are the original initiator (RFC 7296 section 2.2)
	conn      *policy.Connection // of a responder nil until the peer's identity is known
	peer      auth.Identity      // once it is proved
	proved    string             // how it was proved, for people
	path      Path
	peerSPI   wire.SPI

	phase     phase
	nat       nat
	mobility  mobility
	fragments fragmentation
	suite     suite.IKE
	keys      *suite.Keys
	protect   *suite.Protector

	requests  requests
	responses responses
	contact   *contact
	queue     []exchange // intents that wait for the window
	postponed []postponed
	children  []*child
	fading    []fading
	early     []uint32 // the peer's SPIs that it deleted while a CREATE_CHILD_SA of ours waited for its answer

	next succession
	life lifetime

	since     Time // Initiate, or the first packet
	up        Time // when the peer proved its identity
	lastHeard Time // fresh protected message, or traffic on a child
	lastSent  Time
	woke      Time // when the host was last found to have slept, or to have been without a network
	usageSent Time // a UsageQuery waits for its answer since then; 0: none
	quiet     quiet

	noises    int // unauthentic messages so far
	waits     map[Token]func(Event)
	computing []computing // jobs that are not answered, oldest first
	lastToken Token

	now      Time     // of the Step that runs
	out      *Actions // of the Step that runs
	finished bool
}

// phase is what a machine is doing. Each is a struct with what exists only then.
type phase interface {
	name() phaseName
	deadline() (Time, bool) // when it ends by itself
	overdue(sa *SA)         // what happens then
}

// postponed is a request that is made later.
type postponed struct {
	at Time
	x  exchange
}

// NewInitiator makes a machine that waits for Initiate.
func NewInitiator(c Config, conn *policy.Connection) *SA {
	sa := &SA{config: c, initiator: true, conn: conn, waits: make(map[Token]func(Event))}
	sa.phase = &opening{}
	return sa
}

// NewResponder makes a machine that gets its first Packet, an admitted IKE_SA_INIT request, by Step.
func NewResponder(c Config) *SA {
	sa := &SA{config: c, waits: make(map[Token]func(Event))}
	sa.phase = &opening{}
	return sa
}

// Step handles one event and appends to out what is to be done.
func (sa *SA) Step(now Time, ev Event, out *Actions) {
	if sa.finished {
		void(ev)
		return
	}
	sa.now, sa.out = now, out
	sa.fromInbox()
	switch e := ev.(type) {
	case Packet:
		sa.onPacket(e)
	case Wake:
		sa.onWake()
	case Initiate:
		sa.initiate(e)
	case RaiseChild:
		sa.raiseChild(e)
	case Lower:
		sa.lower(e)
	case Rekey:
		if e.IKE {
			sa.rekeyIKE()
		} else {
			sa.rekeyAsked(e.Child)
		}
	case PathChanged:
		sa.onPathChanged(e)
	case Follow:
		sa.onFollow(e)
	case Reconfigure:
		sa.reconfigure(e)
	case Probe:
		if e.Carried {
			sa.doubt()
		} else {
			sa.probe()
		}
	case SendFailed:
		sa.onSendFailed(e)
	case Expire:
		sa.onExpire(e)
	case FirstUse:
		sa.onFirstUse(e.ID)
	case Mapping:
		sa.onMapping(e)
	case JobDone:
		sa.resume(e.Token, e)
	case ResolveDone:
		sa.resume(e.Token, e)
	case SADBDone:
		sa.resume(e.Token, e)
	case UsageDone:
		sa.resume(e.Token, e)
	case InquiryDone:
		sa.resume(e.Token, e)
	}
	sa.succeed()
	sa.pump()
	sa.out = nil
}

// PeerSPI is the peer's IKE SPI, 0 as long as it is not known.
func (sa *SA) PeerSPI() wire.SPI { return sa.peerSPI }

// Established reports whether the peer has proved its identity and the IKE SA is not closing.
func (sa *SA) Established() bool { return sa.phase.name() == phaseEstablished && !sa.finished }

// Finished reports whether Finish was emitted: the machine is to be forgotten.
func (sa *SA) Finished() bool { return sa.finished }

// begin makes x the request of the window, which must be free.
func (sa *SA) begin(x exchange) {
	sa.requests.current = x
	x.start(sa)
}

// done ends an exchange of ours, and the keys that only it had.
func (sa *SA) done(x exchange) {
	if sa.requests.current == x {
		wipe(x)
		sa.requests.current = nil
		sa.requests.forget()
		sa.early = nil
	}
}

// current reports whether x still has the window: answers to its jobs are void otherwise.
func (sa *SA) current(x exchange) bool { return sa.requests.current == x && !sa.finished }

// enqueue lets x be our next request but those already waiting.
func (sa *SA) enqueue(x exchange) { sa.queue = append(sa.queue, x) }

// pump starts the next request when the window is free.
func (sa *SA) pump() {
	for !sa.finished && sa.requests.current == nil && len(sa.queue) > 0 {
		if n := sa.phase.name(); n != phaseEstablished && n != phaseClosing || sa.held() || sa.admitting() {
			return
		}
		if sa.requests.lost {
			if sa.phase.name() == phaseClosing {
				sa.phase.overdue(sa)
			} else {
				sa.fail(&Refusal{Code: CodeNoAnswer, Why: "the peer has not answered the last request: there can be no other"})
			}
			return
		}
		if sa.requests.exhausted() {
			sa.fail(&Refusal{Code: CodeProtocol, Why: "message IDs are used up"})
			return
		}
		x := sa.queue[0]
		sa.queue = sa.queue[1:]
		sa.begin(x)
	}
}

// admitting: our answer to IKE_AUTH is still being made. The peer would drop a request of ours that comes before it (RFC 7296 section 1.4).
func (sa *SA) admitting() bool {
	return sa.responses.busy && sa.responses.header.Exchange == wire.IKEAuth
}

// wait registers what to do when the answer to an action comes.
func (sa *SA) wait(then func(Event)) Token {
	sa.lastToken++
	sa.waits[sa.lastToken] = then
	return sa.lastToken
}

// resume continues with an answer; late ones have no entry any more.
func (sa *SA) resume(t Token, ev Event) {
	then, ok := sa.waits[t]
	if !ok {
		void(ev)
		return
	}
	delete(sa.waits, t)
	then(ev)
}

// void wipes the secrets in an answer that came too late.
func void(ev Event) {
	if d, ok := ev.(JobDone); ok {
		wipe(d.Result)
	}
}

// wipe forgets the secrets in x, where it has any.
func wipe(x any) {
	if k, ok := x.(interface{ wipe() }); ok {
		k.wipe()
	}
}

// jobClass is where our jobs stand in the queue once keys exist.
func (sa *SA) jobClass() JobClass {
	if sa.phase.name() == phaseEstablished {
		return JobEstablished
	}
	return JobAuth
}

// draw returns n random octets. Without randomness nothing may go on, so its failure is a panic, which ends this machine only.
func (sa *SA) draw(n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(sa.config.Rand, b); err != nil {
		panic(fmt.Errorf("%w: %v", errNoRandomness, err))
	}
	return b
}

// spis of the header: the original initiator's first.
func (sa *SA) spis() (i, r wire.SPI) {
	if sa.initiator {
		return sa.config.SPI, sa.peerSPI
	}
	return sa.peerSPI, sa.config.SPI
}

// enter changes the phase; rules.go lists what may follow what.
func (sa *SA) enter(p phase, why string) {
	story, ok := storyOf(sa.phase.name(), p.name(), why)
	if !ok {
		sa.report(Report{Code: CodeInternal, Text: fmt.Sprintf("no transition from %s to %s for %q", sa.phase.name(), p.name(), why)})
	}
	sa.phase = p
	sa.report(Report{Code: CodePhase, Text: story})
}

// report adds a line of the story.
func (sa *SA) report(r Report) {
	if sa.conn != nil {
		r.Connection = sa.conn.Name
	}
	if n := sa.phase.name(); !sa.initiator && (n == phaseOpening || n == phaseAuthenticating) {
		r.From = sa.path.Remote.Addr()
	}
	sa.out.Add(r)
}

// ignored tells the operator, at detail level, what was dropped.
func (sa *SA) ignored(format string, args ...any) {
	sa.report(Report{Code: CodeIgnored, Text: fmt.Sprintf(format, args...)})
}

// noise is ignored for what anyone can send: the log does not grow as the sender likes, only with the logarithm of it.
func (sa *SA) noise(format string, args ...any) {
	if sa.noises++; sa.noises&(sa.noises-1) == 0 {
		sa.ignored("%s (unauthentic messages so far: %d)", fmt.Sprintf(format, args...), sa.noises)
	}
}

// refused tells the operator about a failure.
func (sa *SA) refused(r *Refusal, child string) {
	sa.report(Report{Caller: r.Caller, Child: child, Code: r.Code, Text: r.Why, Detail: r.Detail, Hint: r.Hint})
}

// fail reports why the machine ends, and ends it. A wanted connection is tried again.
func (sa *SA) fail(r *Refusal) {
	if sa.finished {
		return
	}
	if r.Code == CodeNoAnswer && sa.orphaned() {
		return
	}
	sa.refused(r, "")
	sa.finish(r.Code, r.Why, true)
}

// finish ends the machine: Finish is its last action, and the ledger removes what it still holds.
func (sa *SA) finish(code Code, why string, retry bool) {
	if sa.finished {
		return
	}
	sa.disown(why, !retry)
	sa.endYield()
	for _, c := range sa.children {
		if c.up {
			sa.report(Report{Child: c.config.Name, Code: CodeChildDown, Text: "down: " + why})
		}
	}
	if story, ok := storyOf(sa.phase.name(), phaseFinished, "end"); ok {
		sa.report(Report{Code: CodePhase, Text: story})
	}
	sa.finished = true
	f := Finish{Code: code, Text: why, Retry: retry}
	if sa.conn != nil {
		f.Connection = sa.conn.Name
	}
	sa.out.Add(f)
	sa.wipe()
}

// wipe forgets keys and whatever waits (RFC 7296 section 2.12). Jobs wipe what they were handed.
func (sa *SA) wipe() {
	wipe(sa.requests.current)
	for _, c := range sa.children {
		if c.keys != nil {
			c.keys.Wipe()
		}
	}
	if sa.contact != nil {
		sa.contact.wipe()
		sa.contact = nil
	}
	if sa.keys != nil {
		sa.keys.Wipe()
	}
	sa.keys, sa.protect = nil, nil
	sa.requests.forget()
	sa.responses.answer.wipe()
	sa.responses.parts.drop()
	sa.requests, sa.responses = requests{}, responses{}
	sa.queue, sa.postponed, sa.children, sa.fading = nil, nil, nil, nil
	clear(sa.waits)
	sa.computing = nil
}

// duration prints milliseconds below a second, tenths below ten seconds, else seconds.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
