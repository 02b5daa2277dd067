package esp

import (
	"encoding/binary"
	"fmt"

	"cygnet/xfrm"
)

// Inbound opens the packets of one SA.
type Inbound struct {
	layout
	window    window
	transform transform
}

// NewInbound makes the receiver's side of an SA. The keys are copied. The window is sa.Replay packets, at least MinWindow and at most
// MaxWindow: anti-replay is never off.
func NewInbound(sa xfrm.SA) (*Inbound, error) {
	l, err := layoutOf(sa.Suite)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", sa.ID, err)
	}
	i := &Inbound{layout: l, window: newWindow(sa.Replay)}
	if i.transform, err = newTransform(&sa, l); err != nil {
		return nil, err
	}
	return i, nil
}

// Open checks an ESP packet, which starts at the SPI, and decrypts it in place. The data returned is a part of packet; it is nil unless the reason is
// Accepted. Whether the SPI is this SA's is the caller's look-up.
//
// The order is RFC 4303 section 3.4: replay check, ICV, window, decryption, padding. The padding is looked at only when the ICV was good, so that its
// check tells nothing.
func (i *Inbound) Open(packet []byte) (data []byte, nextHeader uint8, r Reason) {
	if i.transform == nil {
		return nil, 0, Wiped
	}
	ivEnd, end := headerLen+i.iv, len(packet)-i.icv
	if end < ivEnd+i.block || (end-ivEnd)%i.block != 0 {
		return nil, 0, Malformed
	}
	seq, ok := i.sequence(binary.BigEndian.Uint32(packet[4:]))
	if !ok || !i.window.fresh(seq) {
		return nil, 0, Replayed
	}
	if !i.transform.open(packet, ivEnd, end, seq) {
		return nil, 0, Integrity
	}
	i.window.commit(seq)
	return strip(packet[ivEnd:end])
}

// sequence is the whole sequence number.
func (i *Inbound) sequence(low uint32) (uint64, bool) {
	if !i.esn {
		return uint64(low), true
	}
	return infer(i.window.top, i.window.size, low)
}

// strip takes padding and trailer off decrypted data that holds at least one block.
func strip(b []byte) ([]byte, uint8, Reason) {
	pad, next := int(b[len(b)-2]), b[len(b)-1]
	n := len(b) - trailerLen - pad
	if n < 0 {
		return nil, 0, Padding
	}
	for k, v := range b[n : n+pad] {
		if v != byte(k+1) { // RFC 4303 section 2.4: SHOULD be inspected
			return nil, 0, Padding
		}
	}
	if next == NextDummy {
		return nil, 0, Dummy
	}
	return b[:n], next, Accepted
}

// Sequence is the highest number of an authenticated packet; 0 before the first.
func (i *Inbound) Sequence() uint64 { return i.window.top }

// Wipe takes the SA out of use. The cipher's own copies of the keys are left to the garbage collector.
func (i *Inbound) Wipe() { i.transform = nil }

// Datagram trims the data of a tunnel mode packet to the IP packet in it: what follows is traffic flow confidentiality padding
// (RFC 4303 section 2.7). A version that is not the next header's, a length beyond the data or a header that is not whole is NotInner.
func Datagram(data []byte, nextHeader uint8) ([]byte, Reason) {
	switch {
	case nextHeader == NextIPv4 && len(data) >= 20 && data[0]>>4 == 4:
		header, total := int(data[0]&15)*4, int(binary.BigEndian.Uint16(data[2:]))
		if header >= 20 && header <= total && total <= len(data) {
			return data[:total], Accepted
		}
	case nextHeader == NextIPv6 && len(data) >= 40 && data[0]>>4 == 6:
		if total := 40 + int(binary.BigEndian.Uint16(data[4:])); total <= len(data) {
			return data[:total], Accepted
		}
	}
	return nil, NotInner
}
