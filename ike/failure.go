package ike

import (
	"fmt"
	"slices"
	"strings"

	"cygnet/ike/auth"
	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm/alg"
)

// This file holds the texts of failures that the peer reports or causes: what a person reads at 3 a.m.

// noAnswer: a request was sent as often as it should.
func noAnswer(sa *SA, name string) *Refusal {
	sent, after := sa.requests.sent, sa.now.Sub(sa.requests.first)
	r := &Refusal{Stage: name, Code: CodeNoAnswer, Why: fmt.Sprintf("no answer from %v to %d %s in %s", sa.path.Remote, sent, name, duration(after))}
	switch sa.phase.name() {
	case phaseOpening:
		r.Why += ": is UDP 500 and 4500 open on the path, and IKE running there?"
		r.Hint = where(sa.conn, "remote.address", "remote") + " must be the peer's address as seen from here"
	case phaseAuthenticating:
		r.Why += ": it answered IKE_SA_INIT, but what follows is lost on the path: " + sa.authLost()
		r.Hint = sa.authLostHint()
		if sa.requests.disowned {
			r.Why = fmt.Sprintf("%v, or someone in its name, says that it does not know this IKE SA: it has restarted in the middle of the set-up", sa.path.Remote)
		}
	default:
		r.Why += ": the peer is gone or the path is broken"
		if sa.requests.disowned {
			r.Why += "; it, or someone in its name, says that it does not know this IKE SA, as after a restart"
		}
	}
	return r
}

// initRefused: an unprotected error to our IKE_SA_INIT.
func initRefused(sa *SA, x *initExchange, n *wire.Notify) *Refusal {
	r := &Refusal{Stage: x.name(), Code: CodePeerError, Why: fmt.Sprintf("%v refuses IKE_SA_INIT: %v", sa.path.Remote, n.Kind)}
	switch n.Kind {
	case wire.NotifyNoProposalChosen:
		r.Code = CodeNoProposal
		r.Why = fmt.Sprintf("%v accepts none of our IKE proposals (NO_PROPOSAL_CHOSEN), or knows no connection for us; we offer %s", sa.path.Remote, offerText(x.offered))
		r.Hint = fmt.Sprintf("%s must have an algorithm of each kind that the peer allows; many peers answer so too to an address that they do not know: "+
			"theirs of us must be %v, or that of the NAT before us", where(sa.conn, "ike"), sa.path.Local.Addr())
	case wire.NotifyInvalidKEPayload:
		if g, ok := wantedGroup(n); ok && policy.OffersGroup(x.offered, g) { // nobody's configuration is wrong
			var sent []string
			for _, g := range x.tried {
				sent = append(sent, suite.DHName(g))
			}
			r.Why = fmt.Sprintf("%v wants a key of %s (INVALID_KE_PAYLOAD) after keys of %s: it contradicts itself, or somebody forges its answers",
				sa.path.Remote, suite.DHName(g), strings.Join(sent, ", "))
			break
		}
		r.Code = CodeNoProposal
		r.Why = fmt.Sprintf("%v wants another key exchange method than those we offer: %s", sa.path.Remote, offerText(x.offered))
		r.Hint = where(sa.conn, "ike")
	case wire.NotifyInvalidMajorVersion:
		r.Why = fmt.Sprintf("%v does not speak IKEv2 (INVALID_MAJOR_VERSION)", sa.path.Remote)
	}
	return r
}

// authRefused: the peer does not accept us. It does not say why; these are the three things to compare.
func authRefused(sa *SA, n *wire.Notify) *Refusal {
	c := sa.conn
	r := &Refusal{Stage: "IKE_AUTH", Code: CodePeerError, Why: fmt.Sprintf("%v refuses IKE_AUTH: %v", sa.path.Remote, n.Kind)}
	if n.Kind != wire.NotifyAuthenticationFailed {
		return r
	}
	r.Code = CodeAuthFailed
	r.Why = fmt.Sprintf("%v refuses us (AUTHENTICATION_FAILED): it does not know us as %v, is not %v, or %s", sa.path.Remote, c.Local.ID, idText(c), unconvinced(c))
	r.Hint = fmt.Sprintf("compare with the peer: %s, %s, %s; its local.id is our remote.id, and the other way round; its log says which, or that the connection was taken down there", where(c, "local.id", "local"), where(c, "remote.id", "remote"), proofAt(c))
	return r
}

// authRejected: the peer answered, and then our proof did not convince it.
func authRejected(sa *SA, n *wire.Notify) *Refusal {
	c := sa.conn
	r := &Refusal{Stage: "INFORMATIONAL", Code: CodePeerError, Why: fmt.Sprintf("the peer ends the IKE SA: %v", n.Kind)}
	if n.Kind == wire.NotifyAuthenticationFailed {
		r.Code = CodeAuthFailed
		r.Why = fmt.Sprintf("the peer does not accept our proof of %v (AUTHENTICATION_FAILED)", c.Local.ID)
		if c.Local.Proof.Credential != nil { // a PSK is the same that has just proved the peer
			r.Why += ": it " + unconvinced(c)
		}
		r.Hint = fmt.Sprintf("compare with the peer: %s, %s", where(c, "local.id", "local"), proofAt(c))
	}
	return r
}

// unconvinced is what a peer may have against our proof.
func unconvinced(c *policy.Connection) string {
	switch own := c.Local.Proof.Credential; {
	case own == nil:
		return "has another PSK"
	case len(own.Chain) == 0:
		return fmt.Sprintf("does not have our public key (%v)", own.Key.Public())
	default:
		return fmt.Sprintf("does not believe our certificate (%s, issued by %v, until %s)", auth.Label(own.Chain[0]), own.Chain[0].Issuer, auth.Date(own.Chain[0].NotAfter))
	}
}

// proofAt is where our proof stands in the configuration.
func proofAt(c *policy.Connection) string {
	switch own := c.Local.Proof.Credential; {
	case own == nil:
		return where(c, "psk.file", "psk")
	case len(own.Chain) == 0:
		return where(c, "local.key", "local")
	}
	return where(c, "local.cert", "local")
}

func idText(c *policy.Connection) string {
	if !known(c.Remote.ID) {
		return "the peer it thinks it is"
	}
	return c.Remote.ID.String()
}

// childRefused: the peer refuses a child.
func childRefused(sa *SA, cfg *policy.Child, plan *childPlan, n *wire.Notify) *Refusal {
	key := "child." + cfg.Name
	r := &Refusal{Stage: "CREATE_CHILD_SA", Code: CodePeerError, Why: fmt.Sprintf("the peer refuses the child: %v", n.Kind)}
	switch n.Kind {
	case wire.NotifyNoProposalChosen:
		r.Code = CodeNoProposal
		r.Why = "the peer accepts none of our ESP proposals (NO_PROPOSAL_CHOSEN); we offer " + offerText(plan.offered)
		r.Hint = where(sa.conn, key+".esp", key)
	case wire.NotifyTSUnacceptable, wire.NotifySinglePairRequired:
		r.Code = CodeNoSelectors
		r.Why = fmt.Sprintf("the peer does not accept our selectors (%v): %s <-> %s", n.Kind, strings.Join(texts(cfg.Local), ", "), strings.Join(texts(cfg.Remote), ", "))
		r.Hint = fmt.Sprintf("%s, %s: our local must lie in the peer's remote and the other way round", where(sa.conn, key+".local", key), where(sa.conn, key+".remote", key))
	case wire.NotifyNoAdditionalSAs:
		r.Why = "the peer allows no further child in this IKE SA (NO_ADDITIONAL_SAS)"
	}
	return r
}

// offerText names what we offer, for a person who compares it with the peer: "AES-GCM-256, AES-GCM-128 / SHA2-256 / X25519; ...".
func offerText(ps []wire.Proposal) string {
	var all []string
	for _, p := range ps {
		var kinds []string
		for _, t := range []wire.TransformType{wire.TransformEncr, wire.TransformInteg, wire.TransformPRF, wire.TransformKE} {
			var names []string
			for _, tr := range p.Transforms {
				if name := transformName(tr); tr.Type == t && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			if len(names) > 0 {
				kinds = append(kinds, strings.Join(names, ", "))
			}
		}
		all = append(all, strings.Join(kinds, " / "))
	}
	return strings.Join(all, "; ")
}

func transformName(t wire.Transform) string {
	switch t.Type {
	case wire.TransformEncr:
		return alg.Describe(alg.Encr(t.ID), int(t.KeyBits))
	case wire.TransformInteg:
		return alg.DescribeMAC(alg.Integ(t.ID))
	case wire.TransformPRF:
		return "PRF " + suite.PRFName(wire.PRFID(t.ID))
	case wire.TransformKE:
		if wire.GroupID(t.ID) == wire.GroupNone {
			return "no key exchange"
		}
		return suite.DHName(wire.GroupID(t.ID))
	}
	return ""
}
