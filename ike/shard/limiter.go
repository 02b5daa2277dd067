package shard

import (
	"net/netip"
	"time"

	"cygnet/ike"
)

// limiter bounds answers that are sent without protection, per source and in all. Its table holds only sources that were answered within perSource,
// and so never more than the total rate lets through.
type limiter struct {
	rate
	spent ike.Time // the time up to which the total is spent
	last  map[netip.Prefix]ike.Time
}

// rate of a limiter.
type rate struct {
	burst     int           // at once, in all
	every     time.Duration // and one more each
	perSource time.Duration // at most one per source
}

var (
	// notifyRate is that of notifies to requests for which there is no IKE SA, and by itself that of refused IKE_SA_INIT requests.
	notifyRate = rate{burst: 10, every: 100 * time.Millisecond, perSource: time.Second}
	// provenRate is that of refusals to sources that returned a cookie: nobody else can be meant, and what they may be told, such as
	// INVALID_KE_PAYLOAD, is a step on the way of a peer.
	provenRate = rate{burst: 100, every: 10 * time.Millisecond, perSource: 50 * time.Millisecond}
)

func newLimiter(r rate) limiter {
	return limiter{rate: r, spent: ike.Time(0).Add(-r.whole()), last: make(map[netip.Prefix]ike.Time)}
}

// whole is how long it takes until a burst is possible again.
func (r rate) whole() time.Duration { return time.Duration(r.burst) * r.every }

// exhausted: nothing more may be sent now, to whomever.
func (l *limiter) exhausted(now ike.Time) bool {
	return now.Before(max(l.spent, now.Add(-l.whole())).Add(l.every))
}

func (l *limiter) allow(now ike.Time, source netip.Prefix) bool {
	if t, ok := l.last[source]; ok && now.Before(t.Add(l.perSource)) || l.exhausted(now) {
		return false
	}
	l.spent = max(l.spent, now.Add(-l.whole())).Add(l.every)
	if len(l.last) >= 2*l.burst {
		for p, t := range l.last {
			if !now.Before(t.Add(l.perSource)) {
				delete(l.last, p)
			}
		}
	}
	l.last[source] = now
	return true
}
