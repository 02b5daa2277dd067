package policy

import (
	"fmt"
	"slices"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
)

// CheckIKE checks a responder's answer against what we offered (RFC 7296 section 3.3.6).
func CheckIKE(offered []wire.Proposal, answer []wire.Proposal) (suite.IKE, *Mismatch) {
	got, why := accepted(offered, answer)
	if why == "" && got.Protocol != wire.ProtoIKE {
		why = "it is not for IKE"
	}
	if why != "" {
		return suite.IKE{}, notOffered(offered, answer, why)
	}
	return ikeSuite(got.Transforms), nil
}

// CheckESP checks the answer of a responder.
func CheckESP(offered []wire.Proposal, answer []wire.Proposal) (ESPChoice, *Mismatch) {
	got, why := accepted(offered, answer)
	if why == "" && got.Protocol != wire.ProtoESP {
		why = "it is not for ESP"
	}
	if why != "" {
		return ESPChoice{}, notOffered(offered, answer, why)
	}
	return espChoice(got), nil
}

// accepted returns the answer without superfluous NONEs when it is one of our proposals with exactly one transform of each type.
func accepted(offered, answer []wire.Proposal) (got wire.Proposal, why string) {
	if len(answer) != 1 {
		return got, fmt.Sprintf("it holds %d proposals where one is due", len(answer))
	}
	got = answer[0]
	i := slices.IndexFunc(offered, func(p wire.Proposal) bool { return p.Number == got.Number && p.Protocol == got.Protocol })
	if i < 0 {
		return got, fmt.Sprintf("it names proposal %d, which we did not make", got.Number)
	}
	ours := offered[i]
	if len(got.SPI) != len(ours.SPI) {
		return got, fmt.Sprintf("its SPI has %d octets, ours %d", len(got.SPI), len(ours.SPI))
	}
	got.Transforms = slices.DeleteFunc(slices.Clone(got.Transforms), func(t wire.Transform) bool { return emptyNone(ours, t) })
	m, flaw := newMenu(got)
	if flaw != "" {
		return got, flaw
	}
	for _, t := range got.Transforms {
		switch {
		case t.Unusable || !slices.Contains(ours.Transforms, t):
			return got, fmt.Sprintf("we did not offer %s as %s in proposal %d", t.Word(), typeName(t.Type), ours.Number)
		case len(m.usable[t.Type]) != 1:
			return got, fmt.Sprintf("it holds %d %s transforms where one is due", len(m.usable[t.Type]), typeName(t.Type))
		}
	}
	return got, incomplete(ours, m)
}

// emptyNone: NONE where we offered nothing of that type says nothing (RFC 7296 sections 1.2 and 3.3).
func emptyNone(ours wire.Proposal, t wire.Transform) bool {
	return isNone(t) && !slices.ContainsFunc(ours.Transforms, func(o wire.Transform) bool { return o.Type == t.Type })
}

// incomplete: each type that we offered must have been chosen from, but for a group that may be NONE (RFC 7296 section 3.3.3).
func incomplete(ours wire.Proposal, m menu) string {
	for _, t := range ours.Transforms {
		if !m.present[t.Type] && !(t.Type == wire.TransformKE && slices.Contains(ours.Transforms, group(wire.GroupNone))) {
			return fmt.Sprintf("it lacks the %s transform", typeName(t.Type))
		}
	}
	return ""
}
