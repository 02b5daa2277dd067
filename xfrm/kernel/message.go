package kernel

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// request is one netlink request under construction. It is the only place where its octets stand, keys among them,
// until wipe: growing moves them and clears the old place.
type request struct{ b []byte }

// requestRoom holds every SA request without growing (the largest has 24 + 512 octets of replay state).
const requestRoom = 2048

func newRequest(kind, flags uint16) *request {
	r := &request{b: make([]byte, unix.SizeofNlMsghdr, requestRoom)}
	binary.NativeEndian.PutUint16(r.b[4:], kind)
	binary.NativeEndian.PutUint16(r.b[6:], unix.NLM_F_REQUEST|flags)
	return r
}

// extend appends n zero octets and returns them.
func (r *request) extend(n int) []byte {
	at := len(r.b)
	if at+n > cap(r.b) {
		larger := make([]byte, at, 2*(at+n))
		copy(larger, r.b)
		clear(r.b)
		r.b = larger
	}
	r.b = r.b[:at+n]
	return r.b[at:]
}

// body appends the fixed part of the request.
func (r *request) body(b []byte) *request {
	copy(r.extend(align(len(b))), b)
	return r
}

// attr appends an attribute whose value is the parts in a row.
func (r *request) attr(kind uint16, parts ...[]byte) *request {
	n := unix.SizeofRtAttr
	for _, p := range parts {
		n += len(p)
	}
	at := r.extend(align(n))
	binary.NativeEndian.PutUint16(at, uint16(n))
	binary.NativeEndian.PutUint16(at[2:], kind)
	at = at[unix.SizeofRtAttr:]
	for _, p := range parts {
		at = at[copy(at, p):]
	}
	return r
}

func (r *request) attr8(kind uint16, v uint8) *request { return r.attr(kind, []byte{v}) }

func (r *request) attr32(kind uint16, v uint32) *request {
	return r.attr(kind, binary.NativeEndian.AppendUint32(nil, v))
}

// seal fills in the length and the sequence number.
func (r *request) seal(seq uint32) []byte {
	binary.NativeEndian.PutUint32(r.b, uint32(len(r.b)))
	binary.NativeEndian.PutUint32(r.b[8:], seq)
	return r.b
}

func (r *request) wipe() { clear(r.b[:cap(r.b)]) }

// align rounds up to netlink's alignment, which is the same for messages and attributes.
func align(n int) int { return (n + 3) &^ 3 }

var errShort = errors.New("the kernel's message is shorter than it should be")

// attributes are those of one message, by type; of a repeated one the last.
type attributes map[uint16][]byte

// parseAttributes reads what follows the fixed part of size octets.
func parseAttributes(message []byte, fixed int) (attributes, error) {
	if len(message) < fixed {
		return nil, errShort
	}
	b, out := message[min(align(fixed), len(message)):], attributes{}
	for len(b) >= unix.SizeofRtAttr {
		n, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if n < unix.SizeofRtAttr || n > len(b) {
			return nil, errShort
		}
		out[kind&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER)] = b[unix.SizeofRtAttr:n]
		b = b[min(align(n), len(b)):]
	}
	return out, nil
}

// u32 returns the attribute's number; false when it is not there.
func (a attributes) u32(kind uint16) (uint32, bool) {
	if v := a[kind]; len(v) >= 4 {
		return binary.NativeEndian.Uint32(v), true
	}
	return 0, false
}

func htonl(v uint32) uint32 {
	return binary.NativeEndian.Uint32(binary.BigEndian.AppendUint32(nil, v))
}

func htons(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

func ntohl(v uint32) uint32 { return htonl(v) }
func ntohs(v uint16) uint16 { return htons(v) }
