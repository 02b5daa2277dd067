package policy

import (
	"fmt"
	"slices"
	"strings"

	"cygnet/ike/wire"
)

// Bounds of what a description shows: peers may send thousands of transforms.
const (
	shownProposals  = 6
	shownTransforms = 16
)

// describe prints proposals as people read them: "AES-GCM-256, AES-GCM-128 / SHA2-256 / X25519; AES-CBC-256 / ...".
func describe(ps []wire.Proposal) string {
	var parts []string
	for i, p := range ps {
		if i == shownProposals {
			parts = append(parts, fmt.Sprintf("and %d more", len(ps)-i))
			break
		}
		parts = append(parts, describeOne(p))
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, "; ")
}

func describeOne(p wire.Proposal) string {
	var order []wire.TransformType
	by := map[wire.TransformType][]wire.Transform{}
	for _, t := range p.Transforms {
		if !slices.Contains(order, t.Type) {
			order = append(order, t.Type)
		}
		by[t.Type] = append(by[t.Type], t)
	}
	slices.Sort(order)
	var parts []string
	for _, typ := range order {
		switch list := names(by[typ]); typ {
		case wire.TransformPRF:
			parts = append(parts, "PRF "+list)
		default:
			parts = append(parts, list)
		}
	}
	return strings.Join(parts, " / ")
}

// names lists transforms of one type, each once.
func names(ts []wire.Transform) string {
	var list []string
	for _, t := range ts {
		if n := t.Word(); !slices.Contains(list, n) {
			list = append(list, n)
		}
		if len(list) > shownTransforms {
			list[shownTransforms] = "and more"
			break
		}
	}
	return strings.Join(list, ", ")
}

// words writes a proposal in the words of a configuration with the first transform of each type that we would accept; false when a type
// has none.
func words(p wire.Proposal, proto wire.ProtocolID) (string, bool) {
	mandatory, optional := valid(proto)
	if p.Protocol != proto {
		return "", false
	}
	var list []string
	aead := false
	for _, typ := range []wire.TransformType{wire.TransformEncr, wire.TransformInteg, wire.TransformPRF, wire.TransformKE} {
		required := slices.Contains(mandatory, typ) || typ == wire.TransformInteg && !aead
		if !required && !slices.Contains(optional, typ) || typ == wire.TransformInteg && aead {
			continue
		}
		a, ok := acceptableWord(p, typ)
		switch {
		case ok && (typ != wire.TransformPRF || aead || !sameHash(list, a)):
			list = append(list, a.Words[0])
			aead = aead || typ == wire.TransformEncr && isAEAD(a.transform())
		case !ok && required:
			return "", false
		}
	}
	return strings.Join(list, "-"), true
}

func acceptableWord(p wire.Proposal, typ wire.TransformType) (algorithm, bool) {
	for _, t := range p.Transforms {
		if a, ok := lookUp(t); ok && t.Type == typ && !t.Unusable && a.Refuse == "" && len(a.Words) > 0 && !isNone(t) {
			return a, true
		}
	}
	return algorithm{}, false
}

// sameHash: "sha256" already means the PRF too.
func sameHash(list []string, prf algorithm) bool {
	return slices.Contains(list, strings.TrimPrefix(prf.Words[0], "prf"))
}
