package policy

import (
	"encoding/binary"
	"slices"

	"cygnet/ike/wire"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// OfferIKE numbers the proposals of c for sending. OfferESP likewise for a child, with spi; pfs is false in IKE_AUTH. caps removes what the data plane lacks.
func OfferIKE(c *Connection) []wire.Proposal { return number(c.IKE) }

// OfferESP is empty when the data plane can do none of the child's proposals.
func OfferESP(ch *Child, spi uint32, pfs bool, caps xfrm.Capabilities) []wire.Proposal {
	ps := number(within(ch.ESP, caps))
	for i := range ps {
		ps[i].SPI = binary.BigEndian.AppendUint32(nil, spi)
		if !pfs { // RFC 7296 section 1.2: IKE_AUTH has no KE payload, and the transform is left out
			continue
		}
		ps[i].Transforms = append(ps[i].Transforms, groupTransforms(ch.PFS)...)
	}
	return ps
}

// FirstGroup is the group for the first guess of a KE payload: the first of the first proposal that has one. 0 when none does.
func FirstGroup(offered []wire.Proposal) wire.GroupID {
	for _, p := range offered {
		for _, t := range p.Transforms {
			if t.Type == wire.TransformKE && t.ID != uint16(wire.GroupNone) {
				return wire.GroupID(t.ID)
			}
		}
	}
	return wire.GroupNone
}

// OffersGroup says whether a group is in any of the proposals: one that is not is never used for a KE payload (RFC 7296 section 3.4), also
// when an INVALID_KE_PAYLOAD names it.
func OffersGroup(offered []wire.Proposal, g wire.GroupID) bool {
	return slices.ContainsFunc(offered, func(p wire.Proposal) bool { return slices.Contains(p.Transforms, group(g)) })
}

// number copies proposals and numbers them from 1 (RFC 7296 section 3.3.1).
func number(ps []wire.Proposal) []wire.Proposal {
	out := make([]wire.Proposal, len(ps))
	for i, p := range ps {
		p.Number = uint8(i + 1)
		p.Transforms = slices.Clone(p.Transforms)
		out[i] = p
	}
	return out
}

// within leaves what the data plane can do. A proposal that loses the last transform of a type it needs is left out.
func within(ps []wire.Proposal, caps xfrm.Capabilities) (out []wire.Proposal) {
	for _, p := range ps {
		p.Transforms = slices.DeleteFunc(slices.Clone(p.Transforms), func(t wire.Transform) bool {
			switch t.Type {
			case wire.TransformEncr:
				return !caps.Encr[alg.Encr(t.ID)]
			case wire.TransformInteg:
				return !caps.Integ[alg.Integ(t.ID)]
			case wire.TransformESN:
				return t.ID == wire.ESNYes && !caps.ESN
			}
			return false
		})
		if complete(ourMenu(p)) {
			out = append(out, p)
		}
	}
	return out
}

// complete: every type that an ESP proposal needs is there.
func complete(m menu) bool {
	encr := m.usable[wire.TransformEncr]
	if len(encr) == 0 || !m.present[wire.TransformESN] {
		return false
	}
	return isAEAD(encr[0]) || m.present[wire.TransformInteg]
}
