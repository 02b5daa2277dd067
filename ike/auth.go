package ike

import (
	"fmt"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm/alg"
)

// authExchange is the initiator's IKE_AUTH with a pre-shared key (RFC 7296 sections 1.2, 2.15). It carries the first child.
type authExchange struct {
	children []string // the first goes with this exchange, the others follow
	plan     *childPlan
}

func (*authExchange) name() string { return "IKE_AUTH" }

func (x *authExchange) start(sa *SA) {
	p := sa.phase.(*authenticating)
	plan, r := sa.planChild(sa.childConfig(x.children[0]), false, nil)
	if r != nil {
		sa.fail(r)
		return
	}
	x.plan = plan
	c := sa.conn
	idi := c.Local.ID.Payload(false)
	ps := []wire.Payload{idi}
	if sa.config.InitialContact {
		ps = append(ps, wire.NewNotify(wire.NotifyInitialContact, nil))
	}
	if known(c.Remote.ID) {
		ps = append(ps, c.Remote.ID.Payload(true))
	}
	mac := auth.SharedKeyMAC(sa.suite.PRF, c.PSK, p.initI, p.nr, sa.keys.Pi, idi.Body)
	ps = append(ps, &wire.Auth{Method: wire.AuthSharedKey, Data: mac})
	sa.request(wire.IKEAuth, openingSchedule(), append(ps, plan.payloads()...)...)
}

// known reports whether an identity is configured; otherwise any that proves itself will do.
func known(id auth.Identity) bool { return id.Type != 0 }

// onResponse: the peer refuses, or proves who it is. The child's fate is another matter (RFC 7296 section 2.21.2).
func (x *authExchange) onResponse(sa *SA, m *message) {
	if m.rule.mark == carriesError {
		sa.fail(authRefused(sa, errorNotify(m.payloads)))
		return
	}
	p := sa.phase.(*authenticating)
	peer, r := sa.verifyResponder(p, m)
	if r != nil {
		x.reject(sa, r)
		return
	}
	sa.peer = peer
	sa.establish()
	sa.heedAuthLifetime(m.payloads)
	sa.out.Add(Claim{Connection: sa.conn.Name, Config: sa.conn, Peer: peer, Initiated: true})
	if p.lowered != nil {
		sa.done(x)
		sa.lower(*p.lowered)
		return
	}
	for _, name := range x.children[1:] {
		sa.enqueue(&createExchange{config: sa.childConfig(name)})
	}
	sa.concludeChild(x, x.plan, m.payloads, alg.Secret{}, p.ni, p.nr)
}

// verifyResponder checks IDr and AUTH.
func (sa *SA) verifyResponder(p *authenticating, m *message) (auth.Identity, *Refusal) {
	idr, _ := wire.FindID(m.payloads, true)
	proof, _ := wire.Find[*wire.Auth](m.payloads)
	c := sa.conn
	peer, err := auth.FromPayload(idr)
	right := auth.VerifySharedKey(sa.suite.PRF, c.PSK, p.initR, p.ni, sa.keys.Pr, idr.Body, proof.Data)
	r := &Refusal{Notify: wire.NotifyAuthenticationFailed, Stage: "IKE_AUTH", Code: CodeAuthFailed}
	switch {
	case err != nil:
		r.Code, r.Why = CodeBadIdentity, fmt.Sprintf("the peer's identity is malformed: %v", err)
	case peer.Equal(c.Local.ID) && !peer.Equal(c.Remote.ID):
		mm := policy.SwappedIDs(c, peer)
		r.Code, r.Why, r.Hint = CodeBadIdentity, mm.Text, mm.Hint
	case known(c.Remote.ID) && !peer.Equal(c.Remote.ID):
		r.Code = CodeBadIdentity
		r.Why = fmt.Sprintf("the peer says it is %v, we want %v", peer, c.Remote.ID)
		r.Hint = fmt.Sprintf("%s must be %q, or the peer's own id %q", where(c, "remote.id", "remote"), peer, c.Remote.ID)
	case proof.Method != wire.AuthSharedKey:
		r.Why = fmt.Sprintf("the peer proves %v by method %d, we want a pre-shared key", peer, proof.Method)
		r.Hint = "set the peer to authenticate itself by PSK"
	case !right:
		r.Why = fmt.Sprintf("the peer's proof of %v does not fit our PSK", peer)
		r.Hint = pskHint(c)
	default:
		return peer, nil
	}
	return peer, r
}


func pskHint(c *policy.Connection) string {
	return fmt.Sprintf("%s: %s must hold the same key as the peer's file", where(c, "psk.file", "psk"), c.PSKFile)
}

// reject: the response does not convince. The peer, which believes the IKE SA is up, is told in an exchange of its own (section 2.21.2).
func (x *authExchange) reject(sa *SA, r *Refusal) {
	sa.refused(r, "")
	sa.done(x)
	sa.close(r.Code, r.Why, true, &lastExchange{wire.NewNotify(wire.NotifyAuthenticationFailed, nil)})
}

func (x *authExchange) onFailure(sa *SA, r *Refusal) {
	if r.Code == CodeNoAnswer {
		if p, ok := sa.phase.(*authenticating); ok && p.lowered != nil {
			p.overdue(sa)
			return
		}
		sa.fail(r)
		return
	}
	x.reject(sa, r)
}

// onAuthRequest: the initiator says who it is. Whatever is wrong with that looks the same from outside: an unknown identity costs as much as a
// wrong key, and the answer is AUTHENTICATION_FAILED.
func (sa *SA) onAuthRequest(m *message) {
	p := sa.phase.(*authenticating)
	conn, peer, r := sa.verifyInitiator(p, m)
	if r != nil {
		sa.refuse(r)
		return
	}
	sa.conn, sa.peer = conn, peer
	sa.peerStays(m.path)
	idr := conn.Local.ID.Payload(true)
	mac := auth.SharedKeyMAC(sa.suite.PRF, conn.PSK, p.initR, p.ni, sa.keys.Pr, idr.Body)
	proof := append([]wire.Payload{idr, &wire.Auth{Method: wire.AuthSharedKey, Data: mac}}, sa.authLifetime()...)
	sa.establish()
	_, first := wire.FindNotify(m.payloads, wire.NotifyInitialContact)
	sa.out.Add(Claim{Connection: conn.Name, Config: conn, Peer: peer, InitialContact: first})
	sa.answerChild(&childAsk{payloads: m.payloads, stage: "IKE_AUTH", ni: p.ni, nr: p.nr, contact: first}, func(c *child, r *Refusal) {
		if r != nil { // RFC 7296 section 2.21.2: the IKE SA is up all the same
			sa.respond(append(proof, r.notify())...)
			sa.refused(r, "")
			return
		}
		sa.respond(append(proof, c.answer...)...)
		c.answer = nil
		sa.childUp(c)
	})
}

// verifyInitiator finds the connection by identities and checks AUTH.
func (sa *SA) verifyInitiator(p *authenticating, m *message) (*policy.Connection, auth.Identity, *Refusal) {
	idi, _ := wire.FindID(m.payloads, false)
	proof, proved := wire.Find[*wire.Auth](m.payloads)
	if !proved {
		proof = &wire.Auth{}
	}
	peer, err := auth.FromPayload(idi)
	var conn *policy.Connection
	var mm *policy.Mismatch
	if err == nil {
		conn, mm = policy.ForIdentities(p.candidates, peer, asked(m))
	}
	var psk alg.Secret // empty: the same work for an identity that we do not know
	if conn != nil {
		psk = conn.PSK
	}
	right := auth.VerifySharedKey(sa.suite.PRF, psk, p.initI, p.nr, sa.keys.Pi, idi.Body, proof.Data)
	r := &Refusal{Notify: wire.NotifyAuthenticationFailed, Stage: "IKE_AUTH", Code: CodeAuthFailed}
	from := sa.path.Remote
	switch {
	case err != nil:
		r.Code, r.Why = CodeBadIdentity, fmt.Sprintf("%v sent a malformed identity: %v", from, err)
	case mm != nil:
		r.Code, r.Why, r.Hint = CodeBadIdentity, fmt.Sprintf("%v: %s", from, mm.Text), mm.Hint
		r.Detail = fmt.Sprintf("ours: %s; theirs: %s", mm.Ours, mm.Theirs)
	case !proved:
		r.Why = fmt.Sprintf("%v (%v) wants to authenticate by EAP, connection %s wants a pre-shared key", from, peer, conn.Name)
		r.Hint = "set the peer to authenticate itself by PSK"
	case proof.Method != wire.AuthSharedKey:
		r.Why = fmt.Sprintf("%v proves %v by method %d, connection %s wants a pre-shared key", from, peer, proof.Method, conn.Name)
		r.Hint = "set the peer to authenticate itself by PSK"
	case !right:
		r.Why = fmt.Sprintf("%v does not prove %v: its PSK differs from that of connection %s", from, peer, conn.Name)
		r.Hint = pskHint(conn)
	case !conn.AllowsIKE(sa.suite): // RFC 7296 section 3.3.4
		r.Code = CodeNoProposal
		r.Why = fmt.Sprintf("%v was agreed with %v before its identity was known; connection %s does not allow it", sa.suite, from, conn.Name)
		r.Hint = where(conn, "ike")
	default:
		return conn, peer, nil
	}
	r.Caller = callerOf(conn, p.candidates)
	return nil, peer, r
}

// asked is the identity that the initiator wants us to have.
func asked(m *message) *auth.Identity {
	idr, ok := wire.FindID(m.payloads, true)
	if !ok {
		return nil
	}
	id, err := auth.FromPayload(idr)
	if err != nil {
		return nil
	}
	return &id
}

// establish: the peer proved who it is.
func (sa *SA) establish() {
	sa.up, sa.lastHeard = sa.now, sa.now
	sa.enter(&established{}, "peer proved")
	sa.startLifetime()
	sa.startReauth()
	sa.report(Report{Code: CodeAuthenticated, Text: fmt.Sprintf("peer proved %v (PSK)", sa.peer), Detail: sa.spiText()})
	sa.report(Report{Code: CodeEstablished, Text: "IKE SA up with " + sa.path.Remote.String()})
}
