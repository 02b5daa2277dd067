package directory

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cygnet/ike"
)

const (
	// idleLimit: an IKE SA without a child stays so long for somebody to ask for one there, such as a peer whose first child was refused.
	idleLimit = time.Minute
	// crowdLimit bounds the IKE SAs of one connection and peer. Renewals, duplicates and an end that restarts without INITIAL_CONTACT need a few; an
	// authenticated peer that opens them without end gets no more.
	crowdLimit = 8
)

// asksFor: somebody here wants a child of an IKE SA now.
func (a *sa) asksFor(now ike.Time) { a.idleSince = now }

// endIdle lowers IKE SAs that have had no child for long. One that is to bring up what is wanted is asked again and again, and stays.
func (t turn) endIdle(c *connection) {
	c.idleAt = 0
	var needed *sa
	if list := c.serving(); len(list) > 0 && len(c.missing()) > 0 {
		needed = c.survivor(list)
	}
	for _, a := range c.serving() {
		if len(a.children) > 0 || a == needed {
			continue
		}
		at := a.idleSince.Add(idleLimit)
		if !t.now.Before(at) {
			t.lower(a, ike.Lower{Why: fmt.Sprintf("no child in %s, and nobody asks for one", seconds(idleLimit))})
		} else if c.idleAt == 0 || at.Before(c.idleAt) {
			c.idleAt = at
		}
	}
}

// crowd makes room for an IKE SA that a peer has opened beside many: the oldest without a child goes, or else the new one.
func (t turn) crowd(a *sa) {
	var peers, idle []*sa
	for _, x := range a.conn.serving() {
		if !x.peer.Equal(a.peer) {
			continue
		}
		peers = append(peers, x)
		if x != a && len(x.children) == 0 && !a.conn.renewing(x) {
			idle = append(idle, x)
		}
	}
	switch {
	case a.initiated || len(peers) <= crowdLimit:
	case len(idle) > 0:
		oldest := slices.MinFunc(idle, func(x, y *sa) int { return cmp.Compare(x.seq, y.seq) })
		t.lower(oldest, ike.Lower{Why: fmt.Sprintf("it has no child, and the peer has opened more than %d IKE SAs", crowdLimit)})
	default:
		t.lower(a, ike.Lower{Why: fmt.Sprintf("the peer has %d IKE SAs with children already", crowdLimit)})
	}
}
