package esp

import (
	"math"
	"math/rand/v2"
	"testing"
)

// model is the window as RFC 4303 section 3.4.3 describes it, with no economy.
type model struct {
	top, size uint64
	seen      map[uint64]bool
}

func (m *model) accept(seq uint64) bool {
	if seq == 0 || m.seen[seq] || seq+m.size <= m.top {
		return false
	}
	m.seen[seq] = true
	m.top = max(m.top, seq)
	return true
}

func TestWindowAgainstModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []uint32{64, 65, 100, 127, 128, 1000, 1024, 4095, 4096} {
		w, m := newWindow(size), model{size: uint64(size), seen: map[uint64]bool{}}
		next := uint64(1)
		for range 40000 {
			var seq uint64
			switch random.IntN(40) {
			case 0: // a leap, now and then beyond the whole ring
				next += random.Uint64N(3 * uint64(size))
				seq = next
			case 1, 2, 3, 4, 5, 6: // late, or a replay
				back := random.Uint64N(uint64(size) + 70)
				seq = next - min(back, next)
			default:
				next++
				seq = next
			}
			got := w.fresh(seq)
			if got {
				w.commit(seq)
			}
			if want := m.accept(seq); got != want {
				t.Fatalf("size %d, top %d, number %d: %v, want %v", size, w.top, seq, got, want)
			}
			next = max(next, seq)
		}
	}
}

func TestWindowAtTheEnd(t *testing.T) {
	w := newWindow(64)
	for _, seq := range []uint64{math.MaxUint64 - 64, math.MaxUint64 - 1, math.MaxUint64, math.MaxUint64 - 63} {
		if !w.fresh(seq) {
			t.Errorf("%x is refused", seq)
		}
		w.commit(seq)
	}
	for _, seq := range []uint64{0, 1, math.MaxUint64, math.MaxUint64 - 63, math.MaxUint64 - 64, math.MaxUint64 - 65} {
		if w.fresh(seq) {
			t.Errorf("%x is accepted", seq)
		}
	}
}

// RFC 4303 appendix A2.2, cases A and B with their edges.
func TestInfer(t *testing.T) {
	const none = math.MaxUint64
	for _, c := range []struct {
		name string
		top  uint64
		low  uint32
		want uint64
	}{
		{"start", 0, 1, 1},
		{"A: right of the window", 0x5_0000_1000, 0x2000, 0x5_0000_2000},
		{"A: left edge of the window", 0x5_0000_1000, 0x1000 - 63, 0x5_0000_0fc1},
		{"A: one left of the window is the next subspace", 0x5_0000_1000, 0x1000 - 64, 0x6_0000_0fc0},
		{"A: least that is A", 0x5_0000_003f, 0, 0x5_0000_0000},
		{"A: the last subspace has no next", 0xffffffff_00001000, 1, none},
		{"A: across the wrap", 0x5_ffff_ffff, 0, 0x6_0000_0000},
		{"B: right", 0x5_0000_0003, 4, 0x5_0000_0004},
		{"B: in the window, this subspace", 0x5_0000_0003, 0, 0x5_0000_0000},
		{"B: in the window, the one before", 0x5_0000_0003, 0xffff_ffff, 0x4_ffff_ffff},
		{"B: left edge", 0x5_0000_0003, 0xffff_ffc4, 0x4_ffff_ffc4},
		{"B: one left of the edge is right", 0x5_0000_0003, 0xffff_ffc3, 0x5_ffff_ffc3},
		{"B with high half 0: before the first packet", 3, 0xffff_ffff, none},
		{"B with high half 0", 3, 0xffff_ffc3, 0xffff_ffc3},
	} {
		got, ok := infer(c.top, 64, c.low)
		if ok != (c.want != none) || ok && got != c.want {
			t.Errorf("%s: infer(%#x, 64, %#x) = %#x, %v; want %#x", c.name, c.top, c.low, got, ok, c.want)
		}
	}
}

// Whatever lies in the window or less than 2^31 to its right is inferred exactly.
func TestInferIsExact(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200000 {
		size := uint64(64 + random.IntN(4033))
		top := random.Uint64N(1<<40) + size
		seq := top - size + 1 + random.Uint64N(size+1<<31)
		if got, ok := infer(top, size, uint32(seq)); !ok || got != seq {
			t.Fatalf("top %#x size %d: %#x is taken for %#x", top, size, seq, got)
		}
	}
}
