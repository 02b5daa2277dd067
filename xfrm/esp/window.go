package esp

import (
	"math"
	"math/bits"
)

// Bounds of the anti-replay window in packets. RFC 4303 section 3.4.3: at least 32, 64 by default.
const (
	MinWindow = 64
	MaxWindow = 4096
)

const wordBits = 64

// window remembers which of the latest sequence numbers were received. The bits are a ring of words that is larger than the window by at
// least a word, so that moving right clears whole words and shifts nothing (RFC 6479).
type window struct {
	top  uint64 // highest number of an authenticated packet
	size uint64 // in packets
	ring []uint64
}

func newWindow(size uint32) window {
	size = min(max(size, MinWindow), MaxWindow)
	words := (size+wordBits-1)/wordBits + 1
	return window{size: uint64(size), ring: make([]uint64, 1<<bits.Len32(words-1))}
}

func (w *window) slot(seq uint64) (word *uint64, bit uint64) {
	return &w.ring[seq/wordBits&uint64(len(w.ring)-1)], 1 << (seq % wordBits)
}

// fresh reports whether a packet may be accepted: right of the window, or inside and not seen. Number 0 is never sent.
func (w *window) fresh(seq uint64) bool {
	switch {
	case seq == 0:
		return false
	case seq > w.top:
		return true
	case w.top-seq >= w.size:
		return false
	}
	word, bit := w.slot(seq)
	return *word&bit == 0
}

// commit records the number of an authenticated packet, which was fresh.
func (w *window) commit(seq uint64) {
	if seq > w.top {
		from, to := w.top/wordBits, seq/wordBits
		for n := min(to-from, uint64(len(w.ring))); n > 0; n-- {
			w.ring[(from+n)&uint64(len(w.ring)-1)] = 0
		}
		w.top = seq
	}
	word, bit := w.slot(seq)
	*word |= bit
}

// infer finds the high half of an extended sequence number (RFC 4303 appendix A2.2): of the numbers that end in low, the one that lies in
// the window or, failing that, is next on its right. It is false when that number would lie before 0 or beyond 2^64.
func infer(top, size uint64, low uint32) (uint64, bool) {
	high, topLow := uint32(top>>32), uint32(top)
	bottom := topLow - uint32(size) + 1 // modulo 2^32
	switch {
	case uint64(topLow) >= size-1: // case A: the window lies in one subspace
		if low < bottom {
			if high == math.MaxUint32 {
				return 0, false
			}
			high++
		}
	case low >= bottom: // case B: it reaches into the one before
		if high == 0 {
			return 0, false
		}
		high--
	}
	return uint64(high)<<32 | uint64(low), true
}
