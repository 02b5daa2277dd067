package ike

import (
	"fmt"

	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm/alg"
)

// authExchange is the initiator's IKE_AUTH (RFC 7296 sections 1.2, 2.15, RFC 7427). It carries the first child.
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
	idi := sa.conn.Local.ID.Payload(false)
	sa.prove(p, idi, func(mine proof, r *Refusal) {
		switch {
		case !sa.current(x):
		case r != nil:
			sa.fail(r)
		case p.lowered != nil:
			p.overdue(sa)
		default:
			sa.request(wire.IKEAuth, openingSchedule(), x.payloads(sa, idi, mine)...)
		}
	})
}

// payloads of the request, in the order of RFC 7296 appendix C.2.
func (x *authExchange) payloads(sa *SA, idi *wire.ID, mine proof) []wire.Payload {
	c := sa.conn
	ps := append([]wire.Payload{idi}, mine.certs...)
	if sa.config.InitialContact {
		ps = append(ps, wire.NewNotify(wire.NotifyInitialContact, nil))
	}
	ps = append(ps, certRequests(c)...)
	if known(c.Remote.ID) {
		ps = append(ps, c.Remote.ID.Payload(true))
	}
	return append(append(append(ps, mine.auth), x.plan.payloads()...), sa.mobikeSupported()...)
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
	sa.verifyResponder(p, m, func(peer auth.Identity, how string, r *Refusal) {
		switch {
		case !sa.current(x):
		case r != nil:
			x.reject(sa, r)
		default:
			x.accept(sa, p, m, peer, how)
		}
	})
}

// accept: the peer proved who it is.
func (x *authExchange) accept(sa *SA, p *authenticating, m *message, peer auth.Identity, how string) {
	sa.peer = peer
	sa.establish(how)
	sa.heedMOBIKE(m.payloads)
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
func (sa *SA) verifyResponder(p *authenticating, m *message, then func(peer auth.Identity, how string, r *Refusal)) {
	c := sa.conn
	idr, _ := wire.FindID(m.payloads, true)
	peer, err := auth.FromPayload(idr)
	r := &Refusal{Notify: wire.NotifyAuthenticationFailed, Stage: "IKE_AUTH", Code: CodeBadIdentity}
	switch {
	case err != nil:
		r.Why = fmt.Sprintf("the peer's identity is malformed: %v", err)
	case !c.Remote.Wants(peer) && peer.Equal(c.Local.ID):
		mm := policy.SwappedIDs(c, peer)
		r.Why, r.Hint = mm.Text, mm.Hint
	case !c.Remote.Wants(peer):
		r.Why = fmt.Sprintf("the peer says it is %v, we want %v", peer, c.Remote.Wanted())
		r.Hint = fmt.Sprintf("%s must be %q, or the peer's own id %q", where(c, "remote.id", "remote"), peer, c.Remote.Wanted())
	default:
		sa.verify(p, sa.peerProof(p, c, m), nil, func(d verdict) {
			if d.fault != nil {
				then(peer, "", authFault(c, d.fault, "the peer"))
				return
			}
			sa.notes(d.ev)
			then(peer, d.how, nil)
		})
		return
	}
	then(peer, "", r)
}

// notes tells what is accepted, but not as it should be.
func (sa *SA) notes(ev *auth.Evidence) {
	if ev == nil {
		return
	}
	for _, n := range ev.Notes {
		sa.ignored("%s", n)
	}
}

func pskHint(c *policy.Connection) string {
	return fmt.Sprintf("%s: %s must hold the same key as the peer's file", where(c, "psk.file", "psk"), c.PSKFile)
}

// reject: the response does not convince. The peer, which believes the IKE SA is up, is told in an exchange of its own (section 2.21.2). That ends the
// IKE SA without a Delete, but Libreswan 5 does not heed it there and would keep the child, into which what it sends is lost: the Delete it heeds.
func (x *authExchange) reject(sa *SA, r *Refusal) {
	sa.refused(r, "")
	sa.done(x)
	sa.close(ending{code: r.Code, why: r.Why, retry: true}, wire.NewNotify(wire.NotifyAuthenticationFailed, nil), deleteIKE())
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
// wrong key, and the answer is AUTHENTICATION_FAILED. So it is where nothing is wrong but that the operator took the connection down.
func (sa *SA) onAuthRequest(m *message) {
	p := sa.phase.(*authenticating)
	p.came = true
	p.requests = append(p.requests, wire.All[*wire.CertReq](m.payloads)...)
	sa.verifyInitiator(p, m, func(conn *policy.Connection, peer auth.Identity, how string, r *Refusal) {
		if r != nil {
			sa.refuse(r)
			return
		}
		sa.conn, sa.peer = conn, peer
		idr := conn.Local.ID.Payload(true)
		sa.prove(p, idr, func(mine proof, r *Refusal) {
			if r != nil {
				sa.refuse(r)
				return
			}
			sa.admit(p, m, how, append(append([]wire.Payload{idr}, mine.certs...), mine.auth))
		})
	})
}

// admit: the initiator proved who it is; ours is the answer's beginning.
func (sa *SA) admit(p *authenticating, m *message, how string, ours []wire.Payload) {
	sa.peerStays(m.path)
	ours = append(ours, sa.authLifetime()...)
	sa.establish(how)
	var mobile []wire.Payload
	sa.heedMOBIKE(m.payloads)
	if sa.elsewhere(p.from); sa.mobility.agreed {
		mobile = sa.mobikeSupported()
	}
	_, first := wire.FindNotify(m.payloads, wire.NotifyInitialContact)
	sa.out.Add(Claim{Connection: sa.conn.Name, Config: sa.conn, Peer: sa.peer, InitialContact: first})
	sa.answerChild(&childAsk{payloads: m.payloads, stage: "IKE_AUTH", ni: p.ni, nr: p.nr, contact: first}, func(c *child, r *Refusal) {
		if sa.mobility.held != nil {
			sa.verifyRoute()
		}
		if r != nil { // RFC 7296 section 2.21.2: the IKE SA is up all the same
			sa.respond(append(append(ours, mobile...), r.notify())...)
			sa.refused(r, "")
			return
		}
		sa.respond(append(append(ours, c.answer...), mobile...)...)
		c.answer = nil
		sa.childUp(c)
	})
}

// verifyInitiator finds the connection by identities and checks AUTH.
func (sa *SA) verifyInitiator(p *authenticating, m *message, then func(*policy.Connection, auth.Identity, string, *Refusal)) {
	idi, _ := wire.FindID(m.payloads, false)
	peer, err := auth.FromPayload(idi)
	var conn *policy.Connection
	var mm *policy.Mismatch
	if err == nil {
		conn, mm = policy.ForIdentities(p.candidates, peer, asked(m))
	}
	from := sa.path.Remote
	sa.verify(p, sa.peerProof(p, conn, m), p.candidates, func(d verdict) {
		r := &Refusal{Notify: wire.NotifyAuthenticationFailed, Stage: "IKE_AUTH", Code: CodeBadIdentity}
		switch {
		case err != nil:
			r.Why = fmt.Sprintf("%v sent a malformed identity: %v", from, err)
		case mm != nil:
			r.Why, r.Hint = fmt.Sprintf("%v: %s", from, mm.Text), mm.Hint
			r.Detail = fmt.Sprintf("ours: %s; theirs: %s", mm.Ours, mm.Theirs)
		case d.fault != nil:
			r = authFault(conn, d.fault, from.String())
		case !conn.AllowsIKE(sa.suite): // RFC 7296 section 3.3.4
			r.Code = CodeNoProposal
			r.Why = fmt.Sprintf("%v was agreed with %v before its identity was known; connection %s does not allow it", sa.suite, from, conn.Name)
			r.Hint = where(conn, "ike")
		case sa.config.Closed != nil && sa.config.Closed(conn.Name):
			r.Code = CodeTurnedAway
			r.Why = fmt.Sprintf("%v asks for connection %s and is refused: it was taken down here", peer, conn.Name)
			r.Hint = "to let it in: ikectl up " + conn.Name
		default:
			sa.notes(d.ev)
			then(conn, peer, d.how, nil)
			return
		}
		r.Caller = callerOf(conn, p.candidates)
		then(nil, peer, "", r)
	})
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
func (sa *SA) establish(how string) {
	sa.up, sa.proved = sa.now, how
	sa.reached(sa.now)
	sa.enter(&established{}, "peer proved")
	sa.startLifetime()
	sa.startReauth()
	sa.report(Report{Code: CodeAuthenticated, Text: fmt.Sprintf("peer proved %v (%s)", sa.peer, how), Detail: sa.spiText()})
	sa.report(Report{Code: CodeEstablished, Text: "IKE SA up with " + sa.path.Remote.String()})
}
