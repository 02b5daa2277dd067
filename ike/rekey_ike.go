package ike

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
)

// rekeyIKEExchange is our CREATE_CHILD_SA that replaces the IKE SA (RFC 7296 sections 1.3.2, 2.18).
type rekeyIKEExchange struct {
	spi     wire.SPI // ours in the new IKE SA
	offered []wire.Proposal
	group   wire.GroupID
	tried   []wire.GroupID
	kx      *suite.KeyExchange
	nonce   []byte
	sent    bool
	answer  *message
	theirs  wire.SPI
	result  *rekeyKeys // what the job made of the answer
}

// rekeyKeys is what the job of either side returns.
type rekeyKeys struct {
	keyPair
	keys *suite.Keys
}

func (k *rekeyKeys) wipe() {
	k.keyPair.wipe()
	if k.keys != nil {
		k.keys.Wipe()
	}
}

func (*rekeyIKEExchange) name() string { return "CREATE_CHILD_SA for the IKE SA" }

// rekeyIKE replaces this IKE SA as soon as the window is free.
func (sa *SA) rekeyIKE() {
	is := func(x exchange) bool { _, ok := x.(*rekeyIKEExchange); return ok }
	switch {
	case sa.phase.name() != phaseEstablished || sa.next.pending != 0 || sa.next.answering != nil || len(sa.next.heirs) > 0:
	case is(sa.requests.current) || slices.ContainsFunc(sa.queue, is):
	default:
		sa.postponed = slices.DeleteFunc(sa.postponed, func(p postponed) bool { return is(p.x) })
		sa.enqueue(&rekeyIKEExchange{})
	}
}

func (x *rekeyIKEExchange) start(sa *SA) {
	if len(x.tried) == 0 {
		x.offered = policy.OfferIKE(sa.conn)
		x.group = policy.FirstGroup(x.offered)
		x.spi = sa.drawIKESPI()
		x.nonce = sa.draw(nonceLen)
		for i := range x.offered {
			x.offered[i].SPI = binary.BigEndian.AppendUint64(nil, uint64(x.spi))
		}
	}
	if x.group == wire.GroupNone || x.spi == 0 {
		x.end(sa, &Refusal{Code: CodeInternal, Stage: x.name(), Why: "the IKE SA cannot be rekeyed: there is no key exchange method to offer, or no SPI"})
		return
	}
	x.tried = append(x.tried, x.group)
	group, seed := x.group, sa.draw(keyOctets)
	sa.jobOf(x, sa.jobClass(), func() any {
		defer clear(seed)
		kx, err := suite.NewKeyExchange(group, bytes.NewReader(seed))
		return keyPair{kx: kx, err: err}
	}, func(result any) {
		k := keyPairOf(result)
		switch {
		case k.kx == nil:
			x.end(sa, &Refusal{Code: CodeInternal, Stage: x.name(), Why: fmt.Sprintf("cannot make a key for %s: %v", suite.DHName(group), k.err)})
		case sa.phase.name() != phaseEstablished:
			k.wipe()
			sa.done(x)
		default:
			x.kx = k.kx
			x.send(sa)
		}
	})
}

func (x *rekeyIKEExchange) send(sa *SA) {
	x.sent = true
	sa.request(wire.CreateChildSA, sa.schedule(),
		&wire.SA{Proposals: x.offered}, &wire.Nonce{Data: x.nonce}, &wire.KE{Group: x.group, Data: x.kx.Public()})
	sa.report(Report{Code: CodeSent, Text: "rekey of the IKE SA sent to " + sa.path.Remote.String()})
}

func (x *rekeyIKEExchange) wipe() {
	if x.kx != nil {
		x.kx.Wipe()
		x.kx = nil
	}
	if x.result != nil {
		x.result.wipe()
		x.result = nil
	}
}

func (x *rekeyIKEExchange) onResponse(sa *SA, m *message) {
	switch {
	case sa.phase.name() != phaseEstablished && m.rule.mark != carriesIKEProposal: // the IKE SA goes
		sa.done(x)
	case m.rule.mark == carriesErrorAlone:
		x.onError(sa, errorNotify(m.payloads))
	case m.rule.mark != carriesIKEProposal:
		x.broken(sa, &Refusal{Stage: x.name(), Code: CodeProtocol, Why: "the peer answers the rekey of the IKE SA by a child"})
	default:
		x.take(sa, m)
	}
}

// take checks the peer's choice and computes the new keys. What is wrong here leaves the two sides with different states.
func (x *rekeyIKEExchange) take(sa *SA, m *message) {
	answer, _ := wire.Find[*wire.SA](m.payloads)
	nonce, _ := wire.Find[*wire.Nonce](m.payloads)
	ke, _ := wire.Find[*wire.KE](m.payloads)
	chosen, mm := policy.CheckIKE(x.offered, answer.Proposals)
	r := &Refusal{Stage: x.name(), Code: CodeProtocol}
	switch {
	case mm != nil:
		r = mismatch(x.name(), CodeNoProposal, mm)
	case ke.Group != x.group || chosen.Group != x.group:
		r.Why = fmt.Sprintf("the peer chose %s and sent a key of %s, we sent one of %s", suite.DHName(chosen.Group), suite.DHName(ke.Group), suite.DHName(x.group))
	case len(nonce.Data) < suite.PRFLen(chosen.PRF)/2: // RFC 7296 section 2.10
		r.Why = fmt.Sprintf("the peer's nonce has %d octets, too short for the PRF", len(nonce.Data))
	default:
		x.theirs = wire.SPI(binary.BigEndian.Uint64(answer.Proposals[0].SPI))
		if x.theirs != 0 {
			x.agree(sa, m, chosen, ke.Data, nonce.Data)
			return
		}
		r.Why = "the peer's SPI for the new IKE SA is zero"
	}
	x.broken(sa, r)
}

// broken: the answer cannot be used. Where the peer's own rekey has made a heir that one stays.
func (x *rekeyIKEExchange) broken(sa *SA, r *Refusal) {
	if sa.orphaned() {
		sa.refused(r, "")
		return
	}
	sa.bad(x, r)
}

// agree computes the shared secret and, where it is, the keys (RFC 7296 section 2.18).
func (x *rekeyIKEExchange) agree(sa *SA, m *message, chosen suite.IKE, public, nr []byte) {
	kx, old := x.kx, sa.keyForRekey()
	x.kx, x.answer = nil, m
	spii, spir, ni := x.spi, x.theirs, x.nonce
	sa.jobOf(x, sa.jobClass(), func() any {
		defer kx.Wipe()
		return old.next(kx, chosen, public, ni, nr, spii, spir)
	}, func(result any) {
		k, ok := result.(*rekeyKeys)
		switch {
		case !ok || k.err != nil:
			why := notComputed
			if ok {
				why = k.err.Error()
			}
			x.broken(sa, &Refusal{Stage: x.name(), Code: CodeProtocol, Why: "the peer's key for the new IKE SA cannot be used: " + why})
		default:
			x.result = k // conclude follows as soon as no child is in between
		}
	})
}

// rekeyRoot is what keys of a new IKE SA come from: SK_d and the suite of the old one. Its job owns it.
type rekeyRoot struct{ keys suite.Keys }

func (sa *SA) keyForRekey() *rekeyRoot {
	return &rekeyRoot{suite.Keys{Suite: sa.keys.Suite, D: sa.keys.D.Clone()}}
}

// next runs in a job.
func (old *rekeyRoot) next(kx *suite.KeyExchange, chosen suite.IKE, public, ni, nr []byte, spii, spir wire.SPI) *rekeyKeys {
	defer old.keys.D.Wipe()
	shared, err := kx.Shared(public)
	if err != nil {
		return &rekeyKeys{keyPair: keyPair{err: err}}
	}
	defer shared.Wipe()
	keys, err := old.keys.DeriveRekey(chosen, shared, ni, nr, spii, spir)
	return &rekeyKeys{keyPair: keyPair{err: err}, keys: keys}
}

// conclude makes the heir. Who inherits is decided by succession.
func (x *rekeyIKEExchange) conclude(sa *SA) {
	nonce, _ := wire.Find[*wire.Nonce](x.answer.payloads)
	k := x.result
	x.result = nil
	if _, err := sa.birth(k.keys, x.spi, x.theirs, true, x.nonce, nonce.Data); err != nil {
		k.wipe()
		x.broken(sa, &Refusal{Stage: x.name(), Code: CodeInternal, Why: fmt.Sprintf("cannot use the keys of the new IKE SA: %v", err)})
		return
	}
	sa.done(x)
}

// onError: the peer refuses.
func (x *rekeyIKEExchange) onError(sa *SA, n *wire.Notify) {
	x.wipe()
	if n.Kind == wire.NotifyInvalidKEPayload && len(n.Data) == 2 {
		g := wire.GroupID(binary.BigEndian.Uint16(n.Data))
		if suite.Supported(g) && policy.OffersGroup(x.offered, g) && !slices.Contains(x.tried, g) && len(x.tried) < maxGroups {
			x.group = g
			x.start(sa)
			return
		}
	}
	if len(sa.next.heirs) > 0 { // RFC 7296 section 2.8.2: the peer's own rekey came before ours
		sa.done(x)
		return
	}
	r := &Refusal{Stage: x.name(), Code: CodePeerError, Why: fmt.Sprintf("the peer refuses to rekey the IKE SA: %v", n.Kind)}
	switch n.Kind {
	case wire.NotifyTemporaryFailure:
		x.busy(sa)
		return
	case wire.NotifyInvalidSyntax: // RFC 7296 section 2.21.3: fatal for both
		sa.done(x)
		sa.fail(r)
		return
	case wire.NotifyNoProposalChosen:
		r.Code = CodeNoProposal
		r.Why = "the peer accepts none of our proposals for a rekey of the IKE SA (NO_PROPOSAL_CHOSEN); we offer " + offerText(x.offered)
		r.Hint = where(sa.conn, "ike")
	}
	x.end(sa, r)
	if n.Kind == wire.NotifyNoAdditionalSAs && !sa.finished { // RFC 7296 section 4: a minimal peer sets up a new IKE SA instead
		sa.reauthenticate("the peer does not rekey IKE SAs")
	}
}

// end ends the exchange without a new IKE SA, and plans the next try.
func (x *rekeyIKEExchange) end(sa *SA, r *Refusal) {
	sa.done(x)
	sa.refused(r, "")
	sa.life.rekeyFailed(sa)
}

func (x *rekeyIKEExchange) onFailure(sa *SA, r *Refusal) {
	if sa.orphaned() {
		return
	}
	sa.lost(x, r)
}

// drawIKESPI draws our SPI of a new IKE SA; 0: none can be had.
func (sa *SA) drawIKESPI() wire.SPI {
	if sa.config.DrawSPI == nil {
		return 0
	}
	return sa.config.DrawSPI()
}
