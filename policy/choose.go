package policy

import (
	"slices"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// ChooseIKE picks the responder's answer from offered: the first of ours in order of preference that they offer. The candidates' proposals are
// tried in order, and a suite that all of them allow goes first: which of them it is, the peer says only later (RFC 7296 section 3.3.4). The result has
// one transform per type and the number of their proposal; our.Group decides about INVALID_KE_PAYLOAD.
func ChooseIKE(cands []*Connection, offered []wire.Proposal) (wire.Proposal, suite.IKE, *Mismatch) {
	var d difference
	var first *wire.Proposal
	for _, c := range cands {
		for _, p := range c.IKE {
			ours := ourMenu(p)
			for _, o := range offered {
				theirs, flaw := newMenu(o)
				if flaw == "" && o.Protocol != wire.ProtoIKE {
					flaw = "it is not for IKE"
				}
				if flaw != "" {
					d.flaw(o, flaw)
					continue
				}
				got, lacking := ours.agree(theirs, wire.TransformPRF, wire.TransformKE)
				if len(lacking) > 0 {
					d.note(c, ours, theirs, lacking)
					continue
				}
				if a := answer(o, got); allAllow(cands, ikeSuite(got)) {
					return a, ikeSuite(got), nil
				} else if first == nil {
					first = &a
				}
			}
		}
	}
	if first != nil {
		return *first, ikeSuite(first.Transforms), nil
	}
	return wire.Proposal{}, suite.IKE{}, d.ikeMismatch(cands, offered)
}

func allAllow(cands []*Connection, s suite.IKE) bool {
	return !slices.ContainsFunc(cands, func(c *Connection) bool { return !c.AllowsIKE(s) })
}

// AllowsIKE says whether c alone would have agreed to s: when several connections were candidates for an IKE_SA_INIT, the one that the
// identities pick must allow what was negotiated before they were known (RFC 7296 section 3.3.4).
func (c *Connection) AllowsIKE(s suite.IKE) bool {
	for _, p := range c.IKE {
		var encr, integ, prf, group bool
		for _, t := range p.Transforms {
			switch t.Type {
			case wire.TransformEncr:
				encr = encr || t.ID == uint16(s.Encr) && keyBits(t) == s.KeyBits
			case wire.TransformInteg:
				integ = integ || t.ID == uint16(s.Integ)
			case wire.TransformPRF:
				prf = prf || t.ID == uint16(s.PRF)
			case wire.TransformKE:
				group = group || t.ID == uint16(s.Group)
			}
		}
		if encr && prf && group && (integ || s.Integ == alg.IntegNone) {
			return true
		}
	}
	return false
}

// ourMenu sorts a proposal of our own, which has no SPI yet.
func ourMenu(p wire.Proposal) (m menu) {
	m.proposal = p
	for _, t := range p.Transforms {
		m.present[t.Type] = true
		m.usable[t.Type] = append(m.usable[t.Type], t)
	}
	return m
}

// answer is their proposal with the chosen transforms (RFC 7296 section 3.3.1: the number is theirs).
func answer(theirs wire.Proposal, got []wire.Transform) wire.Proposal {
	return wire.Proposal{Number: theirs.Number, Protocol: theirs.Protocol, SPI: theirs.SPI, Transforms: got}
}

// keyBits is the length of the key in bits, which ciphers of one length do not send.
func keyBits(t wire.Transform) int {
	if c, ok := alg.CipherByID(alg.Encr(t.ID)); ok && c.FixedKey {
		return c.KeyBits[0]
	}
	return int(t.KeyBits)
}

func ikeSuite(got []wire.Transform) (s suite.IKE) {
	for _, t := range got {
		switch t.Type {
		case wire.TransformEncr:
			s.Encr, s.KeyBits = alg.Encr(t.ID), keyBits(t)
		case wire.TransformInteg:
			s.Integ = alg.Integ(t.ID)
		case wire.TransformPRF:
			s.PRF = wire.PRFID(t.ID)
		case wire.TransformKE:
			s.Group = wire.GroupID(t.ID)
		}
	}
	return s
}
