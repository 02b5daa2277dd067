package ike

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

// childAsk is a peer's request for a child, in IKE_AUTH or CREATE_CHILD_SA.
type childAsk struct {
	payloads []wire.Payload
	stage    string
	ni, nr   []byte
	create   bool // CREATE_CHILD_SA: own nonces, perhaps a key exchange
	contact  bool // with INITIAL_CONTACT
	replaces *child
}

// onCreateRequest: the peer wants a further child, a new one for an old, or a new IKE SA.
func (sa *SA) onCreateRequest(m *message) {
	const stage = "CREATE_CHILD_SA"
	if sa.phase.name() == phaseClosing { // RFC 7296 section 2.25.2
		sa.refuse(temporary(stage, "the peer's CREATE_CHILD_SA came while the IKE SA is closing"))
		return
	}
	if m.rule.mark != carriesIKEProposal && (sa.rekeyingIKE() || sa.held() || sa.next.pending != 0) { // RFC 7296 section 2.25.2
		sa.refuse(temporary(stage, "the peer wants a child while the IKE SA is being rekeyed"))
		return
	}
	nonce, _ := wire.Find[*wire.Nonce](m.payloads)
	ask := &childAsk{payloads: m.payloads, stage: stage, ni: nonce.Data, nr: sa.draw(nonceLen), create: true}
	switch m.rule.mark {
	case carriesIKEProposal:
		sa.onRekeyIKERequest(m)
		return
	case carriesRekey:
		old, r := sa.rekeyed(m)
		if r != nil {
			sa.refuse(r)
			return
		}
		ask.replaces = old
		old.peerRekeys++
	}
	sa.answerChild(ask, func(c *child, r *Refusal) {
		if r != nil {
			sa.refuse(r)
		} else {
			sa.respond(c.answer...)
			c.answer = nil
			sa.childUp(c)
		}
		if old := ask.replaces; old != nil && !sa.finished {
			old.peerRekeys--
			sa.settle(old)
		}
	})
}

// rekeyed finds the child that REKEY_SA names by the SPI on which the peer receives (RFC 7296 sections 1.3.3, 2.25.1).
func (sa *SA) rekeyed(m *message) (*child, *Refusal) {
	n, _ := wire.FindNotify(m.payloads, wire.NotifyRekeySA)
	spi, ok := n.ChildSPI()
	if !ok {
		return nil, invalidSyntax("CREATE_CHILD_SA", "REKEY_SA for protocol %d with an SPI of %d octets", n.Protocol, len(n.SPI))
	}
	c := sa.childByOutbound(spi)
	switch {
	case c == nil && sa.awaitsChild(): // it may be the one that the answer, late or lost, brings
		return nil, temporary("CREATE_CHILD_SA", "the peer wants to rekey a child of which we have not heard yet")
	case c == nil || n.Protocol != wire.ProtoESP:
		return nil, &Refusal{Notify: wire.NotifyChildSANotFound, Protocol: n.Protocol, SPI: n.SPI, Stage: "CREATE_CHILD_SA", Code: CodeIgnored,
			Why: fmt.Sprintf("the peer wants to rekey ESP SPI %08x, which is not there", spi)}
	case c.deleting:
		return nil, temporary("CREATE_CHILD_SA", "the peer wants to rekey a child that we are deleting")
	}
	return c, nil
}

// awaitsChild: a CREATE_CHILD_SA of ours is on its way, and the peer may have made its child already.
func (sa *SA) awaitsChild() bool {
	_, ok := sa.requests.current.(*createExchange)
	return ok
}

// answerChild chooses and installs; then is called once, with the child whose answer payloads are ready, or with the refusal.
func (sa *SA) answerChild(a *childAsk, then func(*child, *Refusal)) {
	c, choice, r := sa.chooseChild(a)
	if r != nil {
		then(nil, r)
		return
	}
	if choice.Group == wire.GroupNone {
		sa.makeChild(a, c, choice, keyPair{}, then)
		return
	}
	ke, _ := wire.Find[*wire.KE](a.payloads)
	group, seed, peer := choice.Group, sa.draw(keyOctets), ke.Data
	sa.job(sa.jobClass(), func() any { return bothHalves(group, seed, peer) }, func(result any) {
		k, ok := result.(keyPair)
		switch {
		case !ok:
			then(nil, temporary(a.stage, notComputed))
		case errors.Is(k.err, suite.ErrPublicValue): // RFC 6989 section 2.5
			then(nil, invalidSyntax(a.stage, "an unusable key: %v", k.err))
		case k.err != nil:
			then(nil, temporary(a.stage, fmt.Sprintf("key exchange: %v", k.err)))
		case sa.phase.name() != phaseEstablished:
			k.shared.Wipe()
			then(nil, temporary(a.stage, "the IKE SA is closing"))
		default:
			sa.makeChild(a, c, choice, k, then)
			k.shared.Wipe()
		}
	})
}

// chooseChild narrows the selectors and chooses a suite.
func (sa *SA) chooseChild(a *childAsk) (*child, policy.ESPChoice, *Refusal) {
	none := policy.ESPChoice{}
	offer, _ := wire.Find[*wire.SA](a.payloads)
	tsi, _ := wire.FindTS(a.payloads, false)
	tsr, _ := wire.FindTS(a.payloads, true)
	if len(sa.children) >= sa.maxChildren() {
		return nil, none, &Refusal{Notify: wire.NotifyNoAdditionalSAs, Stage: a.stage, Code: CodePeerError,
			Why: fmt.Sprintf("the peer wants a further child and has %d", len(sa.children))}
	}
	if r := sa.canCarry(); r != nil {
		return nil, none, r
	}
	cfg, i, r, refusal := sa.narrow(a, tsi.Selectors, tsr.Selectors)
	if refusal != nil {
		return nil, none, refusal
	}
	ke, hasKE := wire.Find[*wire.KE](a.payloads)
	group := wire.GroupNone
	if hasKE {
		group = ke.Group
	}
	choice, mm := policy.ChooseESP(cfg, offer.Proposals, a.create, group, sa.config.Caps)
	switch {
	case mm != nil:
		return nil, none, mismatch(a.stage, CodeNoProposal, mm)
	case choice.Group != wire.GroupNone && choice.Group != group: // RFC 7296 section 1.3
		return nil, none, &Refusal{Notify: wire.NotifyInvalidKEPayload, Data: binary.BigEndian.AppendUint16(nil, uint16(choice.Group)),
			Stage: a.stage, Code: CodeIgnored,
			Why: fmt.Sprintf("the peer's child has a key of %s, asked for %s", suite.DHName(group), suite.DHName(choice.Group))}
	}
	c := &child{config: cfg, spiOut: choice.SPI, suite: choice.Suite, group: choice.Group, local: r, remote: i, replaces: a.replaces, rekeys: a.replaces}
	if a.replaces != nil {
		c.narrowed = a.replaces.narrowed
	}
	if a.create {
		c.nonce, c.begun = lowest(a.ni, a.nr), sa.now
	}
	return c, choice, nil
}

// narrow finds the child that is meant and what both sides allow. A rekeyed child keeps its configuration, and must not become narrower
// than it is (RFC 7296 section 2.9.2).
func (sa *SA) narrow(a *childAsk, tsi, tsr []wire.TrafficSelector) (cfg *policy.Child, i, r []policy.TS, _ *Refusal) {
	var mm *policy.Mismatch
	old := a.replaces
	if old == nil {
		cfg, i, r, mm = policy.Narrow(sa.conn, tsi, tsr)
	} else {
		cfg = old.config
		i, r, mm = policy.NarrowTo(sa.conn, cfg, tsi, tsr)
	}
	switch {
	case mm != nil:
		return nil, nil, nil, mismatch(a.stage, CodeNoSelectors, mm)
	case old != nil && !(policy.Within(old.remote, i) && policy.Within(old.local, r)):
		return nil, nil, nil, &Refusal{Notify: wire.NotifyTSUnacceptable, Stage: a.stage, Code: CodeNoSelectors,
			Why: fmt.Sprintf("the peer rekeys child %s with narrower selectors: %s <-> %s", cfg.Name, strings.Join(texts(r), ", "), strings.Join(texts(i), ", "))}
	}
	return cfg, i, r, nil
}

// maxChildren bounds what an authenticated peer can make us keep: rekeys overlap, and some peers raise a child twice.
func (sa *SA) maxChildren() int { return 8 + 4*len(sa.conn.Children) }

// makeChild derives keys and installs. The answer does not leave before the inbound SA is there (RFC 7296 section 2.8).
func (sa *SA) makeChild(a *childAsk, c *child, choice policy.ESPChoice, k keyPair, then func(*child, *Refusal)) {
	if err := sa.deriveKeys(c, k.shared, a.ni, a.nr); err != nil {
		then(nil, temporary(a.stage, fmt.Sprintf("cannot derive the child's keys: %v", err)))
		return
	}
	sa.installAnswer(a, c, choice, k, 1, then)
}

// installAnswer draws an SPI and installs; when the data plane says that it is taken, again: the answer has not left.
func (sa *SA) installAnswer(a *childAsk, c *child, choice policy.ESPChoice, k keyPair, try int, then func(*child, *Refusal)) {
	c.spiIn = sa.drawSPI()
	keys := *c.keys
	c.keys = &suite.ChildKeys{EncrI2R: keys.EncrI2R.Clone(), IntegI2R: keys.IntegI2R.Clone(), EncrR2I: keys.EncrR2I.Clone(), IntegR2I: keys.IntegR2I.Clone()}
	sa.install(c, func(err error) {
		var op *xfrm.OpError
		var held *xfrm.HeldError
		switch {
		case err == nil && c.gone:
			keys.Wipe()
			then(nil, temporary(a.stage, "the child was lowered before it was up"))
		case err == nil:
			keys.Wipe()
			if c.out == absent { // it replaces another
				c.outboundDue = sa.now.Add(rekeyedLimit)
			}
			c.answer = answerPayloads(a, c, choice, k)
			then(c, nil)
		case errors.As(err, &op) && errors.Is(err, xfrm.ErrExists) && isAdd(op, xfrm.In) && try < maxInstalls:
			c.gone, c.in, c.out, c.keys = false, absent, absent, &keys
			sa.installAnswer(a, c, choice, k, try+1, then)
		case a.contact && errors.As(err, &op) && errors.As(err, &held) && isAdd(op, xfrm.Out) && try < contactTries:
			sa.awaitRoom(func() {
				if sa.phase.name() != phaseEstablished {
					keys.Wipe()
					then(nil, temporary(a.stage, "the IKE SA is closing"))
					return
				}
				c.gone, c.in, c.out, c.keys = false, absent, absent, &keys
				sa.installAnswer(a, c, choice, k, try+1, then)
			}, keys.Wipe)
		default:
			keys.Wipe()
			then(nil, errInstall(a.stage, err))
		}
	})
}

// answerPayloads are SA, Nr, KEr, TSi and TSr, in IKE_AUTH without nonce.
func answerPayloads(a *childAsk, c *child, choice policy.ESPChoice, k keyPair) []wire.Payload {
	p := choice.Proposal
	p.SPI = binary.BigEndian.AppendUint32(nil, c.spiIn)
	ps := []wire.Payload{&wire.SA{Proposals: []wire.Proposal{p}}}
	if a.create {
		ps = append(ps, &wire.Nonce{Data: a.nr})
	}
	if choice.Group != wire.GroupNone {
		ps = append(ps, &wire.KE{Group: choice.Group, Data: k.kx.Public()})
	}
	return append(ps, &wire.TS{Selectors: policy.WireTS(c.remote)}, &wire.TS{Responder: true, Selectors: policy.WireTS(c.local)})
}

// onFirstUse: traffic on the new inbound SA shows that the peer has the new pair, so that we may send on it (RFC 7296 section 2.8).
func (sa *SA) onFirstUse(id xfrm.SAID) {
	if c := sa.childByInbound(id); c != nil {
		sa.reached(sa.now)
		sa.startSending(c)
		sa.peerHas(c)
	}
}

// startSending installs the outbound SA of a rekeyed child.
func (sa *SA) startSending(c *child) {
	if c.in != installed || c.out != absent || c.deleting || c.gone || sa.mute() {
		return
	}
	c.outboundDue = 0
	c.out = installing
	b := xfrm.Batch{Lineage: sa.lineage(c), Add: []xfrm.SA{sa.outbound(c)}, Claims: c.claims()}
	sa.sadb(b, func(d SADBDone) { sa.outboundDone(c, d.Err) })
}

// outboundDone: without an outbound SA the child is useless, and the peer is told.
func (sa *SA) outboundDone(c *child, err error) {
	switch {
	case c.gone:
	case err == nil:
		sa.sending(c)
	default:
		c.out = absent
		sa.refused(errInstall("CREATE_CHILD_SA", err), c.config.Name)
		sa.deleteChild(c, "the data plane refused its outbound SA")
	}
}

// sendsAt is when a rekeyed child sends at the latest. Its Delete may wait for the window: then it never does.
func (c *child) sendsAt() (Time, bool) {
	return c.outboundDue, c.outboundDue != 0 && c.in == installed && c.out == absent && !c.deleting
}

func (sa *SA) wakeChildren() {
	for _, c := range sa.children {
		if sa.due(c.sendsAt()) {
			sa.startSending(c)
		}
	}
}
