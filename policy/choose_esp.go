package policy

import (
	"slices"

	"cygnet/ike/wire"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// ESPChoice is a chosen ESP proposal.
type ESPChoice struct {
	Proposal wire.Proposal // one transform per type; SPI is that of whoever sent the proposal
	Suite    xfrm.Suite
	Group    wire.GroupID // 0: no PFS
	SPI      uint32       // the peer's SPI
}

// ChooseESP is the responder's choice for a child; ke is the group of the KE payload that came, 0 when none. When the Group of the choice
// is neither 0 nor ke, INVALID_KE_PAYLOAD is due (RFC 7296 section 1.3). In IKE_AUTH pfs is false and groups are as if absent (section 1.2).
func ChooseESP(ch *Child, offered []wire.Proposal, pfs bool, ke wire.GroupID, caps xfrm.Capabilities) (ESPChoice, *Mismatch) {
	able := within(ch.ESP, caps)
	if len(able) == 0 {
		return ESPChoice{}, unable(ch, offered, caps)
	}
	var d difference
	for _, p := range able {
		ours := ourMenu(p)
		for _, o := range offered {
			theirs, flaw := newMenu(o)
			if flaw == "" && o.Protocol != wire.ProtoESP {
				flaw = "it is not for ESP"
			}
			if flaw != "" {
				d.flaw(o, flaw)
				continue
			}
			types := []wire.TransformType{wire.TransformESN}
			if pfs {
				types = append(types, wire.TransformKE)
				ours.usable[wire.TransformKE] = acceptable(ch, ke)
				if !theirs.present[wire.TransformKE] { // RFC 7296 section 3.3.3: left out means NONE
					theirs.usable[wire.TransformKE] = []wire.Transform{group(wire.GroupNone)}
				}
			}
			got, lacking := ours.agree(theirs, types...)
			if len(lacking) == 0 {
				if !theirs.present[wire.TransformKE] {
					got = slices.DeleteFunc(got, func(t wire.Transform) bool { return t.Type == wire.TransformKE })
				}
				return espChoice(answer(o, got)), nil
			}
			d.note(nil, ours, theirs, lacking)
		}
	}
	return ESPChoice{}, d.espMismatch(ch, offered)
}

// acceptable lists the groups for a child in order of preference, the one whose KE payload is already there first: any of ours is strong
// enough, and it saves a round trip.
func acceptable(ch *Child, ke wire.GroupID) []wire.Transform {
	ids := ch.PFS
	if len(ids) == 0 {
		ids = append([]wire.GroupID{wire.GroupNone}, defaultGroups()...)
	}
	if ke != wire.GroupNone && slices.Contains(ids, ke) {
		ids = append([]wire.GroupID{ke}, ids...)
	}
	return groupTransforms(ids)
}

func group(id wire.GroupID) wire.Transform {
	return wire.Transform{Type: wire.TransformKE, ID: uint16(id)}
}

func espChoice(p wire.Proposal) ESPChoice {
	c := ESPChoice{Proposal: p, SPI: espSPI(p)}
	for _, t := range p.Transforms {
		switch t.Type {
		case wire.TransformEncr:
			c.Suite.Encr, c.Suite.KeyBits = alg.Encr(t.ID), keyBits(t)
		case wire.TransformInteg:
			c.Suite.Integ = alg.Integ(t.ID)
		case wire.TransformKE:
			c.Group = wire.GroupID(t.ID)
		case wire.TransformESN:
			c.Suite.ESN = t.ID == wire.ESNYes
		}
	}
	return c
}

// SuiteLens returns the octets of KEYMAT that each direction of s needs: the encryption key with its salt, and the integrity key. Both are 0
// for a suite that does not exist.
func SuiteLens(s xfrm.Suite) (encr, integ int) {
	encr, integ, err := alg.KeyLens(s.Encr, s.KeyBits, s.Integ)
	if err != nil {
		return 0, 0
	}
	return encr, integ
}
