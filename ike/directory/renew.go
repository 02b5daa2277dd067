package directory

import (
	"slices"
	"time"

	"cygnet/ike"
)

// renewGrace: packets under the old child's keys are still on their way when the new child is up.
const renewGrace = 2 * time.Second

// adopted: after a rekey an IKE SA goes by another name.
func (t turn) adopted(ev Adopted) {
	a := t.sas[ev.SPI]
	if a == nil {
		return // it was not ours to know, or was told to close before it had claimed its peer
	}
	delete(t.sas, a.spi)
	a.spi = ev.Heir
	t.sas[a.spi] = a
}

// reauthenticate opens an IKE SA beside one that serves, for what is up there. INITIAL_CONTACT would be untrue. The old one goes when the new one
// carries its children (RFC 7296 section 2.8.3: make before break), also those that the peer brought up after they were taken down here. An attempt that is on its
// way already does as well.
func (t turn) reauthenticate(ev Reauthenticate) {
	a := t.sas[ev.SPI]
	if a == nil || !a.serves() || a.conn.attempting() || !a.conn.canStart() {
		return
	}
	c := a.conn
	if slices.ContainsFunc(c.sas, func(x *sa) bool { return x.renews == a && x.serves() }) {
		return // the new one is there, and still lacks a child
	}
	var children []string
	for _, ch := range c.Children { // in the order of the configuration
		if a.children[ch.Name] {
			children = append(children, ch.Name)
		}
	}
	if len(children) == 0 {
		t.lower(a, ike.Lower{Why: "it has no children and its time is over"})
		return
	}
	t.start(c, children)
	c.renews = a
}

// renewed ends IKE SAs whose successor, made from scratch, carries their children. Whichever end began it: the rule for duplicates would
// keep the one of the smaller identity.
func (t turn) renewed(c *connection) {
	for _, a := range slices.Clone(c.sas) {
		old := a.renews
		switch {
		case old == nil || !a.serves():
			continue
		case !old.serves() || !slices.Contains(c.sas, old):
			a.renews = nil
			continue
		case !a.covers(old):
			c.dropBy(t.complete(c, a, old)) // a child that came up on the old one meanwhile
			continue
		}
		if at := a.grown.Add(renewGrace); t.now.Before(at) {
			c.dropBy(at)
			continue
		}
		a.renews = nil
		t.lower(old, ike.Lower{Why: "replaced by a new IKE SA, authenticated anew", Carried: true})
	}
}

// dropBy has settle look again at that time.
func (c *connection) dropBy(at ike.Time) {
	if c.dropAt == 0 || at.Before(c.dropAt) {
		c.dropAt = at
	}
}

// renewing: an IKE SA is being replaced by a, or by one that a is replaced by. They are no duplicates.
func (c *connection) renewing(a *sa) bool {
	return a.renews != nil || slices.ContainsFunc(c.sas, func(x *sa) bool { return x.renews == a && x.serves() })
}
