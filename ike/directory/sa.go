package directory

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"cygnet/ike"
	"cygnet/ike/auth"
	"cygnet/ike/wire"
)

const (
	// duplicateGrace passes between the survivor's child coming up and the end of the other IKE SA: the peer must have heard of the
	// survivor's child too, or its traffic would be without one for a moment.
	duplicateGrace = 5 * time.Second
	// strangerGrace is how long two equal IKE SAs stand before their other end is taken for one that does not know the rule: strongSwan would keep both for good.
	strangerGrace = 2 * duplicateGrace
	// simultaneous bounds the time in which two ends may have started without knowing of each other. An INITIAL_CONTACT that comes
	// within it says nothing about the IKE SA that we started.
	simultaneous = 10 * time.Second
)

// sa is an IKE SA as far as the directory knows it.
type sa struct {
	spi       wire.SPI
	conn      *connection
	initiated bool // by us
	claimed   bool // the peer proved to be peer
	lowered   bool // was told to close
	peer      auth.Identity
	seq       uint64
	since     ike.Time        // claimed at
	opened    ike.Time        // by us, at
	children  map[string]bool // that are up
	upSince   ike.Time        // its first child
	grown     ike.Time        // the last child that is not a successor of another
	idleSince ike.Time        // without child, and nobody asked for one
	renews    *sa             // that it is to replace
	doubted   bool            // the peer was asked whether it still has it
}

func (a *sa) serves() bool { return a.claimed && !a.lowered }

// covers: all children of b are up on a too, and there is at least one.
func (a *sa) covers(b *sa) bool {
	for name := range b.children {
		if !a.children[name] {
			return false
		}
	}
	return len(a.children) > 0
}

func (t turn) lower(a *sa, ev ike.Lower) {
	if !a.lowered {
		a.lowered = true
		t.tell(a, ev)
	}
}

func (t turn) opened(ev Opened) {
	c := t.find(ev.Connection)
	a := &sa{spi: ev.SPI, conn: c, initiated: true, opened: t.now, children: make(map[string]bool)}
	if c == nil || !c.starting { // the connection went while the machine was made
		t.tell(a, ike.Lower{Why: "the connection is no longer configured"})
		return
	}
	stale := c.stale || c.wanted() == wantDown && c.renews == nil // what the peer brought up is renewed too
	c.starting, c.stale = false, false
	a.renews, c.renews = c.renews, nil
	t.sas[a.spi] = a
	c.sas = append(c.sas, a)
	if stale {
		t.lower(a, ike.Lower{Why: "taken down or changed before it began"})
	} else {
		for _, name := range c.dropped {
			if c.off[name] {
				t.tell(a, ike.Lower{Child: name, Why: "taken down"})
			}
		}
	}
	t.settle(c)
}

// claimed: an IKE SA has an authenticated peer. A responder is heard of here for the first time.
func (t turn) claimed(ev Claimed) {
	a := t.sas[ev.SPI]
	if a == nil {
		c := t.find(ev.Connection)
		a = &sa{spi: ev.SPI, conn: c, initiated: ev.Initiated, children: make(map[string]bool)}
		if c == nil || c.removed {
			t.tell(a, ike.Lower{Why: "the connection is no longer configured"})
			return
		}
		t.sas[a.spi] = a
		c.sas = append(c.sas, a)
	}
	t.seq++
	a.claimed, a.peer, a.seq, a.since, a.idleSince = true, ev.Peer, t.seq, t.now, t.now
	c := a.conn
	switch {
	case c.operator == wantDown:
		t.turnAway(a)
	case ev.Config != nil && ev.Config != c.Connection && !ev.Config.SameProofs(c.Connection): // a reload came while it began: by the former ones nobody proves anything any more
		t.lower(a, ike.Lower{Why: "its certificates or keys changed"})
	case ev.Config != nil && ev.Config != c.Connection && len(added(ev.Config, c.Connection)) > 0:
		t.tell(a, ike.Reconfigure{Connection: c.Connection})
	case ev.Config != nil && ev.Config != c.Connection && !sameMeaning(ev.Config, c.Connection): // a reload came while it began
		t.lower(a, ike.Lower{Why: "its configuration changed"})
	}
	if a.serves() {
		c.trouble.over()
		if ev.InitialContact {
			t.initialContact(a)
		}
		t.crowd(a)
	}
	if a.serves() {
		if !a.initiated {
			t.cancel(c, a)
		}
		c.nextTry, c.raiseAt, c.raiseTries, c.anewUp = 0, 0, 0, false
		if a.initiated {
			c.noteAsked(t.now, c.bringing)
		}
		t.raise(a, c.queued, nil)
		c.queued = nil
	}
	t.settle(c)
}

// cancel ends our own attempt when the peer's came first: where the rule for duplicates would give it up anyway, and where it took so long that
// its INITIAL_CONTACT would not be true any more.
func (t turn) cancel(c *connection, came *sa) {
	for _, a := range c.sas {
		if !a.claimed && (c.compareStarters(came, a) < 0 || t.now.Sub(a.opened) >= simultaneous) {
			t.lower(a, ike.Lower{Why: "the peer's own attempt came first"})
		}
	}
}

// alone: nothing is known of another IKE SA between the two identities of c, not even one that is on its way out.
func (t turn) alone(c *connection) bool {
	for _, o := range t.conns {
		for _, a := range o.sas {
			peer := o.Remote.ID
			if a.claimed {
				peer = a.peer
			}
			if o.Local.ID.Equal(c.Local.ID) && peer.Equal(c.Remote.ID) {
				return false
			}
		}
	}
	return c.Remote.ID.Type != 0 // without an identity the peer may be anyone
}

// initialContact: the peer says that this is the only IKE SA between the two identities, so the older ones are dead on its side
// (RFC 7296 section 2.4). Where the two IKE SAs were started by different ends at about the same time the peer may have said so
// before it knew of the older one: then the rule for duplicates decides.
func (t turn) initialContact(a *sa) {
	for _, c := range t.conns {
		if !c.Local.ID.Equal(a.conn.Local.ID) {
			continue
		}
		for _, old := range c.sas {
			if old == a || !old.serves() || !old.peer.Equal(a.peer) {
				continue
			}
			if old.initiated != a.initiated && t.now.Sub(old.since) < simultaneous {
				continue
			}
			t.lower(old, ike.Lower{Why: "the peer began anew (INITIAL_CONTACT)", Silent: true})
		}
	}
}

func (t turn) childUp(ev ChildUp) {
	a := t.sas[ev.SPI]
	if a == nil {
		return
	}
	if !a.children[ev.Child] {
		a.children[ev.Child], a.grown = true, t.now
	}
	if a.upSince == 0 {
		a.upSince = t.now
	}
	a.conn.wasUp = true
	a.conn.childIsWell(ev.Child)
	delete(a.conn.asked, ev.Child)
	t.settle(a.conn)
}

func (t turn) childDown(ev ChildDown) {
	a := t.sas[ev.SPI]
	if a == nil {
		return
	}
	delete(a.children, ev.Child)
	a.idleSince = t.now
	t.settle(a.conn)
}

// finished forgets an IKE SA and plans the next try where the connection is wanted and nothing else serves it.
func (t turn) finished(ev Finished) {
	c, a := t.find(ev.Connection), t.sas[ev.SPI]
	if a != nil {
		c = a.conn
		delete(t.sas, a.spi)
		c.raiseAt = 0 // another may be to ask now
		c.sas = slices.DeleteFunc(c.sas, func(x *sa) bool { return x == a })
	}
	switch {
	case c == nil, a == nil && !(ev.SPI == 0 && c.starting):
		return // a responder that never knew its peer, or a connection long gone
	case a == nil:
		c.starting, c.stale, c.renews = false, false, nil
	}
	if c.removed && len(c.sas) == 0 && !c.starting {
		t.conns = slices.DeleteFunc(t.conns, func(x *connection) bool { return x == c })
		return
	}
	if asked := a != nil && a.lowered; !asked {
		t.failed(c, a, ev.Finish)
	}
	t.settle(c)
}

// survivor chooses among IKE SAs of one connection and peer. Both ends compute the same: of IKE SAs that were started from both ends those stay that
// the end with the smaller identity started; of several from one end the newest stays, and that end knows which it is.
func (c *connection) survivor(list []*sa) *sa {
	return slices.MinFunc(list, func(a, b *sa) int {
		return cmp.Or(c.compareStarters(a, b), cmp.Compare(b.seq, a.seq))
	})
}

func (c *connection) compareStarters(a, b *sa) int {
	if a.initiated == b.initiated {
		return 0
	}
	return compareIdentities(c.starter(a), c.starter(b))
}

func (c *connection) starter(a *sa) auth.Identity {
	if a.initiated {
		return c.Local.ID
	}
	return a.peer // who started something that we know of has proved who it is
}

// compareIdentities gives an order that both ends share, although they may write a domain name in different case.
func compareIdentities(a, b auth.Identity) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), strings.Compare(strings.ToLower(a.Data), strings.ToLower(b.Data)))
}

// endDuplicates lowers what the rule gives up. Only the end that started an IKE SA lowers it, once the survivor carries its children.
func (t turn) endDuplicates(c *connection) {
	for _, a := range c.serving() {
		if !a.initiated {
			if at := t.endStranger(c, a); at != 0 {
				c.dropBy(at)
			}
			continue
		}
		if c.renewing(a) {
			continue
		}
		peers := slices.DeleteFunc(c.serving(), func(x *sa) bool { return !x.peer.Equal(a.peer) })
		keep := c.survivor(peers)
		if keep == a || keep.initiated != a.initiated && c.compareStarters(keep, a) == 0 {
			continue // ends with one identity cannot agree, so both IKE SAs stay
		}
		if !keep.covers(a) {
			c.dropBy(t.complete(c, keep, a))
			continue
		}
		if at := max(keep.grown, a.grown).Add(duplicateGrace); t.now.Before(at) {
			c.dropBy(at)
			continue
		}
		t.lower(a, ike.Lower{Why: "duplicate: another IKE SA with the same peer stays", Carried: true})
	}
}

// endStranger: the peer has started a, we have started another that carries the same, and the peer has not ended a, as the rule would have it. Of the two the later one stays: the peer
// has proved itself there last, so that it surely has it, even if it has lost what was before. It returns when to look again; 0: there is nothing to end.
func (t turn) endStranger(c *connection, a *sa) ike.Time {
	for _, ours := range c.serving() {
		if !ours.initiated || !ours.peer.Equal(a.peer) || c.renewing(a) || c.renewing(ours) || !ours.covers(a) || !a.covers(ours) || c.compareStarters(ours, a) >= 0 {
			continue
		}
		if at := max(ours.grown, a.grown).Add(strangerGrace); t.now.Before(at) {
			return at
		}
		goes := a
		if ours.since.Before(a.since) {
			goes = ours
		}
		t.lower(goes, ike.Lower{Why: "duplicate: another IKE SA with the same peer stays", Carried: true})
		return 0
	}
	return 0
}

// complete asks the survivor for the children that it lacks and the other has, when it has had its time to bring them up: also for those that were taken down
// here by name and that the peer wants nevertheless, or both IKE SAs would stay. It returns when to look again.
func (t turn) complete(c *connection, keep, other *sa) ike.Time {
	if at := max(keep.since, other.grown).Add(raiseGrace); t.now.Before(at) {
		return at
	}
	for _, ch := range c.Children {
		asked, ok := c.asked[ch.Name]
		if other.children[ch.Name] && !keep.children[ch.Name] && (!ok || t.now.Sub(asked) >= raiseAgain) {
			c.noteAsked(t.now, []string{ch.Name})
			keep.asksFor(t.now)
			t.tell(keep, ike.RaiseChild{Child: ch.Name})
		}
	}
	return t.now.Add(raiseAgain)
}
