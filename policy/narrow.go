package policy

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"cygnet/ike/wire"
)

// Narrow answers a request for a child as responder (RFC 7296 section 2.9): tsi and tsr are the peer's and ours as offered. It finds the child of c
// whose selectors meet the offer best and returns the intersection, never wider than either.
//
// Best is, in this order: the child that takes in the first selectors of the offer whole, as the first may be the packet that
// started it all (section 2.9: MUST); the greatest share of the offer; the child that is narrower itself; the one that stands first.
func Narrow(c *Connection, tsi, tsr []wire.TrafficSelector) (ch *Child, i, r []TS, m *Mismatch) {
	offer := pair{fromWire(tsi), fromWire(tsr)}
	var best answerTS
	for _, child := range c.Children {
		if a, ok := offer.narrowTo(child); ok && (ch == nil || a.better(best)) {
			ch, best = child, a
		}
	}
	if ch == nil {
		return nil, nil, nil, unacceptable(c, offer)
	}
	return ch, best.i, best.r, nil
}

// NarrowTo is Narrow for one child alone, for the rekey of a child that is known (RFC 7296 section 2.9.2).
func NarrowTo(c *Connection, ch *Child, tsi, tsr []wire.TrafficSelector) (i, r []TS, m *Mismatch) {
	one := *c
	one.Children = []*Child{ch}
	_, i, r, m = Narrow(&one, tsi, tsr)
	return i, r, m
}

// Within says whether outer covers all of inner: a rekeyed child must not be narrower than the old one (RFC 7296 section 2.9.2).
func Within(inner, outer []TS) bool {
	for _, t := range inner {
		if !t.within(outer) {
			return false
		}
	}
	return true
}

// pair is both sides of a set of selectors: initiator's and responder's, or the peer's and ours.
type pair struct{ i, r []TS }

// answerTS is what one child makes of an offer.
type answerTS struct {
	pair
	first bool    // the first selectors of the offer are in it whole
	size  float64 // pairs of addresses that it holds
	child float64 // the same of the child's configuration
}

func (a answerTS) better(b answerTS) bool {
	switch {
	case a.first != b.first:
		return a.first
	case a.size != b.size:
		return a.size > b.size
	}
	return a.child < b.child
}

// narrowTo intersects the offer with a child's selectors; false when nothing remains that a packet could match.
func (o pair) narrowTo(ch *Child) (answerTS, bool) {
	got := pair{meetAll(o.i, ch.Remote), meetAll(o.r, ch.Local)}.mated()
	got = got.bounded()
	if len(got.i) == 0 || len(got.r) == 0 {
		return answerTS{}, false
	}
	a := answerTS{pair: got, size: got.size(), child: pair{ch.Remote, ch.Local}.size()}
	a.first = o.i[0].within(got.i) && o.r[0].within(got.r)
	return a, true
}

// meetAll intersects each of the offer with each of the configuration, in the offer's order, and drops what another holds already. It stops
// when a TS payload is full.
func meetAll(offer, config []TS) (out []TS) {
	for _, o := range offer {
		for _, c := range config {
			if len(out) == wire.MaxSelectors {
				return out
			}
			if m, ok := o.meet(c); ok && !m.within(out) {
				out = slices.DeleteFunc(out, func(t TS) bool { return t.within([]TS{m}) })
				out = append(out, m)
			}
		}
	}
	return out
}

// mated keeps the selectors that have a partner of their family and protocol on the other side.
func (p pair) mated() pair {
	mate := func(list, others []TS) (out []TS) {
		for _, t := range list {
			if slices.ContainsFunc(others, func(o TS) bool { return pairs(t, o) }) {
				out = append(out, t)
			}
		}
		return out
	}
	return pair{mate(p.i, p.r), mate(p.r, p.i)}
}

// bounded keeps so many selectors, the first ones, that they fit a payload and the data plane. Fewer are always a lawful answer.
func (p pair) bounded() pair {
	ni, nr := splits(p.i), splits(p.r)
	for len(p.i) > 0 && len(p.r) > 0 && p.selectors(ni, nr) > maxSelectors {
		if len(p.i) >= len(p.r) {
			p.i = p.i[:len(p.i)-1]
		} else {
			p.r = p.r[:len(p.r)-1]
		}
	}
	return p.mated()
}

// selectors is the number of Selectors that the pair makes, ni and nr being the prefixes of each.
func (p pair) selectors(ni, nr []int) (n int) {
	for i, a := range p.i {
		for r, b := range p.r {
			if pairs(a, b) {
				n += ni[i] * nr[r]
			}
		}
	}
	return n
}

func splits(ts []TS) (n []int) {
	for _, t := range ts {
		n = append(n, len(t.prefixes()))
	}
	return n
}

// size counts the pairs of addresses, weighted by ports; an estimate to compare by.
func (p pair) size() (n float64) {
	for _, a := range p.i {
		for _, b := range p.r {
			if pairs(a, b) {
				n += a.size() * b.size()
			}
		}
	}
	return n
}

func (t TS) size() float64 {
	n := 1.0
	s, e := t.Start.AsSlice(), t.End.AsSlice()
	for k := range s {
		n += (float64(e[k]) - float64(s[k])) * math.Pow(256, float64(len(s)-1-k))
	}
	if t.Proto != 0 {
		n /= 256
	}
	if t.Ports == opaque() {
		return n / 65536
	}
	return n * (float64(t.Ports.Last) - float64(t.Ports.First) + 1) / 65536
}

// unacceptable tells what was asked for and what the children of c have.
func unacceptable(c *Connection, offer pair) *Mismatch {
	m := &Mismatch{
		Notify: wire.NotifyTSUnacceptable,
		Theirs: fmt.Sprintf("%s (peer) <-> %s (here)", selectorsText(offer.i), selectorsText(offer.r)),
	}
	var list []string
	for n, ch := range c.Children {
		if n == 4 {
			list = append(list, fmt.Sprintf("and %d more", len(c.Children)-n))
			break
		}
		list = append(list, fmt.Sprintf("%s: %s <-> %s", ch.Name, selectorsText(ch.Remote), selectorsText(ch.Local)))
	}
	m.Ours = strings.Join(list, "; ")
	m.Text = fmt.Sprintf("the peer asks for %s; no child of %s has traffic in common with that: ours %s", m.Theirs, c.Name, m.Ours)
	m.Hint = selectorHint(c, offer)
	return m
}

// selectorHint names the line that keeps the offer out: the side of the child that comes nearest.
func selectorHint(c *Connection, offer pair) string {
	for _, ch := range c.Children {
		switch {
		case len(meetAll(offer.r, ch.Local)) > 0:
			return where(ch.File, ch.Line, ch.Lines, "remote") + fmt.Sprintf("remote = [%s] or change the peer", quoted(offer.i))
		case len(meetAll(offer.i, ch.Remote)) > 0:
			return where(ch.File, ch.Line, ch.Lines, "local") + fmt.Sprintf("local = [%s] or change the peer", quoted(offer.r))
		}
	}
	return where(c.File, c.Line, nil, "") + "add a child with these selectors or change the peer"
}

func quoted(ts []TS) string {
	var list []string
	for _, t := range ts[:min(len(ts), 8)] {
		list = append(list, fmt.Sprintf("%q", t.word()))
	}
	return strings.Join(list, ", ")
}

// word is the selector as a configuration has it: "10.1.0.0/16[tcp/443]".
func (t TS) word() string {
	addr, rest, ok := strings.Cut(t.String(), " ")
	if !ok {
		return addr
	}
	return addr + "[" + rest + "]"
}

// CheckNarrowed checks, as initiator, that the answer lies inside what ch offers (RFC 7296 section 2.9).
func CheckNarrowed(ch *Child, tsi, tsr []wire.TrafficSelector) (i, r []TS, m *Mismatch) {
	got := pair{fromWire(tsi), fromWire(tsr)}
	switch {
	case len(got.i) != len(tsi) || len(got.r) != len(tsr):
		return nil, nil, outside(ch, got, "it holds a selector of an unknown type or one that contradicts itself")
	case len(got.i) == 0 || len(got.r) == 0:
		return nil, nil, outside(ch, got, "it is empty")
	}
	for _, t := range got.i {
		if !t.within(ch.Local) {
			return nil, nil, outside(ch, got, t.String()+" (here) was not offered")
		}
	}
	for _, t := range got.r {
		if !t.within(ch.Remote) {
			return nil, nil, outside(ch, got, t.String()+" (peer) was not offered")
		}
	}
	mated := got.mated()
	switch {
	case len(mated.i) == 0 || len(mated.r) == 0:
		return nil, nil, outside(ch, got, "no packet can match both sides")
	case mated.selectors(splits(mated.i), splits(mated.r)) > maxSelectors:
		return nil, nil, outside(ch, got, fmt.Sprintf("it splits into more than %d pairs of prefixes", maxSelectors))
	}
	return compact(mated.i), compact(mated.r), nil
}

// compact drops what another selector holds already, such as the packet's own selector before the network it belongs to.
func compact(ts []TS) (out []TS) {
	for i, t := range ts {
		rest := append(slices.Clone(out), ts[i+1:]...)
		if !t.within(rest) {
			out = append(out, t)
		}
	}
	return out
}

func outside(ch *Child, got pair, why string) *Mismatch {
	ours := fmt.Sprintf("%s (here) <-> %s (peer)", selectorsText(ch.Local), selectorsText(ch.Remote))
	theirs := fmt.Sprintf("%s (here) <-> %s (peer)", selectorsText(got.i), selectorsText(got.r))
	return &Mismatch{
		Notify: wire.NotifyTSUnacceptable,
		Text:   fmt.Sprintf("the peer's answer does not lie within child %s: %s; offered %s, answered %s", ch.Name, why, ours, theirs),
		Ours:   ours,
		Theirs: theirs,
		Hint:   where(ch.File, ch.Line, ch.Lines, "remote") + "make local and remote the mirror image of the peer's configuration",
	}
}
