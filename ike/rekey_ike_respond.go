package ike

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
)

// rekeyAnswer is a peer's rekey of the IKE SA that is being worked on.
type rekeyAnswer struct {
	chosen       wire.Proposal // with the peer's SPI
	ours, theirs wire.SPI
	ni, nr       []byte
	result       *rekeyKeys
}

// onRekeyIKERequest: the peer replaces the IKE SA (RFC 7296 section 1.3.2).
func (sa *SA) onRekeyIKERequest(m *message) {
	r := sa.mayReplace()
	var chosen wire.Proposal
	var wanted suite.IKE
	if r == nil {
		chosen, wanted, r = sa.chooseRekey(m)
	}
	if r != nil {
		sa.refuse(r)
		return
	}
	if x, ok := sa.requests.current.(*rekeyIKEExchange); ok && !x.sent { // ours has not left: no collision
		sa.done(x)
	}
	ke, _ := wire.Find[*wire.KE](m.payloads)
	nonce, _ := wire.Find[*wire.Nonce](m.payloads)
	a := &rekeyAnswer{chosen: chosen, ours: sa.drawIKESPI(), theirs: wire.SPI(binary.BigEndian.Uint64(chosen.SPI)), ni: slices.Clone(nonce.Data), nr: sa.draw(nonceLen)}
	if a.ours == 0 {
		sa.refuse(&Refusal{Notify: wire.NotifyNoAdditionalSAs, Stage: "CREATE_CHILD_SA", Code: CodeIgnored, Why: "the peer wants to rekey the IKE SA and there is no SPI for it"})
		return
	}
	sa.next.answering = a
	old, group, seed, public := sa.keyForRekey(), wanted.Group, sa.draw(keyOctets), slices.Clone(ke.Data)
	ni, nr, spii, spir := a.ni, a.nr, a.theirs, a.ours
	sa.job(sa.jobClass(), func() any {
		defer clear(seed)
		kx, err := suite.NewKeyExchange(group, bytes.NewReader(seed))
		if err != nil {
			return &rekeyKeys{keyPair: keyPair{err: err}}
		}
		k := old.next(kx, wanted, public, ni, nr, spii, spir)
		k.kx = kx
		return k
	}, func(result any) {
		k, ok := result.(*rekeyKeys)
		if sa.next.answering != a {
			wipe(result)
			return
		}
		if !ok {
			k = &rekeyKeys{keyPair: keyPair{err: errors.New(notComputed)}}
		}
		a.result = k // answerRekeyIKE follows as soon as no child is in between
	})
}

// mayReplace: RFC 7296 sections 2.8.2, 2.25.1, 2.25.2.
func (sa *SA) mayReplace() *Refusal {
	const stage = "CREATE_CHILD_SA"
	switch x := sa.requests.current.(type) {
	case nil, *livenessExchange, *rekeyIKEExchange, *routeCheck, *announceExchange:
	default:
		return temporary(stage, "the peer's rekey of the IKE SA came while our "+x.name()+" waits for its answer")
	}
	if sa.next.pending != 0 || len(sa.next.heirs) > 0 {
		return temporary(stage, "the peer rekeys an IKE SA that is being replaced")
	}
	return nil
}

// chooseRekey chooses a suite as for a new IKE SA. NONE is none of our methods, so that a key exchange always takes place (RFC 7296 section 2.18).
func (sa *SA) chooseRekey(m *message) (chosen wire.Proposal, wanted suite.IKE, _ *Refusal) {
	const stage = "CREATE_CHILD_SA"
	offer, _ := wire.Find[*wire.SA](m.payloads)
	ke, _ := wire.Find[*wire.KE](m.payloads)
	nonce, _ := wire.Find[*wire.Nonce](m.payloads)
	usable := slices.DeleteFunc(slices.Clone(offer.Proposals), func(p wire.Proposal) bool {
		return p.Protocol == wire.ProtoIKE && (len(p.SPI) != 8 || binary.BigEndian.Uint64(p.SPI) == 0)
	})
	if len(usable) == 0 {
		return chosen, wanted, &Refusal{Notify: wire.NotifyNoProposalChosen, Stage: stage, Code: CodeNoProposal, Why: "the peer's rekey of the IKE SA proposes no SPI of 8 octets"}
	}
	chosen, wanted, mm := policy.ChooseIKE([]*policy.Connection{sa.conn}, usable)
	switch {
	case mm != nil:
		return chosen, wanted, mismatch(stage, CodeNoProposal, mm)
	case wanted.Group == wire.GroupNone:
		return chosen, wanted, &Refusal{Notify: wire.NotifyNoProposalChosen, Stage: stage, Code: CodeNoProposal, Why: "the peer wants to rekey the IKE SA without a key exchange"}
	case wanted.Group != ke.Group:
		return chosen, wanted, &Refusal{Notify: wire.NotifyInvalidKEPayload, Data: binary.BigEndian.AppendUint16(nil, uint16(wanted.Group)), Stage: stage, Code: CodeIgnored,
			Why: fmt.Sprintf("the peer rekeys the IKE SA with a key of %s, asked for %s", suite.DHName(ke.Group), suite.DHName(wanted.Group))}
	case len(nonce.Data) < suite.PRFLen(wanted.PRF)/2: // RFC 7296 section 2.10
		return chosen, wanted, invalidSyntax(stage, "a nonce of %d octets, too short for the PRF", len(nonce.Data))
	}
	return chosen, wanted, nil
}

// answerRekeyIKE makes the heir and answers; in this order, as the peer uses the new IKE SA from then on.
func (sa *SA) answerRekeyIKE(a *rekeyAnswer) {
	const stage = "CREATE_CHILD_SA"
	k := a.result
	sa.next.answering = nil
	r := (*Refusal)(nil)
	switch {
	case errors.Is(k.err, suite.ErrPublicValue): // RFC 6989 section 2.5
		r = invalidSyntax(stage, "an unusable key: %v", k.err)
	case k.err != nil:
		r = temporary(stage, fmt.Sprintf("key exchange: %v", k.err))
	case sa.phase.name() != phaseEstablished:
		r = temporary(stage, "the IKE SA is closing")
	default:
		if _, err := sa.birth(k.keys, a.ours, a.theirs, false, a.ni, a.nr); err != nil {
			r = temporary(stage, fmt.Sprintf("the new keys cannot be used: %v", err))
		}
	}
	if r != nil {
		k.wipe()
		sa.refuse(r)
		return
	}
	group, public := k.kx.Group(), k.kx.Public()
	k.kx.Wipe()
	p := a.chosen
	p.SPI = binary.BigEndian.AppendUint64(nil, uint64(a.ours))
	sa.respond(&wire.SA{Proposals: []wire.Proposal{p}}, &wire.Nonce{Data: a.nr}, &wire.KE{Group: group, Data: public})
}
