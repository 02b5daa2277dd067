package script

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cygnet/ike"
	"cygnet/ike/shard"
	"cygnet/xfrm"
)

// This file looks at how things stand. What expect lines say is looked up in the parties' tables and data planes, not in the text that a scenario keeps,
// so that no -rewrite can bless a wrong end.

// expect is "expect ike N", "expect CHILD N", "expect seen WORDS", "expect unseen WORDS" or "expect passes a CHILD".
func (w *world) expect(args []string, text string) error {
	if len(args) < 2 {
		return errors.New("see README.md")
	}
	subject := args[0]
	switch {
	case subject == "seen" || subject == "unseen":
		found := slices.ContainsFunc(w.lines, func(line string) bool { return inOrder(line, args[1:]) })
		if found != (subject == "seen") {
			w.fail("%s", map[bool]string{true: "it happened", false: "it did not happen"}[found])
		}
		return nil
	case subject == "passes" && len(args) == 3:
		p, err := w.party(args[1])
		if err != nil || !slices.Contains(w.children, args[2]) {
			return fmt.Errorf("no party %q or no child %q", args[1], args[2])
		}
		if in, fate := p.packet(slices.Index(w.children, args[2])); in == 0 {
			w.fail("a packet of %s is %s", args[2], fate)
		}
		w.runUntil(w.now)
		return nil
	}
	n, err := strconv.Atoi(args[1])
	switch {
	case err != nil || len(args) != 2:
		return fmt.Errorf("%q is no number", args[1])
	case subject == "ike":
		w.expectIKE(n)
	case slices.Contains(w.children, subject):
		w.expectChild(subject, n)
	default:
		return fmt.Errorf("no child %q", subject)
	}
	return nil
}

func (w *world) fail(format string, args ...any) {
	w.failed = append(w.failed, fmt.Sprintf(format, args...))
}

// inOrder finds words in a line, one after the other.
func inOrder(line string, words []string) bool {
	for _, word := range words {
		at := strings.Index(line, word)
		if at < 0 {
			return false
		}
		line = line[at+len(word):]
	}
	return true
}

// expectIKE: n IKE SAs are established at both, the same ones, and nothing else is under way.
func (w *world) expectIKE(n int) {
	for _, p := range w.parties() {
		list := p.machines()
		if len(list) != n {
			w.fail("%s has %d IKE SAs: %s", p.name, len(list), p.ikeText())
		}
		for _, s := range list {
			if s.Phase != "established" {
				w.fail("%s: %s is %s", p.name, w.names.ofIKE(s.SPIi), s.Phase)
			}
			if !slices.ContainsFunc(p.peer.machines(), func(o ike.Status) bool { return o.SPIi == s.SPIi && o.SPIr == s.SPIr }) {
				w.fail("%s has %s, and %s has not", p.name, w.names.ofIKE(s.SPIi), p.peer.name)
			}
		}
	}
}

// expectChild: a child has n live pairs of SAs, nothing is left over in either data plane, and packets go through both ways.
func (w *world) expectChild(name string, n int) {
	pairs, odd := w.pairs()
	count := 0
	var of pair
	for _, x := range pairs {
		if x.child == name {
			count, of = count+1, x
		}
	}
	if count != n {
		w.fail("there are %d pairs of %s", count, name)
	}
	for _, text := range odd {
		w.fail("left over: %s", text)
	}
	child := slices.Index(w.children, name)
	for _, p := range w.parties() {
		if !p.alive {
			continue
		}
		want := of.spiB
		if p == w.b {
			want = of.spiA
		}
		in, fate := p.packet(child)
		switch {
		case n == 0 && in != 0:
			w.fail("a packet from %s still goes %s", p.name, fate)
		case n == 1 && count == 1 && in != want:
			w.fail("a packet from %s goes %s, not in the pair", p.name, fate)
		case n > 1 && in == 0:
			w.fail("a packet from %s is %s", p.name, fate)
		}
	}
	w.runUntil(w.now)
}

// pair is a Child SA pair that both parties have, each half with the same keys at both.
type pair struct {
	child      string
	spiA, spiB uint32 // on which a and b receive
}

// pairs looks into both data planes. odd names each SA there that is in no pair.
func (w *world) pairs() (list []pair, odd []string) {
	var used = make(map[*party]map[xfrm.SAID]bool)
	for _, p := range w.parties() {
		used[p] = make(map[xfrm.SAID]bool)
	}
	for _, a := range w.a.childrenUp() {
		for _, b := range w.b.childrenUp() {
			if a.SPIIn == b.SPIOut && a.SPIOut == b.SPIIn && w.sameKeys(a, b) {
				list = append(list, pair{a.Name, a.SPIIn, b.SPIIn})
				used[w.a][a.In], used[w.a][a.Out], used[w.b][b.In], used[w.b][b.Out] = true, true, true, true
			}
		}
	}
	for _, p := range w.parties() {
		for _, sa := range p.sas() {
			if !used[p][sa.ID] {
				odd = append(odd, p.saText(sa))
			}
		}
	}
	return list, odd
}

func (w *world) sameKeys(a, b ike.ChildStatus) bool {
	inA, ok1 := w.a.driver.Keys(a.In)
	outA, ok2 := w.a.driver.Keys(a.Out)
	inB, ok3 := w.b.driver.Keys(b.In)
	outB, ok4 := w.b.driver.Keys(b.Out)
	return ok1 && ok2 && ok3 && ok4 && inA == outB && outA == inB
}

func (p *party) childrenUp() (list []ike.ChildStatus) {
	for _, s := range p.machines() {
		for _, c := range s.Children {
			if c.Up {
				list = append(list, c)
			}
		}
	}
	return list
}

func (p *party) sas() []xfrm.SA {
	state, err := p.driver.Dump(context.Background())
	if err != nil {
		p.w.problem("%s: Dump: %v", p.name, err)
	}
	return state.SAs
}

// childOf is the child that an SA in the data plane belongs to.
func (p *party) childOf(sa xfrm.SA) string {
	if !p.alive {
		return "?"
	}
	lineage, _ := p.ledger.Lineage(sa.ReqID)
	if part := strings.Split(lineage, "/"); len(part) > 1 {
		return part[1]
	}
	return "?"
}

func (p *party) saText(sa xfrm.SA) string {
	receiver, way := p.name, "inbound"
	if sa.Direction == xfrm.Out {
		receiver, way = p.peer.name, "outbound"
	}
	return fmt.Sprintf("%s has %s %s of %s", p.name, way, p.w.names.ofChild(receiver, sa.ID.SPI), p.childOf(sa))
}

func (p *party) ikeText() string {
	var list []string
	for _, s := range p.machines() {
		name := p.w.names.ofIKE(s.SPIi)
		if s.Phase != "established" {
			name += " (" + s.Phase + ")"
		}
		list = append(list, name)
	}
	if len(list) == 0 {
		return "none"
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// summary says how it ended.
func (w *world) summary() {
	line := func(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }
	line(separator)
	if a, b := w.a.ikeText(), w.b.ikeText(); a == b {
		line("ike: a and b agree: %s", a)
	} else {
		line("ike: a has %s, b has %s", a, b)
	}
	pairs, odd := w.pairs()
	agree := "a and b agree"
	if len(odd) > 0 {
		agree = "a and b differ"
	}
	plural := "s"
	if len(pairs) == 1 {
		plural = ""
	}
	line("sad: %s, %d pair%s", agree, len(pairs), plural)
	for _, x := range pairs {
		line("     %s: %s and %s", x.child, w.names.ofChild("a", x.spiA), w.names.ofChild("b", x.spiB))
	}
	for _, text := range odd {
		line("     %s", text)
	}
	for _, p := range w.parties() {
		if p.alive {
			claims, sas := p.ledger.Size()
			line("%s holds %d SAs and %d claims", p.name, sas, claims)
		} else {
			line("%s does not run", p.name)
		}
	}
}

// always looks for what no scenario may end with.
func (w *world) always() {
	for _, p := range w.parties() {
		for _, fault := range p.driver.Faults() {
			w.problem("%s: the data plane was used wrongly: %s", p.name, fault)
		}
		if !p.alive {
			continue
		}
		_, booked := p.ledger.Size()
		if n := len(p.sas()); n != booked {
			w.problem("%s: the ledger has %d SAs, the data plane %d", p.name, booked, n)
		}
		held := 0
		for _, s := range p.machines() {
			_, sas := p.ledger.Holds(shard.Owner(ownSPI(s)))
			held += sas
		}
		if held != booked {
			w.problem("%s: %d SAs belong to no IKE SA", p.name, booked-held)
		}
	}
	if len(w.link.held) > 0 {
		w.problem("messages are still held: end with release")
	}
	for _, r := range w.link.rules {
		if r.left > 0 && w.link.accident.n == 0 {
			w.problem("no message came for: %s %s %v", r.what, r.from.name, r.words)
		}
	}
}
