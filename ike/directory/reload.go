package directory

import (
	"slices"
	"strings"

	"cygnet/ike"
	"cygnet/policy"
)

// added finds the children of b that a has not, when nothing else differs: then the IKE SAs stay, and only learn of them.
func added(a, b *policy.Connection) (names []string) {
	has := func(name string) bool {
		return slices.ContainsFunc(a.Children, func(c *policy.Child) bool { return c.Name == name })
	}
	rest := *b
	rest.Children = nil
	for _, c := range b.Children {
		if has(c.Name) {
			rest.Children = append(rest.Children, c)
		} else {
			names = append(names, c.Name)
		}
	}
	if !sameMeaning(a, &rest) {
		return nil
	}
	return names
}

// inform tells the IKE SAs of a connection of its new form.
func (t turn) inform(c *connection) {
	for _, a := range c.sas {
		if !a.lowered {
			t.tell(a, ike.Reconfigure{Connection: c.Connection})
		}
	}
}

// reproved: certificates, keys or CRLs in the files that the connection names are others. What is up stays up; whoever proves an identity from now on
// does it by the new ones.
func (t turn) reproved(c *connection) {
	t.inform(c)
	text := "certificates or keys changed"
	if c.active() {
		text += ": in use from the next authentication on"
	}
	t.reloaded(c.Name, text)
}

// extend tells the IKE SAs of a connection of children that were added, and raises those that are wanted.
func (t turn) extend(c *connection, children []string) {
	t.inform(c)
	wanted := slices.DeleteFunc(c.missing(), func(name string) bool { return !slices.Contains(children, name) })
	if list := c.serving(); len(list) > 0 {
		t.raise(c.survivor(list), wanted, nil)
	} else if c.attempting() {
		c.queue(wanted...)
	}
	what := "child "
	if len(children) > 1 {
		what = "children "
	}
	text := what + strings.Join(children, ", ") + " added"
	if c.active() && len(wanted) < len(children) && c.wanted() != wantTrap {
		text += "; to bring it up here: ikectl up " + c.Name
	}
	t.reloaded(c.Name, text)
}

// active: there is an IKE SA, or one is on its way.
func (c *connection) active() bool { return len(c.serving()) > 0 || c.attempting() }

// rebuild closes what stands on the former configuration; settle starts it anew where it is wanted.
func (t turn) rebuild(c *connection) {
	active := c.active()
	t.stop(c, "its configuration changed")
	c.trouble = trouble{}
	switch {
	case !active:
		t.reloaded(c.Name, "changed")
	case c.wanted() == wantUp && c.canStart():
		t.reloaded(c.Name, "changed: it is rebuilt")
	case c.wanted() == wantTrap:
		t.reloaded(c.Name, "changed: it went down, the next packet brings it up")
	default:
		t.reloaded(c.Name, "changed: it went down; to bring it up: ikectl up "+c.Name)
	}
}

// Change is what a Load did to a connection, for people: "child voice added", "changed: it is rebuilt".
type Change struct{ Connection, Text string }

// Changes of the last Load.
func (d *Directory) Changes() []Change { return d.changes }

func (t turn) reloaded(connection, text string) {
	t.changes = append(t.changes, Change{connection, text})
}
