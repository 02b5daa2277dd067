package ike

import (
	"time"
)

const (
	// A rekey or reauthentication that failed is tried again after a quarter of the time that is left, within these bounds.
	renewSoonest = time.Second
	renewLatest  = 30 * time.Second
)

// lifetime is when the IKE SA is to be replaced, and when it ends otherwise (RFC 7296 section 2.8). 0: never.
type lifetime struct {
	rekey, over        Time
	reauth, reauthOver Time // survive a rekey: the peer is not authenticated anew by it
	proved             Time // when the peer proved who it is; survives a rekey
	initiated          bool // we were the initiator of that
	late               bool // the end has waited for the rekey that is on its way
	busy               Time // the peer says TEMPORARY_FAILURE to our rekeys since then
}

// startLifetime begins a new IKE SA's time.
func (sa *SA) startLifetime() {
	l := sa.conn.Lifetime
	if l.Rekey > 0 {
		sa.life.rekey = sa.now.Add(sa.sooner(l.Rekey, l.Jitter))
		sa.life.over = sa.now.Add(l.Rekey + l.Over)
	}
}

// sooner is d without up to jitter of it, by chance, so that neither both sides nor many tunnels act at once (RFC 7296 section 2.8.1).
func (sa *SA) sooner(d, jitter time.Duration) time.Duration {
	return d - sa.jitter(min(jitter, d/2))
}

// inherit takes over what concerns the peer rather than the keys.
func (l *lifetime) inherit(from *SA) {
	l.reauth, l.reauthOver, l.proved, l.initiated = from.life.reauth, from.life.reauthOver, from.life.proved, from.life.initiated
}

// lifetimeDue is the next of these times.
func (sa *SA) lifetimeDue() (Time, bool) {
	if sa.phase.name() != phaseEstablished {
		return 0, false
	}
	if sa.next.pending != 0 {
		return sa.next.pending, true
	}
	var e earliest
	for _, at := range []Time{sa.life.rekey, sa.life.over, sa.life.reauth, sa.life.reauthOver} {
		e.add(at, at != 0)
	}
	return e.at, e.set
}

func (sa *SA) wakeLifetime() {
	if !sa.due(sa.lifetimeDue()) {
		return
	}
	l := &sa.life
	over := func(at Time) bool { return at != 0 && !sa.now.Before(at) }
	switch {
	case sa.next.pending != 0:
		sa.expire("the IKE SA that it should have replaced is gone")
	case (over(l.over) || over(l.reauthOver)) && !l.late && sa.succeeding(): // the new IKE SA may be there, and with it the end of this one
		at := sa.now.Add(closingLimit)
		l.late = true
		for _, end := range []*Time{&l.over, &l.reauthOver} {
			if over(*end) {
				*end = at
			}
		}
	case over(l.over):
		sa.expire("its lifetime is over and it could not be rekeyed")
	case over(l.reauthOver):
		sa.expire("its lifetime is over and the peer was not authenticated anew")
	default:
		if over(l.rekey) {
			l.rekey = 0
			sa.rekeyIKE()
		}
		if over(l.reauth) {
			l.reauth = sa.now.Add(sa.again(l.reauthOver))
			sa.reauthenticate("the time has come to authenticate anew")
		}
	}
}

// expire ends the IKE SA: what has expired must not be used (RFC 7296 section 2.8). A wanted connection is built anew.
func (sa *SA) expire(why string) {
	sa.report(Report{Code: CodeExpired, Text: why})
	sa.life = lifetime{}
	sa.close(ending{code: CodeExpired, why: why, retry: true}, deleteIKE())
}

// again is the pause before the next try, when the end is at over.
func (sa *SA) again(over Time) time.Duration {
	if over == 0 {
		return renewLatest
	}
	return min(max(over.Sub(sa.now)/4, renewSoonest), renewLatest)
}

// rekeyFailed plans the next try where there is a lifetime to keep.
func (l *lifetime) rekeyFailed(sa *SA) {
	if l.over != 0 && !sa.finished {
		l.rekey = sa.now.Add(sa.again(l.over))
	}
}

// busy: the peer cannot rekey just now. It is not asked again at once, and not for ever (RFC 7296 section 2.25).
func (x *rekeyIKEExchange) busy(sa *SA) {
	sa.done(x)
	l := &sa.life
	if l.busy == 0 {
		l.busy = sa.now
	}
	if sa.now.Sub(l.busy) >= temporaryLimit {
		why := "the peer says TEMPORARY_FAILURE to every rekey of the IKE SA for " + duration(sa.now.Sub(l.busy)) + ": the two sides are out of step"
		sa.refused(&Refusal{Stage: x.name(), Code: CodePeerError, Why: why}, "")
		sa.end(ending{code: CodePeerError, why: why, retry: true})
		return
	}
	wait := temporaryDelay + sa.sooner(temporaryDelay, temporaryDelay)
	sa.postpone(wait, &rekeyIKEExchange{})
	sa.ignored("the peer is busy (TEMPORARY_FAILURE); rekey of the IKE SA again in %s", duration(wait))
}
