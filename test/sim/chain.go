package sim

import (
	"encoding/binary"
	"slices"

	"cygnet/ike/wire"
)

// payload is a payload as octets: what a liar changes need not be encodable.
type payload struct {
	kind     wire.PayloadType
	critical bool
	body     []byte
	length   int // that its header tells; -1: the right one
}

// split cuts a chain that is well formed.
func split(first wire.PayloadType, b []byte) (list []payload) {
	for t := first; t != wire.PayloadNone && len(b) >= 4; {
		n := int(binary.BigEndian.Uint16(b[2:]))
		list = append(list, payload{t, b[1]&0x80 != 0, slices.Clone(b[4:n]), -1})
		t, b = wire.PayloadType(b[0]), b[n:]
	}
	return list
}

// join is the chain of pieces.
func join(list []payload) (first wire.PayloadType, b []byte) {
	for i, p := range list {
		next := wire.PayloadNone
		if i+1 < len(list) {
			next = list[i+1].kind
		}
		flags := byte(0)
		if p.critical {
			flags = 0x80
		}
		n := p.length
		if n < 0 {
			n = 4 + len(p.body)
		}
		b = append(b, byte(next), flags)
		b = binary.BigEndian.AppendUint16(b, uint16(n))
		b = append(b, p.body...)
	}
	if len(list) > 0 {
		first = list[0].kind
	}
	return first, b
}
