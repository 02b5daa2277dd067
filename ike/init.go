package ike

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm/alg"
)

const (
	nonceLen = 32 // octets; at least half the key of every PRF (RFC 7296 section 2.10)
	// keyOctets are drawn for a key exchange, whose job must not touch Config.Rand: enough for the rejections that NIST curves need.
	keyOctets = 1024
	// maxCookies and maxGroups bound the loop of RFC 7296 section 2.6.
	maxCookies = 3
	maxGroups  = 4
	// refusalGrace: an unprotected refusal may be forged, so the true answer is waited for (RFC 7296 section 2.21.1).
	refusalGrace = 4 * time.Second
)

// initExchange is the initiator's IKE_SA_INIT (RFC 7296 section 1.2).
type initExchange struct {
	children []string
	others   []netip.Addr // further addresses of the peer
	offered  []wire.Proposal
	group    wire.GroupID
	tried    []wire.GroupID
	kx       *suite.KeyExchange // nil while a job has it
	public   []byte
	nonce    []byte
	cookie   []byte
	cookies  int
	fake     bool
	busy     bool     // a response is being worked on
	refusal  *Refusal // what an unprotected error said
	giveUp   Time     // when the refusal is believed
}

func (*initExchange) name() string { return "IKE_SA_INIT" }

func (x *initExchange) wipe() {
	if x.kx != nil {
		x.kx.Wipe()
		x.kx = nil
	}
}

// initiate begins an attempt.
func (sa *SA) initiate(e Initiate) {
	p, ok := sa.phase.(*opening)
	if !ok || !sa.initiator || p.limit != 0 {
		return
	}
	sa.since = sa.now
	p.limit = sa.now.Add(openingLimit)
	x := &initExchange{children: e.Children, offered: policy.OfferIKE(sa.conn)}
	if len(x.children) == 0 {
		for _, c := range sa.conn.Children {
			x.children = append(x.children, c.Name)
		}
	}
	for _, name := range x.children {
		if sa.childConfig(name) == nil {
			sa.fail(&Refusal{Code: CodeInternal, Why: fmt.Sprintf("the connection has no child %q", name)})
			return
		}
	}
	x.group = policy.FirstGroup(x.offered)
	if len(x.children) == 0 || x.group == wire.GroupNone {
		sa.fail(&Refusal{Code: CodeInternal, Why: "the connection has no child or no key exchange method to offer", Hint: where(sa.conn, "ike")})
		return
	}
	sa.begin(x)
}

// start looks up addresses where the configuration leaves them open.
func (x *initExchange) start(sa *SA) {
	local, remote := sa.conn.Local.Address, sa.conn.Remote.Address
	if local.IsValid() && remote.IsValid() {
		x.aim(sa, local, remote)
		return
	}
	x.resolve(sa, Resolve{Local: local, Remote: remote, Name: sa.conn.Remote.Name})
}

func (x *initExchange) resolve(sa *SA, r Resolve) {
	if !r.Remote.IsValid() && r.Name == "" {
		sa.fail(&Refusal{Code: CodeResolve, Why: "the peer's address is not configured, so only the peer can begin", Hint: where(sa.conn, "remote.address", "remote")})
		return
	}
	r.Token = sa.wait(func(ev Event) {
		d, ok := ev.(ResolveDone)
		if !ok || !sa.current(x) {
			return
		}
		if d.Err != nil || len(d.Remote) == 0 || !d.Local.IsValid() {
			sa.fail(unresolved(sa.conn, r, d))
			return
		}
		if len(d.Remote) > 1 {
			x.others = d.Remote[1:]
		}
		x.aim(sa, d.Local, d.Remote[0])
	})
	sa.out.Add(r)
}

func unresolved(c *policy.Connection, r Resolve, d ResolveDone) *Refusal {
	what := r.Name
	if r.Remote.IsValid() {
		what = r.Remote.String()
	}
	why := "no address was found"
	switch {
	case d.Err != nil:
		why = d.Err.Error()
	case len(d.Remote) > 0:
		why = "this host has no address to reach it from"
	}
	return &Refusal{Code: CodeResolve, Why: fmt.Sprintf("cannot reach %s: %s", what, why), Hint: where(c, "remote.address", "remote")}
}

// aim sets the path and draws keys for it.
func (x *initExchange) aim(sa *SA, local, remote netip.Addr) {
	sa.path = sa.firstPath(local.Unmap(), remote.Unmap())
	x.fake = sa.wantsEncap(sa.conn)
	x.nonce = sa.draw(nonceLen)
	x.exchangeKeys(sa)
}

// keyPair is what the jobs of a key exchange return.
type keyPair struct {
	kx     *suite.KeyExchange
	shared alg.Secret
	err    error
}

func (k keyPair) wipe() {
	if k.kx != nil {
		k.kx.Wipe()
	}
	k.shared.Wipe()
}

// exchangeKeys draws a key pair in the present group and sends the request.
func (x *initExchange) exchangeKeys(sa *SA) {
	x.wipe()
	x.tried = append(x.tried, x.group)
	x.busy = true
	group, seed := x.group, sa.draw(keyOctets)
	sa.jobOf(x, JobInit, func() any {
		defer clear(seed)
		kx, err := suite.NewKeyExchange(group, bytes.NewReader(seed))
		return keyPair{kx: kx, err: err}
	}, func(result any) {
		k := keyPairOf(result)
		if k.kx == nil {
			sa.fail(&Refusal{Code: CodeInternal, Stage: x.name(), Why: fmt.Sprintf("cannot make a key for %s: %v", suite.DHName(group), k.err)})
			return
		}
		x.busy, x.kx, x.public = false, k.kx, k.kx.Public()
		x.send(sa)
	})
}

// send sends the request, or sends it anew with a cookie or another group.
func (x *initExchange) send(sa *SA) {
	h := sa.header(wire.IKESAInit, false, 0)
	var ps []wire.Payload
	if x.cookie != nil { // RFC 7296 section 2.6: first, all else unchanged
		ps = append(ps, wire.NewNotify(wire.NotifyCookie, x.cookie))
	}
	ps = append(ps, &wire.SA{Proposals: x.offered}, &wire.KE{Group: x.group, Data: x.public}, &wire.Nonce{Data: x.nonce})
	ps = append(ps, natPayloads(h.SPIi, h.SPIr, sa.path, x.fake)...)
	ps = append(ps, signatureHashes(sa.conn)...)
	if !sa.conn.Fragments.Off {
		ps = announces(ps)
	}
	data, err := (&wire.Message{Header: h, Payloads: ps}).Encode()
	if err != nil {
		sa.fail(&Refusal{Code: CodeInternal, Stage: x.name(), Why: fmt.Sprintf("cannot build the IKE_SA_INIT request: %v", err)})
		return
	}
	again := x.cookie != nil || len(x.tried) > 1
	sa.requests.launch(sa.now, whole(h, data), openingSchedule())
	sa.send(sa.path, data)
	if !again {
		sa.report(Report{Code: CodeSent, Text: "IKE_SA_INIT sent to " + sa.path.Remote.String()})
	}
}

// onInit sorts an unprotected IKE_SA_INIT message.
func (sa *SA) onInit(p Packet, m *wire.Message) {
	switch x, mine := sa.requests.current.(*initExchange); {
	case !m.Response() && !sa.initiator:
		sa.onInitRequest(p, m)
	case m.Response() && mine && !x.busy && sa.requests.answers(m.Header) && m.SPIi == sa.config.SPI && !m.Initiator():
		x.onPacket(sa, p, m)
	}
}

// onPacket looks at a response. Nothing in it is proved: what cannot be used is dropped, and the attempt goes on.
func (x *initExchange) onPacket(sa *SA, p Packet, m *wire.Message) {
	if len(p.Data) > wire.MaxInit {
		sa.noise("an IKE_SA_INIT response from %v of %d octets, more than %d", p.Remote, len(p.Data), wire.MaxInit)
		return
	}
	row := ruleFor(m.Header, phaseOpening, m.Payloads)
	if row == nil || hasCritical(m.Payloads) {
		return
	}
	kept, _, err := row.apply(m.Payloads)
	if err != nil {
		sa.noise("an IKE_SA_INIT response from %v: %v", p.Remote, err)
		return
	}
	msg := &message{Header: m.Header, payloads: kept, rule: row, path: p.Path, raw: p.Data}
	switch row.mark {
	case carriesCookie:
		x.onCookie(sa, msg)
	case carriesError:
		x.onError(sa, msg)
	default:
		x.onResponse(sa, msg)
	}
}

// onCookie asks again with the peer's cookie (RFC 7296 section 2.6).
func (x *initExchange) onCookie(sa *SA, m *message) {
	n, _ := wire.FindNotify(m.payloads, wire.NotifyCookie)
	if len(n.Data) < 1 || len(n.Data) > 64 || x.cookies >= maxCookies || bytes.Equal(n.Data, x.cookie) {
		sa.noise("a COOKIE of %d octets from %v", len(n.Data), m.path.Remote)
		return
	}
	x.cookies++
	x.cookie = slices.Clone(n.Data)
	x.send(sa)
}

// onError corrects the group, or remembers the reason until the attempt is given up.
func (x *initExchange) onError(sa *SA, m *message) {
	n := errorNotify(m.payloads)
	if g, ok := wantedGroup(n); ok {
		// RFC 7296 section 1.2: again with the full list of proposals, which shows that we offered the group ourselves.
		// Back to a group that was sent before too: what led away from it may have been forged. maxGroups bounds how often.
		if policy.OffersGroup(x.offered, g) && suite.Supported(g) && g != x.group && len(x.tried) < maxGroups {
			sa.ignored("the peer wants %s in place of %s", suite.DHName(g), suite.DHName(x.group))
			x.group = g
			sa.requests.forget()
			x.exchangeKeys(sa)
			return
		}
	}
	x.doubt(sa, initRefused(sa, x, n))
}

// wantedGroup is what an INVALID_KE_PAYLOAD asks for.
func wantedGroup(n *wire.Notify) (wire.GroupID, bool) {
	if n.Kind != wire.NotifyInvalidKEPayload || len(n.Data) != 2 {
		return wire.GroupNone, false
	}
	return wire.GroupID(binary.BigEndian.Uint16(n.Data)), true
}

// doubt remembers an unproved refusal. The first one is believed when the grace is over.
func (x *initExchange) doubt(sa *SA, r *Refusal) {
	if x.refusal == nil {
		x.refusal, x.giveUp = r, sa.now.Add(refusalGrace)
		sa.ignored("%s; waiting a little for another answer, as this one is not proved", r.Why)
	}
}

// onResponse takes the peer's choice.
func (x *initExchange) onResponse(sa *SA, m *message) {
	answer, _ := wire.Find[*wire.SA](m.payloads)
	ke, _ := wire.Find[*wire.KE](m.payloads)
	nonce, _ := wire.Find[*wire.Nonce](m.payloads)
	chosen, mm := policy.CheckIKE(x.offered, answer.Proposals)
	switch {
	case m.SPIr == 0:
		sa.noise("an IKE_SA_INIT response from %v without an SPI", m.path.Remote)
		return
	case mm != nil:
		x.doubt(sa, mismatch(x.name(), CodeNoProposal, mm))
		return
	case ke.Group != x.group || chosen.Group != x.group:
		sa.noise("an IKE_SA_INIT response from %v with %s and a key of %s, we sent one of %s", m.path.Remote,
			suite.DHName(chosen.Group), suite.DHName(ke.Group), suite.DHName(x.group))
		return
	case len(nonce.Data) < suite.PRFLen(chosen.PRF)/2:
		sa.noise("an IKE_SA_INIT response from %v with a nonce of %d octets, too short for the PRF", m.path.Remote, len(nonce.Data))
		return
	}
	x.agree(sa, m, chosen, ke.Data, nonce.Data)
}

// agree computes the shared secret. A public value that RFC 6989 refuses is dropped like a forged message.
func (x *initExchange) agree(sa *SA, m *message, chosen suite.IKE, public, nr []byte) {
	kx := x.kx
	x.busy, x.kx = true, nil
	sa.jobOf(x, JobInit, func() any {
		shared, err := kx.Shared(public)
		if err == nil {
			kx.Wipe()
		}
		return keyPair{kx: kx, shared: shared, err: err}
	}, func(result any) {
		k, ok := result.(keyPair)
		if !ok {
			sa.fail(&Refusal{Code: CodeInternal, Stage: x.name(), Why: notComputed})
			return
		}
		x.busy = false
		if k.err != nil {
			if !errors.Is(k.err, suite.ErrPublicValue) {
				sa.fail(&Refusal{Code: CodeInternal, Stage: x.name(), Why: fmt.Sprintf("key exchange: %v", k.err)})
				return
			}
			x.kx = k.kx
			x.doubt(sa, &Refusal{Code: CodeProtocol, Stage: x.name(), Why: fmt.Sprintf("%v sent an unusable key: %v", m.path.Remote, k.err)})
			return
		}
		x.conclude(sa, m, chosen, k.shared, nr)
	})
}

// conclude derives the keys and goes on to IKE_AUTH.
func (x *initExchange) conclude(sa *SA, m *message, chosen suite.IKE, shared alg.Secret, nr []byte) {
	defer shared.Wipe()
	sa.peerSPI = m.SPIr
	if err := sa.derive(chosen, shared, x.nonce, nr); err != nil {
		sa.fail(&Refusal{Code: CodeInternal, Stage: x.name(), Why: fmt.Sprintf("cannot derive keys: %v", err)})
		return
	}
	found, supported := detectNAT(m.Header, m.payloads, m.path)
	sa.nat = found
	sa.nat.faked = x.fake && supported
	sa.mobility.natt = supported
	sa.fragments.agreed = !sa.conn.Fragments.Off && announced(m.payloads)
	if sa.nat.encap() || sa.mayMOBIKE() { // RFC 4555 section 3.3: then no port has to change when a NAT comes up later
		sa.moveToNATT()
	}
	sa.report(Report{Code: CodeChosen, Text: fmt.Sprintf("peer chose %v; %s", chosen, sa.natText()), Detail: sa.spiText()})
	p := &authenticating{limit: sa.now.Add(openingLimit), initI: sa.requests.message.datagrams[0], initR: m.raw, ni: x.nonce, nr: nr,
		hashes: peerHashes(m.payloads), requests: wire.All[*wire.CertReq](m.payloads)}
	sa.requests.answered()
	sa.done(x)
	sa.enter(p, "suite agreed")
	sa.begin(&authExchange{children: x.children})
}

// derive makes the keys of the IKE SA.
func (sa *SA) derive(chosen suite.IKE, shared alg.Secret, ni, nr []byte) (err error) {
	i, r := sa.spis()
	if sa.keys, err = suite.Derive(chosen, shared, ni, nr, i, r); err != nil {
		return err
	}
	sa.suite = chosen
	sa.protect, err = suite.NewProtector(sa.keys, sa.initiator)
	return err
}

func (sa *SA) spiText() string {
	i, r := sa.spis()
	return fmt.Sprintf("IKE SPIs %016x (initiator), %016x (responder)", uint64(i), uint64(r))
}

// onFailure: no answer, or none that could be used.
func (x *initExchange) onFailure(sa *SA, r *Refusal) {
	if x.refusal != nil {
		sa.fail(x.refusal)
		return
	}
	if len(x.others) == 0 {
		sa.fail(r)
		return
	}
	sa.report(Report{Code: CodeSent, Text: r.Why + "; next is " + x.others[0].String()})
	if p, ok := sa.phase.(*opening); ok {
		p.limit = sa.now.Add(openingLimit)
	}
	next := &initExchange{children: x.children, offered: x.offered, group: policy.FirstGroup(x.offered)}
	others := x.others[1:]
	sa.done(x)
	sa.requests.current = next
	next.resolve(sa, Resolve{Local: sa.conn.Local.Address, Remote: x.others[0]})
	next.others = others
}

// initDue: a refusal that nobody contradicted is believed.
func (sa *SA) initDue() (Time, bool) {
	x, ok := sa.requests.current.(*initExchange)
	if !ok || x.refusal == nil {
		return 0, false
	}
	return x.giveUp, !x.busy
}

func (sa *SA) wakeInit() {
	if sa.due(sa.initDue()) {
		sa.requests.current.onFailure(sa, nil)
	}
}

func hasCritical(ps []wire.Payload) bool {
	_, ok := wire.CriticalUnknown(ps)
	return ok
}
