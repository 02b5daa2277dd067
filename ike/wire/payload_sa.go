package wire

import "encoding/binary"

const (
	proposalLen  = 8 // octets of a proposal before its SPI (section 3.3.1)
	transformLen = 8 // octets of a transform before its attributes (section 3.3.2)

	moreProposals  = 2 // Last Substruc of all proposals but the last
	moreTransforms = 3 // Last Substruc of all transforms but the last
)

// Type returns PayloadSA.
func (*SA) Type() PayloadType { return PayloadSA }

// parseSA checks that lengths, counts and Last Substruc agree with each other and with the payload (section 3.3).
func parseSA(body []byte) (Payload, error) {
	sa := new(SA)
	for at := 0; at < len(body); {
		if err := within(len(sa.Proposals)+1, MaxProposals, "proposals in an SA payload"); err != nil {
			return nil, err
		}
		part, err := substructure(body[at:], moreProposals, proposalLen)
		if err != nil {
			return nil, moved(err, at)
		}
		p, err := parseProposal(part)
		if err != nil {
			return nil, moved(err, at)
		}
		sa.Proposals = append(sa.Proposals, p)
		at += len(part)
	}
	if len(sa.Proposals) == 0 {
		return nil, malformed(0, "no proposal")
	}
	return sa, nil
}

// substructure cuts the proposal or transform at the start of b, which runs to the end of what encloses it. Last Substruc is
// more, or 0 exactly when the substructure is the last.
func substructure(b []byte, more byte, least int) ([]byte, error) {
	if len(b) < least {
		return nil, malformed(0, "%d octets are left, a substructure has at least %d", len(b), least)
	}
	n := int(binary.BigEndian.Uint16(b[2:]))
	if n < least || n > len(b) {
		return nil, malformed(2, "substructure length is %d, possible is %d to %d", n, least, len(b))
	}
	want := more
	if n == len(b) {
		want = 0
	}
	if b[0] != want {
		return nil, malformed(0, "Last Substruc is %d, by the lengths it is %d", b[0], want)
	}
	return b[:n:n], nil
}

func parseProposal(b []byte) (Proposal, error) {
	p := Proposal{Number: b[4], Protocol: ProtocolID(b[5])}
	spiSize, count := int(b[6]), int(b[7])
	if !spiSizeFits(p.Protocol, spiSize) {
		return p, malformed(6, "SPI Size is %d in a proposal for %s", spiSize, p.Protocol)
	}
	at := proposalLen + spiSize
	if at > len(b) {
		return p, malformed(6, "SPI Size is %d, %d octets are left", spiSize, len(b)-proposalLen)
	}
	p.SPI = b[proposalLen:at:at]
	if err := within(count, MaxTransforms, "transforms in a proposal"); err != nil {
		return p, err
	}
	for at < len(b) {
		if len(p.Transforms) == count {
			return p, malformed(7, "Num Transforms is %d, there are more", count)
		}
		part, err := substructure(b[at:], moreTransforms, transformLen)
		if err != nil {
			return p, moved(err, at)
		}
		t, err := parseTransform(part)
		if err != nil {
			return p, moved(err, at)
		}
		p.Transforms = append(p.Transforms, t)
		at += len(part)
	}
	if count == 0 || len(p.Transforms) != count {
		return p, malformed(7, "Num Transforms is %d, there are %d and at least one is wanted", count, len(p.Transforms))
	}
	return p, nil
}

// spiSizeFits knows the SPI sizes of section 3.3.1: 4 for ESP and AH, 8 when an IKE SA is rekeyed, none in IKE_SA_INIT. A
// protocol that we do not know may have any; its proposal is never chosen.
func spiSizeFits(p ProtocolID, size int) bool {
	switch p {
	case ProtoIKE:
		return size == 0 || size == 8
	case ProtoESP, ProtoAH:
		return size == 4
	default:
		return true
	}
}

func (sa *SA) appendBody(b []byte) ([]byte, error) {
	if len(sa.Proposals) == 0 {
		return b, unencodable(PayloadSA, "no proposal")
	}
	if err := within(len(sa.Proposals), MaxProposals, "proposals in an SA payload"); err != nil {
		return b, err
	}
	for i := range sa.Proposals {
		start := len(b)
		var err error
		if b, err = sa.Proposals[i].append(b); err != nil {
			return b, err
		}
		closeSubstructure(b[start:], i < len(sa.Proposals)-1, moreProposals)
	}
	return b, nil
}

// closeSubstructure fills in Last Substruc and the length of the substructure that b is. One that is too long for its length
// is too long for Payload Length, which AppendPayloads checks; likewise in the other payloads.
func closeSubstructure(b []byte, another bool, more byte) {
	if another {
		b[0] = more
	}
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
}

func (p *Proposal) append(b []byte) ([]byte, error) {
	if len(p.SPI) > 0xff || !spiSizeFits(p.Protocol, len(p.SPI)) {
		return b, unencodable(PayloadSA, "an SPI of %d octets in a proposal for %s", len(p.SPI), p.Protocol)
	}
	if len(p.Transforms) == 0 {
		return b, unencodable(PayloadSA, "proposal %d has no transform", p.Number)
	}
	if err := within(len(p.Transforms), MaxTransforms, "transforms in a proposal"); err != nil {
		return b, err
	}
	b = append(b, 0, 0, 0, 0, p.Number, byte(p.Protocol), byte(len(p.SPI)), byte(len(p.Transforms)))
	b = append(b, p.SPI...)
	for i, t := range p.Transforms {
		start := len(b)
		var err error
		if b, err = t.append(b); err != nil {
			return b, err
		}
		closeSubstructure(b[start:], i < len(p.Transforms)-1, moreTransforms)
	}
	return b, nil
}
