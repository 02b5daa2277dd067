package policy

import (
	"fmt"
	"slices"

	"cygnet/ike/wire"
	"cygnet/xfrm/alg"
)

// menu is one proposal with its usable transforms sorted by type, each in the order of preference in which it was listed.
type menu struct {
	proposal wire.Proposal
	usable   [6][]wire.Transform // by transform type, 1 to 5
	present  [6]bool             // the type was there, with usable transforms or without
}

// valid says which transform types a protocol has and which of them it must have (RFC 7296 section 3.3.3). INTEG depends on the cipher.
func valid(p wire.ProtocolID) (mandatory, optional []wire.TransformType) {
	if p == wire.ProtoIKE {
		return []wire.TransformType{wire.TransformEncr, wire.TransformPRF, wire.TransformKE}, []wire.TransformType{wire.TransformInteg}
	}
	return []wire.TransformType{wire.TransformEncr, wire.TransformESN}, []wire.TransformType{wire.TransformInteg, wire.TransformKE}
}

// newMenu sorts a proposal that a peer sent. A flaw says why the whole proposal is out; others of its SA payload are tried all the same
// (RFC 7296 section 3.3.6).
func newMenu(p wire.Proposal) (m menu, flaw string) {
	if flaw := badSPI(p); flaw != "" {
		return menu{}, flaw
	}
	m.proposal = p
	mandatory, optional := valid(p.Protocol)
	for _, t := range p.Transforms {
		switch {
		case t.Type >= wire.TransformADDKE1 && t.Type <= wire.TransformADDKE7 && offersNone(p, t.Type):
			continue
		case !slices.Contains(mandatory, t.Type) && !slices.Contains(optional, t.Type):
			return menu{}, fmt.Sprintf("it carries %s, which has no place in it", typeName(t.Type))
		case t.Type == wire.TransformEncr && t.KeyBits == 0 && needsKeyLength(t):
			return menu{}, fmt.Sprintf("%s comes without a key length (RFC 7296 section 3.3.5)", t.Word())
		}
		m.present[t.Type] = true
		if !t.Unusable { // a key length where none belongs makes another transform than any of ours
			m.usable[t.Type] = append(m.usable[t.Type], t)
		}
	}
	for _, t := range mandatory {
		if !m.present[t] {
			return menu{}, fmt.Sprintf("it carries no %s transform", typeName(t))
		}
	}
	return m, ""
}

// badSPI checks protocol and SPI size (RFC 7296 section 3.3.1): none in IKE_SA_INIT, 8 octets in an IKE rekey, 4 for ESP, of which 0 to
// 255 are reserved (RFC 4303 section 2.1).
func badSPI(p wire.Proposal) string {
	switch {
	case p.Protocol == wire.ProtoAH:
		return "it is for AH, which is not implemented"
	case p.Protocol == wire.ProtoIKE && len(p.SPI) != 0 && len(p.SPI) != 8:
		return fmt.Sprintf("its SPI has %d octets where IKE has 8, or none in IKE_SA_INIT", len(p.SPI))
	case p.Protocol == wire.ProtoESP && len(p.SPI) != 4:
		return fmt.Sprintf("its SPI has %d octets where ESP has 4", len(p.SPI))
	case p.Protocol == wire.ProtoESP && espSPI(p) < 256:
		return fmt.Sprintf("its SPI %d is reserved", espSPI(p))
	case p.Protocol != wire.ProtoIKE && p.Protocol != wire.ProtoESP:
		return fmt.Sprintf("its protocol %d is unknown", p.Protocol)
	}
	return ""
}

func espSPI(p wire.Proposal) uint32 {
	if len(p.SPI) != 4 {
		return 0
	}
	return uint32(p.SPI[0])<<24 | uint32(p.SPI[1])<<16 | uint32(p.SPI[2])<<8 | uint32(p.SPI[3])
}

// offersNone: a further key exchange that the peer would do without is one that we do without (RFC 9370 section 2.2.1).
func offersNone(p wire.Proposal, t wire.TransformType) bool {
	return slices.ContainsFunc(p.Transforms, func(x wire.Transform) bool { return x.Type == t && x.ID == uint16(wire.GroupNone) && !x.Unusable })
}

// needsKeyLength: the ciphers of variable key length that we know have no default (RFC 3602, RFC 4106, RFC 5282).
func needsKeyLength(t wire.Transform) bool {
	c, ok := alg.CipherByID(alg.Encr(t.ID))
	return ok && !c.FixedKey
}

func isAEAD(t wire.Transform) bool {
	c, ok := alg.CipherByID(alg.Encr(t.ID))
	return ok && c.AEAD()
}

func integNone() wire.Transform { return wire.Transform{Type: wire.TransformInteg, ID: wire.IntegNone} }

func isNone(t wire.Transform) bool { return t == integNone() || t == group(wire.GroupNone) }

// first is our most preferred transform that they list too.
func first(ours, theirs []wire.Transform) (wire.Transform, bool) {
	for _, t := range ours {
		if slices.Contains(theirs, t) {
			return t, true
		}
	}
	return wire.Transform{}, false
}

// agreeCipher picks the cipher and, when it does not authenticate by itself, its integrity algorithm. With AEAD the peer may list none
// or NONE, and none is answered (RFC 7296 section 3.3, RFC 5282 section 8).
func (ours menu) agreeCipher(theirs menu) (got []wire.Transform, lacking wire.TransformType) {
	lacking = wire.TransformEncr
	for _, c := range ours.usable[wire.TransformEncr] {
		switch integ, ok := first(ours.usable[wire.TransformInteg], theirs.usable[wire.TransformInteg]); {
		case !slices.Contains(theirs.usable[wire.TransformEncr], c):
		case isAEAD(c) && (!theirs.present[wire.TransformInteg] || slices.Contains(theirs.usable[wire.TransformInteg], integNone())):
			return []wire.Transform{c}, 0
		case !isAEAD(c) && ok:
			return []wire.Transform{c, integ}, 0
		default:
			lacking = wire.TransformInteg
		}
	}
	return nil, lacking
}

// agree picks one transform of each type, ours first. What is lacking names the types without a common transform.
func (ours menu) agree(theirs menu, types ...wire.TransformType) (got []wire.Transform, lacking []wire.TransformType) {
	got, without := ours.agreeCipher(theirs)
	if without != 0 {
		lacking = append(lacking, without)
	}
	for _, typ := range types {
		t, ok := first(ours.usable[typ], theirs.usable[typ])
		if !ok {
			lacking = append(lacking, typ)
			continue
		}
		got = append(got, t)
	}
	return got, lacking
}
