package ike

import (
	"fmt"
	"slices"

	"cygnet/ike/wire"
)

// phaseName names what a machine is doing.
type phaseName string

const (
	phaseOpening        phaseName = "opening"
	phaseAuthenticating phaseName = "authenticating"
	phaseEstablished    phaseName = "established"
	phaseClosing        phaseName = "closing"
	phaseFinished       phaseName = "finished"
)

// mark tells messages of one exchange apart by what they carry.
type mark uint8

const (
	always            mark = iota
	carriesError           // an error notify in place of a proof of identity
	carriesErrorAlone      // an error notify in place of a child
	carriesCookie
	carriesIKEProposal // an SA payload that proposes an IKE SA
	carriesRekey       // REKEY_SA
)

// rule says which payloads a message has. Of the rows of an exchange and direction the first whose mark and phase fit is taken.
type rule struct {
	name     string
	exchange wire.ExchangeType
	response bool
	phases   []phaseName // of the receiver
	mark     mark
	required []wire.PayloadType // each exactly once, unless it may repeat
	optional []wire.PayloadType
	story    string
}

// Notifies, Vendor IDs and the like may come several times; everything else once.
func mayRepeat(t wire.PayloadType) bool {
	switch t {
	case wire.PayloadNotify, wire.PayloadVendor, wire.PayloadDelete, wire.PayloadCert, wire.PayloadCertReq:
		return true
	}
	return false
}

// rules is RFC 7296 appendix C, with what we do about each message.
func rules() []rule {
	p := func(ts ...wire.PayloadType) []wire.PayloadType { return ts }
	in := func(ps ...phaseName) []phaseName { return ps }
	const (
		sa, ke, nonce, idi, idr      = wire.PayloadSA, wire.PayloadKE, wire.PayloadNonce, wire.PayloadIDi, wire.PayloadIDr
		proof, tsi, tsr              = wire.PayloadAuth, wire.PayloadTSi, wire.PayloadTSr
		notify, vendor, del          = wire.PayloadNotify, wire.PayloadVendor, wire.PayloadDelete
		cert, certReq, cp            = wire.PayloadCert, wire.PayloadCertReq, wire.PayloadCP
		initial, auth, create, infor = wire.IKESAInit, wire.IKEAuth, wire.CreateChildSA, wire.Informational
	)
	return []rule{
		{"init-request", initial, false, in(phaseOpening), always, p(sa, ke, nonce), p(notify, vendor, certReq),
			"the peer wants an IKE SA: choose a suite, exchange keys, answer"},
		{"init-cookie", initial, true, in(phaseOpening), carriesCookie, p(notify), p(vendor),
			"the peer wants to see its cookie first: ask again with it"},
		{"init-error", initial, true, in(phaseOpening), carriesError, p(notify), p(vendor),
			"the peer refuses, without proof: correct what can be corrected, else keep trying for a while"},
		{"init-response", initial, true, in(phaseOpening), always, p(sa, ke, nonce), p(notify, vendor, certReq),
			"the peer chose a suite: derive keys, send IKE_AUTH"},

		{"auth-request", auth, false, in(phaseAuthenticating), always, p(idi, sa, tsi, tsr), p(proof, idr, notify, vendor, cert, certReq, cp),
			"the peer says who it is: verify, answer with our proof and the first child"},
		{"auth-error", auth, true, in(phaseAuthenticating), carriesError, p(notify), p(vendor),
			"the peer refuses us"},
		{"auth-response", auth, true, in(phaseAuthenticating), always, p(idr, proof), p(sa, tsi, tsr, notify, vendor, cert, cp),
			"the peer proves who it is: verify, install the first child"},

		{"rekey-ike-request", create, false, in(phaseEstablished, phaseClosing), carriesIKEProposal, p(sa, nonce, ke), p(notify, vendor),
			"the peer replaces the IKE SA: make the new one, answer, hand the children over"},
		{"rekey-child-request", create, false, in(phaseEstablished, phaseClosing), carriesRekey, p(notify, sa, nonce, tsi, tsr), p(ke, vendor, cp),
			"the peer replaces a child: receive on the new one at once, send on it when the old one goes"},
		{"child-request", create, false, in(phaseEstablished, phaseClosing), always, p(sa, nonce, tsi, tsr), p(ke, notify, vendor, cp),
			"the peer wants a further child: choose, install, answer"},
		{"create-error", create, true, in(phaseEstablished, phaseClosing), carriesErrorAlone, p(notify), p(vendor),
			"the peer refuses the child, or the new IKE SA; this one stays"},
		{"rekey-ike-response", create, true, in(phaseEstablished, phaseClosing), carriesIKEProposal, p(sa, nonce, ke), p(notify, vendor),
			"the peer agrees to a new IKE SA: hand the children over, delete this one"},
		{"child-response", create, true, in(phaseEstablished, phaseClosing), always, p(sa, nonce, tsi, tsr), p(ke, notify, vendor, cp),
			"the peer agrees to the child: install it"},

		{"info-request", infor, false, in(phaseEstablished, phaseClosing), always, nil, p(notify, del, cp, vendor),
			"the peer deletes, tells or asks whether we live: always answered"},
		{"info-response", infor, true, in(phaseEstablished, phaseClosing), always, nil, p(notify, del, cp, vendor),
			"the peer lives, or has deleted what we asked it to"},
	}
}

// ruleFor picks the row of a message; nil: the message does not belong here.
func ruleFor(h wire.Header, phase phaseName, ps []wire.Payload) *rule {
	for _, r := range rules() {
		if r.exchange == h.Exchange && r.response == h.Response() && slices.Contains(r.phases, phase) && r.mark.fits(ps) {
			return &r
		}
	}
	return nil
}

// fits reports whether the payloads carry the mark.
func (m mark) fits(ps []wire.Payload) bool {
	switch m {
	case carriesError:
		// An IKE_AUTH response may hold a proof and, for its child, an error (RFC 7296 section 2.21.2): that is no refusal.
		return errorNotify(ps) != nil && !has(ps, wire.PayloadAuth)
	case carriesErrorAlone: // with a child beside the error the peer contradicts itself: the child is to be deleted
		return errorNotify(ps) != nil && !has(ps, wire.PayloadSA)
	case carriesCookie:
		return len(notifies(ps, wire.NotifyCookie)) > 0 && !has(ps, wire.PayloadSA)
	case carriesRekey:
		return len(notifies(ps, wire.NotifyRekeySA)) > 0
	case carriesIKEProposal:
		p, ok := wire.Find[*wire.SA](ps)
		return ok && slices.ContainsFunc(p.Proposals, func(p wire.Proposal) bool { return p.Protocol == wire.ProtoIKE })
	}
	return true
}

func has(ps []wire.Payload, t wire.PayloadType) bool {
	return slices.ContainsFunc(ps, func(p wire.Payload) bool { return p.Type() == t })
}

// apply checks the payloads of a message: a required one that is missing or a single one that is repeated is an error. It returns the
// payloads that belong here, and the types of known ones that do not: those are ignored, since real peers send them (a CP in a rekey).
func (r *rule) apply(ps []wire.Payload) (kept []wire.Payload, strange []wire.PayloadType, err error) {
	for _, p := range ps {
		t := p.Type()
		expected := slices.Contains(r.required, t) || slices.Contains(r.optional, t)
		if _, unknown := p.(*wire.Unknown); unknown {
			continue
		}
		if !expected {
			strange = append(strange, t)
			continue
		}
		if !mayRepeat(t) && has(kept, t) {
			return nil, nil, fmt.Errorf("it holds two %v payloads", t)
		}
		kept = append(kept, p)
	}
	for _, t := range r.required {
		if !has(kept, t) {
			return nil, nil, fmt.Errorf("it holds no %v payload", t)
		}
	}
	return kept, strange, nil
}

// transition is a change of phase, with its story for the log.
type transition struct {
	from, to phaseName
	why      string // keyword that the code gives
	story    string
}

func transitions() []transition {
	return []transition{
		{phaseOpening, phaseAuthenticating, "suite agreed", "keys are agreed; identities are proved next"},
		{phaseAuthenticating, phaseEstablished, "peer proved", "the peer proved its identity; the IKE SA is up"},
		{phaseAuthenticating, phaseClosing, "refused", "authentication failed; the peer is told, until it has surely heard"},
		{phaseEstablished, phaseClosing, "lowered", "closing; the peer is told"},
		{phaseEstablished, phaseClosing, "replaced", "replaced by a rekey; its children live on in the new IKE SA"},
		{phaseEstablished, phaseClosing, "yielded", "one of two new IKE SAs too many; the peer deletes it"},
		{phaseOpening, phaseFinished, "end", "the attempt ended before keys were agreed"},
		{phaseAuthenticating, phaseFinished, "end", "the attempt ended before the peer proved its identity"},
		{phaseEstablished, phaseFinished, "end", "the IKE SA is gone"},
		{phaseClosing, phaseFinished, "end", "closed"},
	}
}

// storyOf finds the story of a transition; false: there is no such transition.
func storyOf(from, to phaseName, why string) (string, bool) {
	for _, t := range transitions() {
		if t.from == from && t.to == to && t.why == why {
			return t.story, true
		}
	}
	return "", false
}
