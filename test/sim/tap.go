package sim

import (
	"fmt"
	"slices"
	"strings"

	"cygnet/ike"
	"cygnet/ike/wire"
	"cygnet/test/wiretap"
)

// tap records messages and opens them for a failure's diagram.
type tap struct {
	reader   *wiretap.Tap
	messages []message
	story    []string
}

type message struct {
	at       ike.Time
	from, to string
	data     []byte
	fate     string // "" arrived
}

func newTap() *tap { return &tap{reader: wiretap.New()} }

func (t *tap) drawn(p []byte) { t.reader.Drawn(p) }

func (t *tap) line(w *world, who, text string) {
	t.story = append(t.story, fmt.Sprintf("%10.6f %-3s %s", w.now.Sub(epoch).Seconds(), who, text))
}

// tapped records what became of a packet.
func (w *world) tapped(p *packet, fate string) {
	if w.tap == nil {
		return
	}
	from, to := "adversary", "nobody"
	if p.from != nil {
		from = p.from.name
	}
	if n, _ := w.behind(p.dst); n != nil {
		to = n.name
	}
	if !p.genuine() {
		fate = strings.TrimPrefix(p.what+", "+fate, ", ")
	}
	m := message{w.now, from, to, slices.Clone(p.data), strings.TrimSuffix(fate, ", ")}
	w.tap.messages = append(w.tap.messages, m)
	w.tap.line(w, from, "-> "+to+" "+w.tap.describe(w, m))
}

// diagram of the last messages, in Mermaid's words.
func (t *tap) diagram(w *world) string {
	const most = 40
	var b strings.Builder
	b.WriteString("sequenceDiagram\n")
	for _, m := range t.messages[max(0, len(t.messages)-most):] {
		arrow := "->>"
		if m.fate == "lost" || m.fate == "nobody there" {
			arrow = "--x"
		}
		fmt.Fprintf(&b, "    %s%s%s: %.3f s %s\n", m.from, arrow, m.to, m.at.Sub(epoch).Seconds(), t.describe(w, m))
	}
	return b.String()
}

// describe is "IKE_AUTH request 1 [SPIs] IDi AUTH SA TSi TSr (lost)".
func (t *tap) describe(w *world, m message) string {
	h, err := wire.ParseHeader(m.data)
	if err != nil {
		return fmt.Sprintf("%d octets that are no IKE message (%s)", len(m.data), m.fate)
	}
	kind := "request"
	if h.Response() {
		kind = "response"
	}
	side := "from responder"
	if h.Initiator() {
		side = "from initiator"
	}
	text := fmt.Sprintf("%s %s %d %s %08x/%08x %s", h.Exchange, kind, h.MessageID, side, uint64(h.SPIi)>>32, uint64(h.SPIr)>>32, t.payloads(m.data))
	if m.fate != "" {
		text += " (" + m.fate + ")"
	}
	return text
}

// payloads names what a message holds; that of an SK payload where it can be opened.
func (t *tap) payloads(data []byte) string {
	m, err := t.reader.Read(data)
	switch {
	case err != nil || m.Problem != "" && !m.Protected:
		return "malformed"
	case m.Problem != "":
		return "SK{" + m.Problem + "}"
	case m.Fragment > 0:
		return strings.TrimSpace(fmt.Sprintf("SKF{%d of %d} %s", m.Fragment, m.Total, names(m.Payloads)))
	case m.Protected:
		return "SK{" + names(m.Payloads) + "}"
	case len(m.Payloads) == 0:
		return "empty"
	}
	return names(m.Payloads)
}

func names(ps []wire.Payload) string {
	var list []string
	for _, p := range ps {
		switch p := p.(type) {
		case *wire.Notify:
			list = append(list, fmt.Sprintf("N(%v)", p.Kind))
		case *wire.Delete:
			list = append(list, fmt.Sprintf("D(%d %08x)", p.Protocol, p.SPIs))
		default:
			list = append(list, p.Type().String())
		}
	}
	return strings.Join(list, " ")
}
