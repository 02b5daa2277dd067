package directory

import (
	"slices"

	"cygnet/ike"
	"cygnet/policy"
	"cygnet/xfrm"
)

// wish is what is wanted of a connection.
type wish uint8

const (
	configured wish = iota // as the configuration says
	wantDown
	wantTrap
	wantUp
)

func (w wish) String() string { return [...]string{"", "down", "trap", "up"}[w] }

// connection is a configured connection and what goes on about it.
type connection struct {
	*policy.Connection
	removed  bool            // from the configuration; it stays until its last IKE SA is gone
	operator wish            // Up or Down, else configured
	wasUp    bool            // a child has been up since the operator wanted it
	only     []string        // children named in Up; empty: all
	off      map[string]bool // children taken down by name

	sas      []*sa               // in the order in which they came
	starting bool                // a Start has not been answered yet
	anewUp   bool                // Up came since: what the attempt meets may be mended already, so that its failure is not the last word
	stale    bool                // what it opens is not wanted any more
	renews   *sa                 // that it is to replace; nil: none
	bringing []string            // children that the last Start brings up
	dropped  []string            // of these: taken down before its machine was there
	queued   []string            // children that wait for an IKE SA
	asked    map[string]ike.Time // when a serving IKE SA was asked for a child

	tries   int      // attempts since the last success
	nextTry ike.Time // not to be started before; zero: any time
	trouble trouble

	raiseTries int
	raiseAt    ike.Time // when missing children are asked for on the serving IKE SA; zero: no need
	raiseBy    ike.Time // by then at the latest, however often one IKE SA follows another
	idleAt     ike.Time // when an IKE SA without a child is lowered; zero: there is none
	dropAt     ike.Time // when a duplicate is lowered; zero: there is none

	held claims // what owner() has in the ledger
}

func (c *connection) owner() xfrm.Owner { return Owner(c.Name) }

// lineage of a child: its trap and its SAs share one reqid.
func (c *connection) lineage(child string) string { return ike.Lineage(c.Name, child, c.Remote.ID) }

func (c *connection) wanted() wish {
	switch {
	case c.removed:
		return wantDown
	case c.operator != configured:
		return c.operator
	case c.Start == policy.StartBoot:
		return wantUp
	case c.Start == policy.StartTraffic:
		return wantTrap
	}
	return wantDown
}

// canStart: the peer's address or name is known. Else only the peer can start.
func (c *connection) canStart() bool {
	return !c.removed && (c.Remote.Address.IsValid() || c.Remote.Name != "")
}

func (c *connection) child(name string) *policy.Child {
	for _, ch := range c.Children {
		if ch.Name == name {
			return ch
		}
	}
	return nil
}

// wantedChildren, in order of the configuration.
func (c *connection) wantedChildren() (names []string) {
	for _, ch := range c.Children {
		if !c.off[ch.Name] && (len(c.only) == 0 || slices.Contains(c.only, ch.Name)) {
			names = append(names, ch.Name)
		}
	}
	return names
}

// toStart is wantedChildren in the words of Start: none means all.
func (c *connection) toStart() []string {
	names := c.wantedChildren()
	if len(names) == len(c.Children) {
		return nil
	}
	return names
}

// serving lists the IKE SAs that are authenticated and not on their way out.
func (c *connection) serving() (list []*sa) {
	for _, a := range c.sas {
		if a.serves() {
			list = append(list, a)
		}
	}
	return list
}

// attempting: an IKE SA of ours is on its way.
func (c *connection) attempting() bool {
	return c.starting || slices.ContainsFunc(c.sas, func(a *sa) bool { return !a.claimed && !a.lowered })
}

func (c *connection) childIsUp(name string) bool {
	return slices.ContainsFunc(c.sas, func(a *sa) bool { return a.serves() && a.children[name] })
}

// missing are the children that are wanted up and are not.
func (c *connection) missing() []string {
	if c.wanted() != wantUp {
		return nil
	}
	return slices.DeleteFunc(c.wantedChildren(), c.childIsUp)
}

func (c *connection) queue(children ...string) {
	for _, name := range children {
		if !slices.Contains(c.queued, name) {
			c.queued = append(c.queued, name)
		}
	}
}

// startsAtNextTry: the end of the back-off starts something. Of a trap it only lets the next packet start.
func (c *connection) startsAtNextTry() bool {
	return c.nextTry != 0 && (c.wanted() == wantUp || len(c.queued) > 0)
}

func (c *connection) deadline() (at ike.Time) {
	for _, t := range []ike.Time{c.nextTry, c.raiseAt, c.dropAt, c.idleAt} {
		if t != 0 && (at == 0 || t.Before(at)) {
			at = t
		}
	}
	return at
}
