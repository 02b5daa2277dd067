package policy

import (
	"fmt"
	"slices"
)

// compare looks for connections and children that get into each other's way. Each pair is told once, at the one that stands later.
func (r *reader) compare() {
	var earlier []*Connection
	for _, c := range r.snapshot.Connections {
		for _, o := range earlier {
			r.neverChosen(o, c)
			for _, ch := range c.Children {
				for _, och := range o.Children {
					r.overlap(o, och, c, ch)
				}
			}
		}
		for i, ch := range c.Children {
			for _, och := range c.Children[:i] {
				r.overlap(c, och, c, ch)
			}
		}
		earlier = append(earlier, c)
	}
}

// neverChosen: a peer that calls is told apart by addresses and identities; of two connections that share all of them the second would never
// be used.
func (r *reader) neverChosen(a, b *Connection) {
	if a.Name == b.Name || a.Local.Address != b.Local.Address || a.Remote.Address != b.Remote.Address || a.Remote.Name != b.Remote.Name ||
		a.Local.ID.Type == 0 || a.Remote.ID.Type == 0 || !a.Local.ID.Equal(b.Local.ID) || !a.Remote.ID.Equal(b.Remote.ID) {
		return
	}
	r.problems = append(r.problems, Problem{
		File: b.File, Line: b.Line, Code: "ambiguous",
		Text: fmt.Sprintf("connection %s has the addresses and identities of %s (%s:%d), so a peer that calls would always get the latter", b.Name, a.Name, a.File, a.Line),
		Hint: fmt.Sprintf("make its children children of %s, or give it another id", a.Name),
	})
}

// overlap: the same traffic in two children is a mistake, as a packet can take one way only. When one is narrower it wins, which may well be
// meant and is a warning.
func (r *reader) overlap(oc *Connection, o *Child, c *Connection, ch *Child) {
	local, remote := meetAll(ch.Local, o.Local), meetAll(ch.Remote, o.Remote)
	both := pair{local, remote}.mated()
	if len(both.i) == 0 {
		return
	}
	p := Problem{File: ch.File, Line: ch.Line, Code: "overlap", Warning: true}
	if l := ch.Lines["remote"]; l > 0 {
		p.Line = l
	}
	there := fmt.Sprintf("%s/%s (%s:%d)", oc.Name, o.Name, o.File, o.Line)
	what := fmt.Sprintf("%s/%s and %s both hold %s <-> %s", c.Name, ch.Name, there, selectorsText(both.i), selectorsText(both.r))
	switch {
	case sameTraffic(ch, o):
		p.Warning = false
		p.Text, p.Hint = what, "a packet can take one tunnel only: change the selectors of one of them"
	case Within(ch.Local, o.Local) && Within(ch.Remote, o.Remote):
		p.Text, p.Hint = what, fmt.Sprintf("%s/%s is the narrower one and takes that traffic", c.Name, ch.Name)
	case Within(o.Local, ch.Local) && Within(o.Remote, ch.Remote):
		p.Text, p.Hint = what, fmt.Sprintf("%s/%s is the narrower one and takes that traffic", oc.Name, o.Name)
	default:
		p.Text, p.Hint = what, "the narrower selector takes that traffic; make them apart if that is not meant"
	}
	r.problems = append(r.problems, p)
}

// sameTraffic: some selector pair of the one is a selector pair of the other.
func sameTraffic(a, b *Child) bool {
	shared := func(x, y []TS) (out []TS) {
		for _, t := range x {
			if slices.Contains(y, t) {
				out = append(out, t)
			}
		}
		return out
	}
	p := pair{shared(a.Local, b.Local), shared(a.Remote, b.Remote)}.mated()
	return len(p.i) > 0
}
