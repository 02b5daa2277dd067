package userspace

import (
	"encoding/binary"
	"math/bits"
)

// sum is an Internet checksum (RFC 1071) on the way: the ones' complement sum of octets, taken as 16-bit words. What follows an odd number of
// octets must not be added.
type sum uint16

// add is s with the octets of b. Eight octets are one step, in the host's order: the sum is the same in any (RFC 1071 section 2 B), and the carries of
// each step go into the next.
func (s sum) add(b []byte) sum {
	var a, c uint64
	e := binary.NativeEndian
	for len(b) >= 64 {
		a, c = bits.Add64(a, e.Uint64(b), c)
		a, c = bits.Add64(a, e.Uint64(b[8:]), c)
		a, c = bits.Add64(a, e.Uint64(b[16:]), c)
		a, c = bits.Add64(a, e.Uint64(b[24:]), c)
		a, c = bits.Add64(a, e.Uint64(b[32:]), c)
		a, c = bits.Add64(a, e.Uint64(b[40:]), c)
		a, c = bits.Add64(a, e.Uint64(b[48:]), c)
		a, c = bits.Add64(a, e.Uint64(b[56:]), c)
		b = b[64:]
	}
	for len(b) >= 8 {
		a, c = bits.Add64(a, e.Uint64(b), c)
		b = b[8:]
	}
	if len(b) > 0 {
		var tail [8]byte
		copy(tail[:], b)
		a, c = bits.Add64(a, e.Uint64(tail[:]), c)
	}
	a, c = bits.Add64(a, 0, c)
	a += c
	a = a>>32 + a&0xffffffff
	a = a>>16 + a&0xffff
	a = a>>16 + a&0xffff
	a = a>>16 + a&0xffff
	var word [2]byte
	e.PutUint16(word[:], uint16(a))
	return s.plus(binary.BigEndian.Uint16(word[:]))
}

// plus is s with one more word.
func (s sum) plus(w uint16) sum {
	a := uint32(s) + uint32(w)
	return sum(a>>16 + a&0xffff)
}

// checksum is what goes into the field.
func (s sum) checksum() uint16 { return ^uint16(s) }

// pseudo is the sum of a pseudo-header (RFC 9293 section 3.1, RFC 8200 section 8.1): addresses are the source and the destination, one after the other
// as the IP header has them; length is that of the upper-layer packet.
func pseudo(addresses []byte, proto uint8, length int) sum {
	return sum(0).add(addresses).plus(uint16(proto)).plus(uint16(length >> 16)).plus(uint16(length))
}
