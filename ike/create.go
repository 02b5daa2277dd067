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
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

const (
	maxTemporary = 3 // tries after TEMPORARY_FAILURE
	maxInstalls  = 3 // SPIs drawn when the data plane says that one is taken
)

// createExchange is our CREATE_CHILD_SA for a further child, or for one that replaces another (RFC 7296 sections 1.3.1, 1.3.3).
type createExchange struct {
	config    *policy.Child
	old       *child // that is rekeyed; nil: none
	packet    *xfrm.Selector
	plan      *childPlan
	group     wire.GroupID // of the KE payload, 0: none
	tried     []wire.GroupID
	kx        *suite.KeyExchange
	nonce     []byte
	temporary int
	installs  int
}

func (x *createExchange) name() string {
	if x.old != nil {
		return "CREATE_CHILD_SA to rekey child " + x.config.Name
	}
	return "CREATE_CHILD_SA for child " + x.config.Name
}

func (x *createExchange) start(sa *SA) {
	if x.obsolete(sa) {
		sa.done(x)
		return
	}
	plan, r := x.prepare(sa)
	if r != nil {
		x.end(sa, r)
		return
	}
	x.plan = plan
	if len(x.tried) == 0 {
		x.group = x.firstGroup()
	}
	x.tried = append(x.tried, x.group)
	x.nonce = sa.draw(nonceLen)
	if x.group == wire.GroupNone {
		x.send(sa)
		return
	}
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

func (x *createExchange) send(sa *SA) {
	var ps []wire.Payload
	if x.old != nil {
		ps = append(ps, wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoESP, x.old.spiIn))
	}
	ps = append(ps, &wire.SA{Proposals: x.plan.offered}, &wire.Nonce{Data: x.nonce})
	if x.kx != nil {
		ps = append(ps, &wire.KE{Group: x.group, Data: x.kx.Public()})
	}
	ps = append(ps, x.plan.payloads()[1:]...)
	sa.request(wire.CreateChildSA, sa.schedule(), ps...)
	sa.report(Report{Child: x.config.Name, Code: CodeSent, Text: "CREATE_CHILD_SA sent to " + sa.path.Remote.String()})
}

// end ends the exchange without a child.
func (x *createExchange) end(sa *SA, r *Refusal) {
	sa.done(x)
	sa.refused(sa.notRekeyed(x.old, r), x.config.Name)
}

func (x *createExchange) wipe() {
	if x.kx != nil {
		x.kx.Wipe()
		x.kx = nil
	}
}

func (x *createExchange) onResponse(sa *SA, m *message) {
	if sa.phase.name() != phaseEstablished { // the IKE SA goes, and the child with it
		sa.done(x)
		return
	}
	if m.rule.mark == carriesErrorAlone {
		x.onError(sa, errorNotify(m.payloads))
		return
	}
	answer, _ := wire.Find[*wire.SA](m.payloads)
	nonce, _ := wire.Find[*wire.Nonce](m.payloads)
	ke, hasKE := wire.Find[*wire.KE](m.payloads)
	choice, mm := policy.CheckESP(x.plan.offered, answer.Proposals)
	switch {
	case errorNotify(m.payloads) != nil || mm != nil || choice.Group == wire.GroupNone: // RFC 7296 section 3.3.6: then no KE counts
		sa.concludeChild(x, x.plan, m.payloads, alg.Secret{}, x.nonce, nonce.Data)
	case !hasKE || ke.Group != choice.Group || ke.Group != x.group || x.kx == nil:
		sa.discard(x, x.plan, &Refusal{Stage: x.name(), Code: CodeProtocol, Why: fmt.Sprintf("the peer chose %s and sent no key of it", suite.DHName(choice.Group))})
	default:
		x.agree(sa, m, ke.Data, nonce.Data)
	}
}

// agree computes the shared secret. An unusable public value ends the IKE SA (RFC 6989 section 2.5).
func (x *createExchange) agree(sa *SA, m *message, public, nr []byte) {
	kx := x.kx
	x.kx = nil
	sa.jobOf(x, sa.jobClass(), func() any {
		defer kx.Wipe()
		shared, err := kx.Shared(public)
		return keyPair{shared: shared, err: err}
	}, func(result any) {
		k, ok := result.(keyPair)
		switch {
		case !ok:
			sa.discard(x, x.plan, &Refusal{Stage: x.name(), Code: CodeInternal, Why: notComputed})
		case sa.phase.name() != phaseEstablished:
			k.wipe()
			sa.done(x)
		case k.err != nil:
			sa.bad(x, &Refusal{Stage: x.name(), Code: CodeProtocol, Why: fmt.Sprintf("the peer sent an unusable key: %v", k.err)})
		default:
			defer k.shared.Wipe()
			sa.concludeChild(x, x.plan, m.payloads, k.shared, x.nonce, nr)
		}
	})
}

// onError: the peer refuses the child.
func (x *createExchange) onError(sa *SA, n *wire.Notify) {
	x.wipe()
	if n.Kind == wire.NotifyInvalidKEPayload && len(n.Data) == 2 {
		g := wire.GroupID(binary.BigEndian.Uint16(n.Data))
		if (g == wire.GroupNone || suite.Supported(g)) && policy.OffersGroup(x.plan.offered, g) && !slices.Contains(x.tried, g) && len(x.tried) < maxGroups {
			x.group = g
			x.start(sa)
			return
		}
	}
	if x.rekeyRefused(sa, n) {
		return
	}
	if n.Kind == wire.NotifyTemporaryFailure && x.temporary < maxTemporary {
		x.temporary++
		x.tried = nil
		sa.done(x)
		sa.postpone(temporaryDelay, x)
		sa.ignored("the peer is busy (TEMPORARY_FAILURE); %s again in %v", x.name(), temporaryDelay)
		return
	}
	r := childRefused(sa, x.config, x.plan, n)
	if n.Kind == wire.NotifyInvalidSyntax { // RFC 7296 section 2.21.3: fatal for both
		sa.done(x)
		sa.fail(r)
		return
	}
	x.end(sa, r)
}

func (x *createExchange) onFailure(sa *SA, r *Refusal) { sa.lost(x, r) }

// concludeChild takes the answer to our offer, in IKE_AUTH or CREATE_CHILD_SA, and installs the child.
func (sa *SA) concludeChild(x exchange, plan *childPlan, ps []wire.Payload, shared alg.Secret, ni, nr []byte) {
	if n := errorNotify(ps); n != nil { // in IKE_AUTH: the IKE SA is up, the child is not
		if r := childRefused(sa, plan.config, plan, n); has(ps, wire.PayloadSA) {
			sa.discard(x, plan, r)
		} else {
			sa.done(x)
			sa.refused(sa.notRekeyed(plan.old, r), plan.config.Name)
		}
		return
	}
	c, r := sa.acceptAnswer(plan, ps)
	if r == nil {
		if err := sa.deriveKeys(c, shared, ni, nr); err != nil {
			r = &Refusal{Stage: x.name(), Code: CodeInternal, Why: fmt.Sprintf("cannot derive the child's keys: %v", err)}
		}
	}
	if r != nil {
		sa.discard(x, plan, r)
		return
	}
	c.nonce = lowest(ni, nr)
	if _, ok := x.(*createExchange); ok {
		c.begun = sa.requests.first
	}
	c.redundant = sa.outdone(c)
	sa.install(c, func(err error) {
		sa.done(x)
		switch {
		case err != nil:
			sa.notInstalled(x, plan, err)
		case c.gone:
		case plan.cancelled != "":
			sa.report(Report{Child: c.config.Name, Code: CodeClosed, Text: plan.cancelled})
			sa.deleteChild(c, plan.cancelled)
		case c.redundant:
			sa.giveUp(c)
		default:
			sa.childUp(c)
			if plan.old != nil {
				sa.settle(plan.old)
			}
		}
	})
}

// acceptAnswer checks the peer's choice against our offer.
func (sa *SA) acceptAnswer(plan *childPlan, ps []wire.Payload) (*child, *Refusal) {
	answer, okSA := wire.Find[*wire.SA](ps)
	tsi, okI := wire.FindTS(ps, false)
	tsr, okR := wire.FindTS(ps, true)
	if !okSA || !okI || !okR {
		return nil, &Refusal{Stage: "CREATE_CHILD_SA", Code: CodeProtocol, Why: "the peer's answer holds neither a child nor the reason why there is none"}
	}
	choice, mm := policy.CheckESP(plan.offered, answer.Proposals)
	if mm != nil {
		return nil, mismatch("CREATE_CHILD_SA", CodeNoProposal, mm)
	}
	if slices.Contains(sa.early, choice.SPI) {
		return nil, &Refusal{Stage: "CREATE_CHILD_SA", Code: CodePeerError, Why: "the peer deleted the child before its answer came"}
	}
	i, r, mm := policy.CheckNarrowed(plan.config, tsi.Selectors, tsr.Selectors)
	if mm != nil {
		return nil, mismatch("CREATE_CHILD_SA", CodeNoSelectors, mm)
	}
	c := &child{config: plan.config, spiIn: plan.spi, spiOut: choice.SPI, suite: choice.Suite, group: choice.Group, local: i, remote: r, initiated: true}
	c.narrowed = c.narrowing()
	if old := plan.old; old != nil {
		if r := sameSelectors(old, i, r); r != nil {
			return nil, r
		}
		c.narrowed = old.narrowed
		c.rekeys = old
		if !old.gone {
			c.replaces = old
		}
	}
	return c, nil
}

// discard: the peer has installed a child that we do not want; it is told to delete it (RFC 7296 section 2.21).
func (sa *SA) discard(x exchange, plan *childPlan, r *Refusal) {
	sa.done(x)
	sa.refused(sa.notRekeyed(plan.old, r), plan.config.Name)
	sa.enqueue(&deleteExchange{spis: []uint32{plan.spi}})
}

// notInstalled: our data plane refuses. The peer is told to delete its half; when only our SPI was taken we ask anew.
func (sa *SA) notInstalled(x exchange, plan *childPlan, err error) {
	sa.enqueue(&deleteExchange{spis: []uint32{plan.spi}})
	var op *xfrm.OpError
	if errors.As(err, &op) && errors.Is(err, xfrm.ErrExists) && isAdd(op, xfrm.In) {
		again := &createExchange{config: plan.config, installs: 1}
		if c, ok := x.(*createExchange); ok {
			again.installs, again.packet, again.old = c.installs+1, c.packet, c.old
		}
		if again.installs < maxInstalls {
			sa.enqueue(again)
			return
		}
	}
	sa.refused(sa.notRekeyed(plan.old, errInstall(x.name(), err)), plan.config.Name)
}

func isAdd(e *xfrm.OpError, d xfrm.Direction) bool {
	add, ok := e.Op.(xfrm.AddSA)
	return ok && add.SA.Direction == d
}

// raiseChild asks for a further child.
func (sa *SA) raiseChild(e RaiseChild) {
	if sa.conn == nil {
		return
	}
	cfg := sa.childConfig(e.Child)
	if cfg == nil {
		sa.report(Report{Child: e.Child, Code: CodeInternal, Text: "the connection has no such child"})
		return
	}
	if c := sa.findChild(func(c *child) bool { return c.config == cfg && c.up && !c.deleting }); c != nil {
		sa.report(Report{Child: e.Child, Code: CodeChildUp, Text: "is up: " + sa.childText(c), Detail: c.spiText()})
		return
	}
	switch sa.phase.name() {
	case phaseClosing:
		sa.report(Report{Child: e.Child, Code: CodeClosed, Text: "the IKE SA is closing"})
	default:
		if !sa.raising(cfg) {
			sa.enqueue(&createExchange{config: cfg, packet: e.Packet})
		}
	}
}

// raising reports whether a child is already on its way.
func (sa *SA) raising(cfg *policy.Child) bool {
	is := func(x exchange) bool {
		switch x := x.(type) {
		case *createExchange:
			return x.config == cfg
		case *authExchange:
			return slices.Contains(x.children, cfg.Name)
		case *initExchange:
			return slices.Contains(x.children, cfg.Name)
		}
		return false
	}
	return is(sa.requests.current) || slices.ContainsFunc(sa.queue, is) ||
		slices.ContainsFunc(sa.postponed, func(p postponed) bool { return is(p.x) }) ||
		sa.findChild(func(c *child) bool { return c.config == cfg && !c.up && !c.deleting }) != nil
}
