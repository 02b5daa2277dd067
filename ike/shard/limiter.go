package shard

import (
	"net/netip"
	"time"

	"cygnet/ike"
)

const (
	notifyBurst  = 10                     // unprotected notifies at once, in all
	notifyEvery  = 100 * time.Millisecond // and one more each
	notifySource = time.Second            // at most one per source
)

// limiter bounds the unprotected notifies that a shard sends. Its table holds only sources that were answered within notifySource,
// and so never more than the total rate lets through.
type limiter struct {
	spent ike.Time // the time up to which the total is spent
	last  map[netip.Prefix]ike.Time
}

func newLimiter() limiter {
	return limiter{spent: ike.Time(-notifyBurst * notifyEvery), last: make(map[netip.Prefix]ike.Time)}
}

func (l *limiter) allow(now ike.Time, source netip.Prefix) bool {
	if t, ok := l.last[source]; ok && now.Before(t.Add(notifySource)) {
		return false
	}
	l.spent = max(l.spent, now.Add(-notifyBurst*notifyEvery))
	if now.Before(l.spent.Add(notifyEvery)) {
		return false
	}
	l.spent = l.spent.Add(notifyEvery)
	if len(l.last) >= 2*notifyBurst {
		for p, t := range l.last {
			if !now.Before(t.Add(notifySource)) {
				delete(l.last, p)
			}
		}
	}
	l.last[source] = now
	return true
}
