package directory

import (
	"cmp"
	"reflect"
	"slices"

	"cygnet/policy"
)

// load takes over a snapshot. Claims come before anything is started or lowered, and releases last, so that no selector that is
// to be protected before and after is without a policy between.
func (t turn) load(s *policy.Snapshot) {
	var changed, reproved, gone []*connection
	more := make(map[*connection][]string) // children that were added, where nothing else changed
	for _, c := range t.conns {
		if s.ByName(c.Name) == nil && !c.removed {
			gone = append(gone, c)
		}
	}
	for _, p := range s.Connections {
		c := t.find(p.Name)
		if c == nil {
			t.conns = append(t.conns, &connection{Connection: p})
			t.reloaded(p.Name, "added")
			continue
		}
		switch names := added(c.Connection, p); {
		case len(names) > 0 && !c.removed:
			more[c] = names
		case c.removed || !sameMeaning(c.Connection, p):
			changed = append(changed, c)
		case !c.SameProofs(p):
			reproved = append(reproved, c)
		}
		if c.removed || c.Start != p.Start {
			t.operate(c, configured)
			c.only, c.off = nil, nil
		}
		c.Connection, c.removed = p, false
		c.dropUnknownChildren()
	}
	slices.SortFunc(t.conns, func(a, b *connection) int { return cmp.Compare(a.Name, b.Name) })
	for _, c := range t.conns {
		if !slices.Contains(gone, c) {
			t.claim(c)
		}
	}
	for _, c := range changed {
		t.rebuild(c)
	}
	for _, c := range t.conns {
		if names := more[c]; names != nil {
			t.extend(c, names)
		}
	}
	for _, c := range reproved {
		t.reproved(c)
	}
	for _, c := range gone {
		t.remove(c)
	}
	for _, c := range t.conns {
		t.settle(c)
	}
}

// remove lowers a connection that is no longer configured and releases its claims.
func (t turn) remove(c *connection) {
	c.removed = true
	t.operate(c, configured)
	t.reloaded(c.Name, "removed")
	t.stop(c, "the connection is no longer configured")
	if len(c.held.lineages) > 0 {
		t.emit(Release{c.owner()})
		c.held = claims{}
	}
	if len(c.sas) == 0 && !c.starting {
		t.conns = slices.DeleteFunc(t.conns, func(x *connection) bool { return x == c })
	}
}

// dropUnknownChildren forgets wishes about children that are no longer configured.
func (c *connection) dropUnknownChildren() {
	unknown := func(name string) bool { return c.child(name) == nil }
	c.queued = slices.DeleteFunc(c.queued, unknown)
	if before := len(c.only); before > 0 {
		if c.only = slices.DeleteFunc(c.only, unknown); len(c.only) == 0 { // nothing is left of what was asked for
			c.operator = configured
		}
	}
	for name := range c.off {
		if unknown(name) {
			delete(c.off, name)
		}
	}
}

// sameMeaning compares two connections without where they stand in their files, and without the certificates and keys in the files that they name.
func sameMeaning(a, b *policy.Connection) bool {
	return reflect.DeepEqual(withoutPlace(a), withoutPlace(b))
}

func withoutPlace(c *policy.Connection) policy.Connection {
	out := *c
	out.File, out.Line, out.Lines = "", 0, nil
	out.Local.Proof, out.Remote.Proof = c.Local.Proof.Names(), c.Remote.Proof.Names()
	out.Children = make([]*policy.Child, len(c.Children))
	for i, ch := range c.Children {
		child := *ch
		child.File, child.Line, child.Lines = "", 0, nil
		out.Children[i] = &child
	}
	return out
}
