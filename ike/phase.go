package ike

import (
	"net/netip"

	"cygnet/ike/wire"
	"cygnet/policy"
)

// opening: no keys yet. An initiator looks up the peer and runs IKE_SA_INIT; a responder computes its answer.
type opening struct {
	limit Time // 0: Initiate has not come
}

func (*opening) name() phaseName          { return phaseOpening }
func (p *opening) deadline() (Time, bool) { return p.limit, p.limit != 0 }
func (p *opening) overdue(sa *SA) {
	sa.fail(&Refusal{Code: CodeInternal, Why: "the attempt was given up: a computation or look-up on this host took too long"})
}

// authenticating: keys, but the peer may be anyone.
type authenticating struct {
	limit        Time
	initI, initR []byte // the IKE_SA_INIT messages as they were on the wire: AUTH covers them (RFC 7296 section 2.15)
	ni, nr       []byte
	candidates   []*policy.Connection // of a responder: what the addresses allow
	lowered      *Lower               // of an initiator: close once the peer answers
	hashes       []wire.HashID        // that the peer accepts in signatures; nil: it knows none of RFC 7427
	requests     []*wire.CertReq      // that the peer sent so far
	from         netip.Addr           // of a responder: where its IKE_SA_INIT response went
	came         bool                 // of a responder: IKE_AUTH has come
	inquired     bool                 // revocations were asked for
}

func (*authenticating) name() phaseName          { return phaseAuthenticating }
func (p *authenticating) deadline() (Time, bool) { return p.limit, true }

func (p *authenticating) overdue(sa *SA) {
	switch {
	case p.lowered != nil:
		sa.finish(CodeClosed, p.lowered.Why, false)
	case sa.initiator || p.came:
		sa.fail(&Refusal{Code: CodeInternal, Why: "the attempt was given up: a computation on this host took too long"})
	default:
		sa.fail(sa.halfOpen())
	}
}

// established: the peer has proved its identity.
type established struct{}

func (*established) name() phaseName        { return phaseEstablished }
func (*established) deadline() (Time, bool) { return 0, false }
func (*established) overdue(*SA)            {}

// closing: the end is decided; what is left is the peer's answer to our last request, or the repeats of its last one.
type closing struct {
	limit Time
	end   Finish
	empty bool // it never had a child: the peer may not even know it
	mute  bool // its children send no more: another IKE SA carries their traffic
}

func (*closing) name() phaseName          { return phaseClosing }
func (p *closing) deadline() (Time, bool) { return p.limit, true }
func (p *closing) overdue(sa *SA)         { sa.finish(p.end.Code, p.end.Text, p.end.Retry) }

// linger ends an attempt that was answered with an error. The answer may be lost, so it is kept for repeats for a while: else the peer would
// never hear why.
func (sa *SA) linger(r *Refusal) {
	sa.refused(r, "")
	sa.enter(&closing{limit: sa.now.Add(closingLimit), end: Finish{Code: r.Code, Text: r.Why, Retry: true}}, "refused")
}

// ending is why an IKE SA goes.
type ending struct {
	code    Code
	why     string
	retry   bool // see Finish
	carried bool // see Lower
}

func (ending) event() {}

// end closes an established IKE SA with a Delete: now, or when the rekey that is on its way is over.
func (sa *SA) end(e ending) {
	if sa.phase.name() == phaseEstablished && !sa.endLater(e) {
		sa.close(e, deleteIKE())
	}
}

// close tells the peer by a last request that the IKE SA goes, and waits for its answer for a short time.
func (sa *SA) close(e ending, last ...wire.Payload) {
	sa.queue, sa.postponed = nil, nil
	sa.disown(e.why, false)
	reason := "lowered"
	if sa.phase.name() == phaseAuthenticating {
		reason = "refused"
	}
	p := &closing{limit: sa.now.Add(closingLimit), end: Finish{Code: e.code, Text: e.why, Retry: e.retry}, mute: e.carried}
	sa.enter(p, reason)
	if !e.carried {
		sa.enqueue(&lastExchange{last})
		return
	}
	for _, c := range sa.children {
		sa.remove(c, false, true)
	}
	p.limit = p.limit.Add(deleteDelay)
	sa.postpone(deleteDelay, &lastExchange{last})
}

// mute: no child sends any more, nor begins to.
func (sa *SA) mute() bool {
	p, ok := sa.phase.(*closing)
	return ok && p.mute
}
