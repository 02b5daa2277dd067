package policy

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// maxCompared bounds the pairs of children that are held against each other. Only a configuration in which nearly all overlap has more.
const maxCompared = 1 << 16

// member is a child with its connection.
type member struct {
	c  *Connection
	ch *Child
}

// overlaps looks for children that have traffic in common: a packet can take one way only.
func (r *reader) overlaps() {
	var all []member
	for _, c := range r.snapshot.Connections {
		for _, ch := range c.Children {
			all = append(all, member{c, ch})
		}
	}
	r.sameTraffic(all)
	couples, complete := meeting(all)
	for _, p := range couples {
		r.overlap(all[p.earlier], all[p.later])
	}
	if !complete {
		r.problems = append(r.problems, Problem{Code: "overlap", Warning: true,
			Text: fmt.Sprintf("of %d children very many have selectors in common; not all were compared", len(all)), Hint: "make their selectors apart"})
	}
}

// sameTraffic finds, among any number of children, those that have a selector pair of an earlier one. That is a mistake.
func (r *reader) sameTraffic(all []member) {
	type way struct{ local, remote TS }
	taken := make(map[way]int)
	for n, m := range all {
		told := make(map[int]bool)
		count := 0
		for _, l := range m.ch.Local {
			for _, p := range m.ch.Remote {
				if !pairs(l, p) || count == maxSelectors { // more are told of as too many
					continue
				}
				count++
				o, is := taken[way{l, p}]
				switch {
				case !is:
					taken[way{l, p}] = n
				case o != n && !told[o]:
					told[o] = true
					p := doubled(all[o], m)
					p.Warning, p.Hint = false, "a packet can take one tunnel only: change the selectors of one of them"
					r.problems = append(r.problems, p)
				}
			}
		}
	}
}

// overlap warns of children that have traffic in common but no selector pair: the narrower one wins, which may well be meant.
func (r *reader) overlap(o, m member) {
	both := pair{meetAll(m.ch.Local, o.ch.Local), meetAll(m.ch.Remote, o.ch.Remote)}.mated()
	if len(both.i) == 0 || shareSelectors(o.ch, m.ch) {
		return
	}
	p := doubled(o, m)
	narrower := func(x, y member) bool { return Within(x.ch.Local, y.ch.Local) && Within(x.ch.Remote, y.ch.Remote) }
	switch {
	case narrower(m, o):
		p.Hint = fmt.Sprintf("%s/%s is the narrower one and takes that traffic", m.c.Name, m.ch.Name)
	case narrower(o, m):
		p.Hint = fmt.Sprintf("%s/%s is the narrower one and takes that traffic", o.c.Name, o.ch.Name)
	default:
		p.Hint = "the narrower selector takes that traffic; make them apart if that is not meant"
	}
	r.problems = append(r.problems, p)
}

// doubled says what two children have in common, at the one that stands later.
func doubled(o, m member) Problem {
	both := pair{meetAll(m.ch.Local, o.ch.Local), meetAll(m.ch.Remote, o.ch.Remote)}.mated()
	p := Problem{File: m.ch.File, Line: m.ch.Line, Code: "overlap", Warning: true}
	if l := m.ch.Lines["remote"]; l > 0 {
		p.Line = l
	}
	p.Text = fmt.Sprintf("%s/%s and %s/%s (%s:%d) both hold %s <-> %s", m.c.Name, m.ch.Name, o.c.Name, o.ch.Name, o.ch.File, o.ch.Line,
		selectorsText(both.i), selectorsText(both.r))
	return p
}

// shareSelectors: some selector pair of the one is a selector pair of the other.
func shareSelectors(a, b *Child) bool {
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

// couple is two children by their places among all.
type couple struct{ earlier, later int }

// span is the addresses of a selector of a child.
type span struct {
	start, end netip.Addr
	child      int
}

// meeting finds the couples whose addresses meet on the side where fewer do: those of a hub have its network in common and theirs apart. They
// come in order, at most maxCompared; complete says that these are all.
func meeting(all []member) (list []couple, complete bool) {
	local := spans(all, func(ch *Child) []TS { return ch.Local })
	remote := spans(all, func(ch *Child) []TS { return ch.Remote })
	if crossings(local) < crossings(remote) {
		remote = local
	}
	found := make(map[couple]struct{})
	complete = sweep(remote, func(a, b int) bool {
		if a != b {
			found[couple{min(a, b), max(a, b)}] = struct{}{}
		}
		return len(found) < maxCompared
	})
	return slices.SortedFunc(maps.Keys(found), func(a, b couple) int {
		return cmp.Or(cmp.Compare(a.later, b.later), cmp.Compare(a.earlier, b.earlier))
	}), complete
}

// spans lists one side of all children by their first addresses.
func spans(all []member, side func(*Child) []TS) (list []span) {
	for n, m := range all {
		for _, t := range side(m.ch) {
			list = append(list, span{t.Start, t.End, n})
		}
	}
	slices.SortFunc(list, func(a, b span) int { return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.child, b.child)) })
	return list
}

// crossings counts the pairs of spans that meet.
func crossings(list []span) (n int) {
	ends := make([]netip.Addr, len(list))
	for i, s := range list {
		ends[i] = s.end
	}
	slices.SortFunc(ends, netip.Addr.Compare)
	over := 0 // spans that end before this one starts
	for i, s := range list {
		for ends[over].Less(s.start) {
			over++
		}
		n += i - over
	}
	return n
}

// sweep calls meet for each pair of spans that meet, until it returns false.
func sweep(list []span, meet func(a, b int) bool) (complete bool) {
	var open []span
	for _, s := range list {
		open = slices.DeleteFunc(open, func(o span) bool { return o.end.Less(s.start) })
		for _, o := range open {
			if !meet(o.child, s.child) {
				return false
			}
		}
		open = append(open, s)
	}
	return true
}
