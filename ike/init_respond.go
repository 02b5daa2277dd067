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

// onInitRequest: the first packet of a responder, or its repeat.
func (sa *SA) onInitRequest(p Packet, m *wire.Message) {
	switch ph := sa.phase.(type) {
	case *opening:
		if ph.limit == 0 {
			ph.limit = sa.now.Add(halfOpenLimit)
			sa.answerInit(p, m)
		}
	case *authenticating:
		// RFC 7296 section 2.1: a repeat is told by the whole packet. Once IKE_AUTH has come the phase is another, and it is ignored.
		if bytes.Equal(ph.initI, p.Data) {
			sa.send(p.Path, ph.initR)
		}
	}
}

// answerInit chooses a suite and computes the keys. What is wrong with the request ends the machine: nothing is kept for strangers.
func (sa *SA) answerInit(p Packet, m *wire.Message) {
	sa.since, sa.path, sa.peerSPI = sa.now, p.Path, m.SPIi
	if len(p.Data) > wire.MaxInit {
		sa.drop("an IKE_SA_INIT request from %v of %d octets, more than %d", p.Remote, len(p.Data), wire.MaxInit)
		return
	}
	row := ruleFor(m.Header, phaseOpening, m.Payloads)
	if row == nil || m.SPIi == 0 || m.SPIr != 0 || m.MessageID != 0 || !m.Initiator() {
		sa.drop("an IKE_SA_INIT request from %v that is none", p.Remote)
		return
	}
	if t, found := wire.CriticalUnknown(m.Payloads); found {
		sa.refuseInit(p, m, unsupportedCritical("IKE_SA_INIT", t))
		return
	}
	kept, _, err := row.apply(m.Payloads)
	if err != nil {
		sa.drop("an IKE_SA_INIT request from %v: %v", p.Remote, err)
		return
	}
	msg := &message{Header: m.Header, payloads: kept, rule: row, path: p.Path, raw: p.Data}
	offered, _ := wire.Find[*wire.SA](kept)
	ke, _ := wire.Find[*wire.KE](kept)
	nonce, _ := wire.Find[*wire.Nonce](kept)
	candidates := sa.config.Snapshot.Candidates(p.Local.Addr(), p.Remote.Addr())
	if len(candidates) == 0 {
		sa.refuseInit(p, m, mismatch("IKE_SA_INIT", CodeNoProposal, sa.config.Snapshot.NoCandidate(p.Local.Addr(), p.Remote.Addr())))
		return
	}
	chosen, wanted, mm := policy.ChooseIKE(candidates, offered.Proposals)
	switch {
	case mm != nil:
		r := mismatch("IKE_SA_INIT", CodeNoProposal, mm)
		r.Caller = callerOf(nil, candidates)
		r.Why = p.Remote.String() + ": " + r.Why
		sa.refuseInit(p, m, r)
	case wanted.Group != ke.Group: // RFC 7296 section 1.2; nothing is kept
		sa.refuseInit(p, m, &Refusal{Notify: wire.NotifyInvalidKEPayload, Data: binary.BigEndian.AppendUint16(nil, uint16(wanted.Group)),
			Stage: "IKE_SA_INIT", Code: CodeIgnored,
			Why: fmt.Sprintf("%v sent a key of %s, asked for %s", p.Remote, suite.DHName(ke.Group), suite.DHName(wanted.Group))})
	case len(nonce.Data) < suite.PRFLen(wanted.PRF)/2: // RFC 7296 section 2.10
		sa.drop("an IKE_SA_INIT request from %v with a nonce of %d octets, too short for the PRF", p.Remote, len(nonce.Data))
	default:
		sa.agreeInit(msg, candidates, chosen, wanted, ke.Data, nonce.Data)
	}
}

// drop ends a responder without an answer.
func (sa *SA) drop(format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	sa.ignored("%s", why)
	sa.finish(CodeIgnored, why, false)
}

// refuseInit answers without protection and forgets the request.
func (sa *SA) refuseInit(p Packet, m *wire.Message, r *Refusal) {
	h := sa.header(wire.IKESAInit, true, 0)
	h.SPIr = 0 // RFC 7296 section 2.6: nothing was kept
	data, err := (&wire.Message{Header: h, Payloads: []wire.Payload{r.notify()}}).Encode()
	if err == nil {
		sa.send(p.Path, data)
	}
	sa.refused(r, "")
	sa.finish(r.Code, r.Why, false)
}

// agreeInit computes the key exchange and answers. A public value that RFC 6989 refuses is dropped (its section 2.5).
func (sa *SA) agreeInit(m *message, candidates []*policy.Connection, chosen wire.Proposal, wanted suite.IKE, public, ni []byte) {
	group, seed, peer := wanted.Group, sa.draw(keyOctets), slices.Clone(public)
	sa.job(JobInit, func() any { return bothHalves(group, seed, peer) }, func(result any) {
		k, ok := result.(keyPair)
		if !ok {
			k.err = errors.New(notComputed)
		}
		if k.err != nil {
			sa.drop("an IKE_SA_INIT request from %v with an unusable key: %v", m.path.Remote, k.err)
			return
		}
		sa.respondInit(m, candidates, chosen, wanted, k, ni)
	})
}

// bothHalves draws a key pair and computes the shared secret with the peer's public value.
func bothHalves(group wire.GroupID, seed, peer []byte) keyPair {
	defer clear(seed)
	kx, err := suite.NewKeyExchange(group, bytes.NewReader(seed))
	if err != nil {
		return keyPair{err: err}
	}
	defer kx.Wipe()
	shared, err := kx.Shared(peer)
	return keyPair{kx: kx, shared: shared, err: err}
}

// respondInit sends the answer; from now on IKE_AUTH is waited for.
func (sa *SA) respondInit(m *message, candidates []*policy.Connection, chosen wire.Proposal, wanted suite.IKE, k keyPair, ni []byte) {
	defer k.shared.Wipe()
	// A nonce no longer than the peer's keeps the answer no longer than the request: its source may be forged, and the shard would have to ask
	// for a COOKIE first.
	nr := sa.draw(min(nonceLen, len(ni)))
	found, supported := detectNAT(m.Header, m.payloads, m.path)
	sa.nat = found
	sa.nat.faked = supported && sa.wantsEncap(candidates...)
	sa.mobility.natt = supported
	h := sa.header(wire.IKESAInit, true, 0)
	ps := []wire.Payload{&wire.SA{Proposals: []wire.Proposal{chosen}}, &wire.KE{Group: wanted.Group, Data: k.kx.Public()}, &wire.Nonce{Data: nr}}
	if supported {
		ps = append(ps, natPayloads(h.SPIi, h.SPIr, m.path, sa.nat.faked)...)
	}
	takes := func(c *policy.Connection) bool { return !c.Fragments.Off }
	if announced(m.payloads) && slices.ContainsFunc(candidates, takes) {
		ps, sa.fragments.agreed = announces(ps), true
	}
	hashes := peerHashes(m.payloads)
	if hashes != nil {
		ps = append(ps, signatureHashes(candidates...)...)
	}
	ps = append(ps, certRequests(candidates...)...)
	data, err := (&wire.Message{Header: h, Payloads: ps}).Encode()
	if err == nil {
		err = sa.derive(wanted, k.shared, ni, nr)
	}
	if err != nil {
		sa.fail(&Refusal{Code: CodeInternal, Stage: "IKE_SA_INIT", Why: fmt.Sprintf("cannot answer IKE_SA_INIT: %v", err)})
		return
	}
	p := &authenticating{limit: sa.since.Add(halfOpenLimit), initI: m.raw, initR: data, ni: ni, nr: nr, candidates: candidates, hashes: hashes, from: m.path.Remote.Addr()}
	sa.responses.next = 1
	sa.send(m.path, data)
	sa.report(Report{Code: CodeChosen, Text: fmt.Sprintf("chose %v for %v; %s", wanted, m.path.Remote, sa.natText()), Detail: sa.spiText()})
	sa.enter(p, "suite agreed")
}
