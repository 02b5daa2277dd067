package policy

import (
	"fmt"
	"slices"
	"strings"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// Mismatch is a negotiation that failed, in both sides' words.
type Mismatch struct {
	Notify wire.NotifyType
	Text   string // one sentence: what was found and what was wanted
	Ours   string
	Theirs string
	Hint   string // the line to change: "conn.d/site-b.toml:7: ike = ..."
}

func (m *Mismatch) Error() string { return m.Text }

// difference collects why pairs of proposals did not agree and keeps the pair that came nearest.
type difference struct {
	found        bool
	cost         int
	conn         *Connection
	ours, theirs menu
	lacking      []wire.TransformType
	flaws        []string
}

// cost: a cipher that is not shared is the greatest distance, as proposals are sorted by kinds of ciphers.
func cost(lacking []wire.TransformType) (n int) {
	for _, t := range lacking {
		if t == wire.TransformEncr {
			n += 10
		}
		n++
	}
	return n
}

// note is told each pair that did not agree; c is nil for a child.
func (d *difference) note(c *Connection, ours, theirs menu, lacking []wire.TransformType) {
	if n := cost(lacking); !d.found || n < d.cost {
		d.found, d.cost, d.conn, d.ours, d.theirs, d.lacking = true, n, c, ours, theirs, lacking
	}
}

func (d *difference) flaw(p wire.Proposal, why string) {
	text := fmt.Sprintf("proposal %d is out: %s", p.Number, why)
	if len(d.flaws) < 4 && !slices.Contains(d.flaws, text) {
		d.flaws = append(d.flaws, text)
	}
}

// text names each type without a common transform with both lists.
func (d *difference) text(offered []wire.Proposal) string {
	switch {
	case len(offered) == 0:
		return "the peer sent no proposal"
	case !d.found && len(d.flaws) > 0:
		return "the peer offers nothing usable: " + strings.Join(d.flaws, "; ")
	}
	var parts []string
	for _, t := range d.lacking {
		theirs := names(d.theirs.usable[t])
		if theirs == "" {
			theirs = "nothing that is known"
			if !d.theirs.present[t] {
				theirs = "none"
			}
		}
		parts = append(parts, fmt.Sprintf("no %s of ours: theirs %s; ours %s", typeName(t), theirs, names(d.ours.usable[t])))
	}
	return "the peer offers " + strings.Join(parts, ", and ")
}

func (d *difference) ikeMismatch(cands []*Connection, offered []wire.Proposal) *Mismatch {
	m := &Mismatch{Notify: wire.NotifyNoProposalChosen, Theirs: describe(offered)}
	c := d.conn
	if c == nil && len(cands) > 0 {
		c = cands[0]
	}
	if c == nil {
		m.Text = "no connection is meant for this peer"
		return m
	}
	m.Text, m.Ours = d.text(offered), describe(c.IKE)
	m.Hint = where(c.File, c.Line, c.Lines, "ike") + d.advice("ike", offered, wire.ProtoIKE)
	return m
}

func (d *difference) espMismatch(ch *Child, offered []wire.Proposal) *Mismatch {
	m := &Mismatch{Notify: wire.NotifyNoProposalChosen, Text: d.text(offered), Ours: describe(ch.ESP), Theirs: describe(offered)}
	if len(d.lacking) == 1 && d.lacking[0] == wire.TransformKE {
		m.Hint = where(ch.File, ch.Line, ch.Lines, "pfs") + d.pfsAdvice()
		return m
	}
	m.Hint = where(ch.File, ch.Line, ch.Lines, "esp") + d.advice("esp", offered, wire.ProtoESP)
	return m
}

// advice is the configuration that would accept the peer's nearest proposal, if we would accept it at all.
func (d *difference) advice(key string, offered []wire.Proposal, proto wire.ProtocolID) string {
	candidates := offered
	if d.found {
		candidates = append([]wire.Proposal{d.theirs.proposal}, offered...)
	}
	for _, p := range candidates {
		if words, ok := words(p, proto); ok {
			return fmt.Sprintf("%s = %q accepts what the peer offers", key, words)
		}
	}
	return fmt.Sprintf("no %s = ... can accept what the peer offers: change the peer to offer one of ours", key)
}

func (d *difference) pfsAdvice() string {
	if !d.theirs.present[wire.TransformKE] {
		return `pfs = "no" accepts a child without a key exchange of its own`
	}
	for _, t := range d.theirs.usable[wire.TransformKE] {
		if a, ok := lookUp(t); ok && a.Refuse == "" {
			return fmt.Sprintf("pfs = %q accepts what the peer offers", a.Words[0])
		}
	}
	return "no pfs = ... can accept what the peer offers: change the peer to offer one of ours"
}

// unable: the data plane lacks every algorithm of the child.
func unable(ch *Child, offered []wire.Proposal, caps xfrm.Capabilities) *Mismatch {
	return &Mismatch{
		Notify: wire.NotifyNoProposalChosen,
		Text:   fmt.Sprintf("the %s data plane can do none of the ESP algorithms that child %s allows: %s", caps.Name, ch.Name, describe(ch.ESP)),
		Ours:   describe(ch.ESP),
		Theirs: describe(offered),
		Hint:   where(ch.File, ch.Line, ch.Lines, "esp") + `esp = "aes256gcm16" is what most hosts can do`,
	}
}

func notOffered(offered, answer []wire.Proposal, why string) *Mismatch {
	return &Mismatch{
		Notify: wire.NotifyNoProposalChosen,
		Text:   "the peer's answer is not one of our offers (RFC 7296 section 3.3.6): " + why,
		Ours:   describe(offered),
		Theirs: describe(answer),
		Hint:   "this is a fault of the peer; offering one proposal alone (ike = ..., esp = ...) may avoid it",
	}
}

// where begins a hint: the line of key, or that of its table when the key was not given.
func where(file string, line int, lines map[string]int, key string) string {
	if l := lines[key]; l > 0 {
		line = l
	}
	if file == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d: ", file, line)
}
