package policy

import (
	"net/netip"

	"cygnet/xfrm"
)

// maxSelectors bounds the pairs of prefixes of one child. A peer within wide selectors may ask for ranges that split into hundreds of
// prefixes; two IPv4 ranges of one pair make 62 x 62 at the most and stay below.
const maxSelectors = 4096

// Selectors splits ranges into prefixes and pairs them: packets from src to dst. Only pairs of one family and one protocol exist. The split is
// exact and minimal, never wider than the range.
func Selectors(src, dst []TS) []xfrm.Selector {
	var out []xfrm.Selector
	for _, s := range src {
		for _, d := range dst {
			if !pairs(s, d) {
				continue
			}
			proto, _ := meetProto(s.Proto, d.Proto)
			for _, sp := range s.prefixes() {
				for _, dp := range d.prefixes() {
					out = append(out, xfrm.Selector{Src: sp, Dst: dp, Proto: proto, SrcPorts: s.Ports, DstPorts: d.Ports})
				}
			}
		}
	}
	return out
}

// pairs: packets from a to b can exist.
func pairs(a, b TS) bool {
	_, ok := meetProto(a.Proto, b.Proto)
	return ok && a.Start.BitLen() == b.Start.BitLen()
}

// prefixes covers the range with the fewest prefixes: at most 2*bits-2.
func (t TS) prefixes() (out []netip.Prefix) {
	for at := t.Start; at.IsValid() && at.Compare(t.End) <= 0; {
		p := largestPrefix(at, t.End)
		out = append(out, p)
		at = lastOf(p).Next() // the zero Addr after the last address of the family
	}
	return out
}
