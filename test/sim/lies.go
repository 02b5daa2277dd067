package sim

import (
	"fmt"
	"slices"

	"cygnet/ike/wire"
)

// This file is what impaired peers say.

// twist changes a message and names what it did: "omit SA", "transform 4/31 in a request", "exchange".
func (w *world) twist(l *liar, h *wire.Header, pieces *[]payload) string {
	if len(*pieces) == 0 {
		if w.chance(0.5) {
			*pieces = w.elsewhere(l, h)
			return "exchange"
		}
		return w.alien(pieces, 0)
	}
	if i := slices.IndexFunc(*pieces, func(p payload) bool { return p.kind == wire.PayloadSA }); i >= 0 && (w.chance(0.3) || h.Response() && w.chance(0.4)) {
		return w.transform(&(*pieces)[i], h.Response())
	}
	k := w.rng.IntN(len(*pieces))
	of := func(what string, k int) string { return what + " " + (*pieces)[k].kind.String() }
	switch w.rng.IntN(8) {
	case 0:
		what := of("omit", k)
		*pieces = slices.Delete(*pieces, k, k+1)
		return what
	case 1:
		(*pieces)[k].body = nil
		return of("empty", k)
	case 2:
		*pieces = slices.Insert(*pieces, k, (*pieces)[k])
		return of("double", k)
	case 3:
		if len(*pieces) < 2 {
			return w.alien(pieces, k)
		}
		p := (*pieces)[k]
		*pieces = slices.Delete(*pieces, k, k+1)
		to := w.rng.IntN(len(*pieces))
		if to >= k {
			to++
		}
		*pieces = slices.Insert(*pieces, to, p)
		return "reorder " + p.kind.String()
	case 4:
		n := 4 + len((*pieces)[k].body)
		(*pieces)[k].length = pick(w, 0, 3, n-1, n+1, n+4, 0xffff)
		return of("wrong length of", k)
	case 5:
		return w.wrongInside(pieces, k)
	case 6:
		*pieces = w.elsewhere(l, h)
		return "exchange"
	}
	return w.alien(pieces, k)
}

// alien adds a payload that does not belong there: an unknown one, critical or not, or a known one with any content.
func (w *world) alien(pieces *[]payload, k int) string {
	p := payload{kind: pick[wire.PayloadType](w, 1, 32, 54, 127, 200, 255), critical: true, body: w.octets(w.rng.IntN(40)), length: -1}
	what := "unknown critical payload"
	switch w.rng.IntN(3) {
	case 0:
		p.critical = false
		what = "unknown payload"
	case 1:
		known := knownPayloads()
		p.kind, p.critical = known[w.nextCell("payload", len(known))], w.chance(0.3)
		what = "stray " + p.kind.String()
	}
	if what == "unknown critical payload" && len(*pieces) > 0 {
		what += " before " + (*pieces)[k].kind.String()
	}
	*pieces = slices.Insert(*pieces, k, p)
	return what
}

func knownPayloads() (list []wire.PayloadType) {
	for t := wire.PayloadSA; t <= wire.PayloadSKF; t++ {
		list = append(list, t)
	}
	return list
}

// wrongInside cuts, lengthens or changes what a payload holds; the chain stays right, what the payload says of its own lengths does not.
func (w *world) wrongInside(pieces *[]payload, k int) string {
	p := &(*pieces)[k]
	p.body = slices.Clone(p.body)
	switch n := len(p.body); {
	case n == 0 || w.chance(0.2):
		p.body = append(p.body, w.octets(1+w.rng.IntN(9))...)
	case w.chance(0.5):
		p.body = p.body[:w.rng.IntN(n)]
	default:
		for range 1 + w.rng.IntN(3) { // the first octets hold lengths and counts
			p.body[w.rng.IntN(min(n, 16))] = byte(w.rng.Uint32())
		}
	}
	return "wrong inside of " + p.kind.String()
}

func (w *world) octets(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(w.rng.Uint32())
	}
	return b
}

// transform puts a transform into the place of others of its type, or beside them where there is none. A request may try several, each in a proposal of its own,
// and go on to what is right.
func (w *world) transform(p *payload, response bool) string {
	list, err := wire.ParsePayloads(wire.PayloadSA, chainOf(*p))
	if err != nil {
		return "wrong inside of SA"
	}
	sa := list[0].(*wire.SA)
	table, kind, times := transforms(), "request", 1+w.rng.IntN(6)
	if response {
		kind, times = "response", 1
	}
	var out []wire.Proposal
	var told []string
	for range times {
		t := table[w.nextCell("transform "+kind, len(table))]
		t.KeyBits = pick[uint16](w, 0, 0, 128, 192, 256, 1, 65535)
		told = append(told, transformName(t, kind))
		out = append(out, w.swapped(sa.Proposals[w.rng.IntN(len(sa.Proposals))], t))
	}
	if !response && w.chance(0.5) {
		out = append(out, sa.Proposals...)
	}
	for i := range out {
		out[i].Number = uint8(i + 1)
		if response {
			out[i].Number = sa.Proposals[0].Number
		}
	}
	if _, b, err := wire.AppendPayloads(nil, []wire.Payload{&wire.SA{Proposals: out}}); err == nil {
		p.body = b[4:]
	}
	for _, what := range told[1:] {
		w.lies[what] = true
	}
	return told[0]
}

// swapped is a proposal with t as the only transform of its type.
func (w *world) swapped(p wire.Proposal, t wire.Transform) wire.Proposal {
	is := func(x wire.Transform) bool { return x.Type == t.Type }
	i := slices.IndexFunc(p.Transforms, is)
	if i >= 0 && t.Type == wire.TransformEncr && w.chance(0.5) {
		t.KeyBits = p.Transforms[i].KeyBits
	}
	p.Transforms = slices.DeleteFunc(slices.Clone(p.Transforms), is)
	p.Transforms = slices.Insert(p.Transforms, min(max(i, 0), len(p.Transforms)), t)
	return p
}

func transformName(t wire.Transform, kind string) string {
	return fmt.Sprintf("transform %d/%d in a %s", t.Type, t.ID, kind)
}

func chainOf(p payload) []byte {
	_, b := join([]payload{p})
	return b
}

// transforms is each id in each slot: those that IANA knows, one above, a private one, and the last.
func transforms() (list []wire.Transform) {
	most := map[wire.TransformType]uint16{wire.TransformEncr: 36, wire.TransformPRF: 10, wire.TransformInteg: 15, wire.TransformKE: 38, wire.TransformESN: 3}
	for t := wire.TransformEncr; t <= wire.TransformADDKE7+1; t++ {
		n, ok := most[t]
		if !ok {
			n = 2
		}
		for id := range n {
			list = append(list, wire.Transform{Type: t, ID: id})
		}
		list = append(list, wire.Transform{Type: t, ID: 1024}, wire.Transform{Type: t, ID: 65535})
	}
	return list
}
