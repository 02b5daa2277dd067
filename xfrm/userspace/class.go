package userspace

import "encoding/binary"

// ECN field of the traffic class (RFC 3168 section 5).
const (
	ecnMask = 3
	notECT  = 0
	ect1    = 1
	ect0    = 2
	ce      = 3
)

// trafficClass of an IP packet: DSCP and ECN.
func trafficClass(p []byte) uint8 {
	if p[0]>>4 == 4 {
		return p[1]
	}
	return p[0]<<4 | p[1]>>4
}

// outerClass is the traffic class of the packet that carries an inner one: ECN as RFC 6040 section 4.1 has it in normal mode, DSCP copied
// (RFC 4301 section 5.1.2.1) unless it is to stay hidden.
func outerClass(inner uint8, hideDSCP bool) uint8 {
	if hideDSCP {
		return inner & ecnMask
	}
	return inner
}

// ecnVerdict of a combination of inner and outer ECN.
type ecnVerdict uint8

const (
	ecnFine ecnVerdict = iota
	ecnOdd             // no sender makes it today: it passes and is counted
	ecnDrop            // congestion was marked on what cannot carry the mark
)

// innerECN is what goes on where an inner packet with one ECN field arrived in an outer one with another (RFC 6040 section 4.2, figure 4). Of the outer
// packet, which nobody has authenticated, nothing else ever reaches the inner one: not its DSCP.
func innerECN(inner, outer uint8) (uint8, ecnVerdict) {
	type result struct {
		ecn     uint8
		verdict ecnVerdict
	}
	r := [4][4]result{ // inner; outer notECT, ect1, ect0, ce
		notECT: {notECT: {notECT, ecnFine}, ect1: {notECT, ecnOdd}, ect0: {notECT, ecnOdd}, ce: {notECT, ecnDrop}},
		ect1:   {notECT: {ect1, ecnFine}, ect1: {ect1, ecnFine}, ect0: {ect1, ecnOdd}, ce: {ce, ecnFine}},
		ect0:   {notECT: {ect0, ecnFine}, ect1: {ect1, ecnFine}, ect0: {ect0, ecnFine}, ce: {ce, ecnFine}},
		ce:     {notECT: {ce, ecnFine}, ect1: {ce, ecnOdd}, ect0: {ce, ecnFine}, ce: {ce, ecnFine}},
	}[inner&ecnMask][outer&ecnMask]
	return r.ecn, r.verdict
}

// receiveECN brings the ECN field of p, an IP packet that arrived in one of traffic class outer, to what RFC 6040 wants.
func receiveECN(p []byte, outer uint8) ecnVerdict {
	inner := trafficClass(p) & ecnMask
	ecn, verdict := innerECN(inner, outer)
	if ecn != inner && verdict != ecnDrop {
		setECN(p, ecn)
	}
	return verdict
}

// setECN of an IP packet, with the checksum of an IPv4 header (RFC 1624).
func setECN(p []byte, ecn uint8) {
	if p[0]>>4 == 6 {
		p[1] = p[1]&^(ecnMask<<4) | ecn<<4
		return
	}
	before := binary.BigEndian.Uint16(p)
	p[1] = p[1]&^ecnMask | ecn
	replaced(p[10:12], before, binary.BigEndian.Uint16(p))
}

// replaced brings a checksum up to date where one word under it has another value now (RFC 1624 section 3, equation 3).
func replaced(field []byte, before, after uint16) {
	s := sum(^binary.BigEndian.Uint16(field)).plus(^before).plus(after)
	binary.BigEndian.PutUint16(field, s.checksum())
}
