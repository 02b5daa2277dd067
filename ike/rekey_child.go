package ike

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cygnet/ike/wire"
	"cygnet/policy"
)

// This file replaces the keys of a child by our CREATE_CHILD_SA with REKEY_SA (RFC 7296 section 1.3.3); create_respond.go answers the peer's.
// Make before break: the new pair is installed when the answer comes, and the old one is deleted after.

const (
	// rekeyPause is the shortest time between two tries, doubled up to rekeyPauseLast.
	rekeyPause     = 5 * time.Second
	rekeyPauseLast = time.Minute
	// temporaryLimit: RFC 7296 section 2.25: after several minutes of TEMPORARY_FAILURE the two sides' states differ, and the IKE SA is closed.
	temporaryLimit = 3 * time.Minute
)

// rekeyAsked does what the operator asks: one child or all get new keys.
func (sa *SA) rekeyAsked(name string) {
	found := false
	for _, c := range slices.Clone(sa.children) {
		if name == "" || c.config.Name == name {
			found = sa.rekeyChild(c) || found
		}
	}
	if !found {
		sa.report(Report{Child: name, Code: CodeClosed, Text: "is not up, so it has no keys to replace"})
	}
}

// rekeyChild begins a rekey unless one is under way; false: the child is not one that can have it.
func (sa *SA) rekeyChild(c *child) bool {
	switch {
	case sa.phase.name() != phaseEstablished || c.deleting || c.gone || c.redundant || c.in != installed:
		return false
	case sa.rekeying(c) || c.peerRekeys > 0 || sa.successor(c) != nil:
		return true
	}
	sa.rekeyTried(c)
	sa.enqueue(&createExchange{config: c.config, old: c})
	return true
}

// rekeyTried plans the next try right when one begins: when it succeeds the child goes, and no failure needs to think of it.
func (sa *SA) rekeyTried(c *child) {
	pause := min(rekeyPause<<min(c.tries, 8), rekeyPauseLast)
	c.tries++
	c.rekeyAt = sa.now.Add(sa.sooner(pause*3/2, pause/2))
}

// rekeying: our own exchange for c runs or waits.
func (sa *SA) rekeying(c *child) bool {
	is := func(x exchange) bool { r, ok := x.(*createExchange); return ok && r.old == c }
	return is(sa.requests.current) || slices.ContainsFunc(sa.queue, is) || slices.ContainsFunc(sa.postponed, func(p postponed) bool { return is(p.x) })
}

// successor is the child that replaces c, whoever made it.
func (sa *SA) successor(c *child) *child {
	return sa.findChild(func(x *child) bool { return x.replaces == c && x.in == installed && !x.redundant && !x.deleting })
}

// obsolete: what a queued exchange is for was settled while it waited.
func (x *createExchange) obsolete(sa *SA) bool {
	if x.old != nil {
		return x.old.gone || x.old.deleting || sa.successor(x.old) != nil
	}
	return sa.findChild(func(c *child) bool { return c.config == x.config && c.up && !c.deleting }) != nil
}

// prepare makes the offer. A rekey offers what the old child carries: its selectors, without those of a packet (RFC 7296 section 2.9.2), and all
// proposals that are allowed now.
func (x *createExchange) prepare(sa *SA) (*childPlan, *Refusal) {
	p, r := sa.planChild(x.config, true, x.packet)
	old := x.old
	if r != nil || old == nil {
		return p, r
	}
	p.old, p.tsi, p.tsr = old, policy.WireTS(old.local), policy.WireTS(old.remote)
	return p, nil
}

// firstGroup is the first guess for a key exchange: the one that the peer took last time, so that a wrong guess is not made again at every rekey.
func (x *createExchange) firstGroup() wire.GroupID {
	if x.old != nil && x.old.group != wire.GroupNone && policy.OffersGroup(x.plan.offered, x.old.group) {
		return x.old.group
	}
	return policy.FirstGroup(x.plan.offered)
}

// sameSelectors checks the answer to a rekey: neither narrower (RFC 7296 section 2.9.2) nor wider than what was offered.
func sameSelectors(old *child, local, remote []policy.TS) *Refusal {
	if same(old.local, local) && same(old.remote, remote) {
		return nil
	}
	return &Refusal{Stage: "CREATE_CHILD_SA", Code: CodeNoSelectors, Why: fmt.Sprintf("the peer answers with other selectors, %v <-> %v, than those in use, %v <-> %v",
		texts(local), texts(remote), texts(old.local), texts(old.remote))}
}

// rekeyRefused: the peer refuses a rekey. False: it is a refusal as of any child.
func (x *createExchange) rekeyRefused(sa *SA, n *wire.Notify) bool {
	old := x.old
	if old == nil {
		return false
	}
	switch n.Kind {
	case wire.NotifyTemporaryFailure:
		sa.done(x)
		x.busy(sa)
	case wire.NotifyChildSANotFound:
		// RFC 7296 section 2.25: the child goes without a Delete and is made anew, unless the peer has replaced it (section 2.8.1).
		sa.done(x)
		if old.gone {
			return true
		}
		sa.ignored("the peer does not have child %s with %s any more (CHILD_SA_NOT_FOUND)", old.config.Name, old.spiText())
		sa.dropChild(old, "the peer has lost it")
		sa.enqueue(&createExchange{config: x.config})
	case wire.NotifyNoAdditionalSAs:
		// RFC 7296 section 4: a minimal peer cannot replace a child. It makes one with each IKE SA, so a new IKE SA is made, and the old one deleted after.
		sa.done(x)
		if old.gone {
			return true
		}
		why := fmt.Sprintf("the peer cannot replace the keys of child %s (NO_ADDITIONAL_SAS)", old.config.Name)
		sa.reauthenticate(why)
	default:
		return false
	}
	return true
}

// busy: TEMPORARY_FAILURE is not answered by a try at once (RFC 7296 section 2.25), and not borne for ever.
func (x *createExchange) busy(sa *SA) {
	old := x.old
	switch {
	case old.gone || old.deleting:
	case old.busySince == 0:
		old.busySince = sa.now
		fallthrough
	case sa.now.Sub(old.busySince) < temporaryLimit:
		pause := max(old.rekeyAt.Sub(sa.now), rekeyPause)
		old.rekeyAt = sa.now.Add(pause)
		sa.ignored("the peer is busy (TEMPORARY_FAILURE); %s again in %s", x.name(), duration(pause))
	default:
		sa.bad(x, &Refusal{Stage: x.name(), Code: CodePeerError, Why: fmt.Sprintf("the peer has been too busy for %s since %s (TEMPORARY_FAILURE): the IKE SA is made anew",
			x.name(), duration(sa.now.Sub(old.busySince)))})
	}
}

// notRekeyed adds to a refusal what becomes of the old keys.
func (sa *SA) notRekeyed(old *child, r *Refusal) *Refusal {
	if old == nil || old.gone {
		return r
	}
	said := *r
	said.Why = "not rekeyed: " + r.Why + "; the old keys stay in use"
	if old.endAt != 0 {
		said.Why += " for " + span(old.endAt.Sub(sa.now))
	}
	return &said
}

// span prints a long time: "1h6m", "59m30s", "10s".
func span(d time.Duration) string {
	s := max(d, 0).Round(time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
