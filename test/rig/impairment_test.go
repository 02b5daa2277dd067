package rig

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// espPacket is an IPv4 packet with ESP in UDP, of a size.
func espPacket(t *testing.T, spi, seq uint32, size int) (Packet, []byte) {
	t.Helper()
	b := make([]byte, size)
	b[0], b[9] = 4<<4|5, 17
	copy(b[12:], []byte{192, 0, 2, 1, 198, 51, 100, 7})
	binary.BigEndian.PutUint16(b[20:], 4500)
	binary.BigEndian.PutUint16(b[22:], 4500)
	binary.BigEndian.PutUint32(b[28:], spi)
	binary.BigEndian.PutUint32(b[32:], seq)
	p, ok := parse(b)
	if !ok || !p.ESP() || p.Src != netip.MustParseAddr("192.0.2.1") || espSequence(p, b) != seq {
		t.Fatalf("no ESP packet: %v", p)
	}
	return p, b
}

// drive sends n packets of one SA through a lane, one a millisecond, and waits for the last. It returns the sequence numbers in the order in which they left.
func drive(t *testing.T, o Impairment, n int) (l *lane, left []uint32) {
	t.Helper()
	l = newLane(o, 1)
	now := time.Unix(0, 0)
	out := func(b []byte) { left = append(left, binary.BigEndian.Uint32(b[32:])) }
	for i := range n {
		p, b := espPacket(t, 0x1000, uint32(i+1), 100)
		l.arrive(p, b, now)
		l.leave(now, out)
		now = now.Add(time.Millisecond)
	}
	for at, ok := l.next(); ok; at, ok = l.next() {
		l.leave(at, out)
	}
	return l, left
}

// bad is an Impairment with everything in it, in larger shares than a soak's.
var bad = Impairment{Seed: 7, Loss: 0.05, Reorder: 0.05, Duplicate: 0.05, Straggle: 0.01, Depth: 16, Window: 128, Delay: 5 * time.Millisecond, Patience: 200 * time.Millisecond}

// TestImpairmentCounts: what leaves a lane is exactly what its counts say, packet by packet.
func TestImpairmentCounts(t *testing.T) {
	const n = 20000
	l, left := drive(t, bad, n)
	f := *l.esp[100]
	times, late, reordered := map[uint32]int{}, 0, 0
	var top uint32
	for _, seq := range left {
		if times[seq]++; times[seq] > 1 {
			continue
		}
		if seq < top {
			reordered++
		}
		if top >= seq+128 {
			late++
		} else if top > seq+3*16 {
			t.Errorf("%d left behind %d: neither within the depth nor beyond the window", seq, top)
		}
		top = max(top, seq)
	}
	want := Fates{Came: n, Dropped: n - len(times), Passed: len(times) - late, Late: late, Duplicates: len(left) - len(times), Reordered: reordered, Overtaken: reordered - late}
	if f != want {
		t.Errorf("counted %+v, left %+v", f, want)
	}
	for what, share := range map[string][2]float64{"lost": {float64(f.Dropped), 0.05}, "repeated": {float64(f.Duplicates), 0.05}, "late": {float64(f.Late), 0.01}, "reordered": {float64(f.Reordered), 0.06}} {
		if got := share[0] / n; got < 0.7*share[1] || got > 1.3*share[1] {
			t.Errorf("%s: %.3f of all, wanted %.3f", what, got, share[1])
		}
	}
}

// TestImpairmentSeed: a seed decides all, and another seed otherwise.
func TestImpairmentSeed(t *testing.T) {
	_, a := drive(t, bad, 2000)
	_, b := drive(t, bad, 2000)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Error("one seed, two fates")
	}
	other := bad
	other.Seed++
	if _, c := drive(t, other, 2000); fmt.Sprint(a) == fmt.Sprint(c) {
		t.Error("two seeds, one fate")
	}
}

// TestImpairmentNone: without faults all packets leave in order, after the delay.
func TestImpairmentNone(t *testing.T) {
	l := newLane(Impairment{Depth: 1, Window: 128, Delay: 5 * time.Millisecond}, 1)
	now := time.Unix(0, 0)
	var left [][]byte
	out := func(b []byte) { left = append(left, b) }
	p, first := espPacket(t, 1, 1, 100)
	l.arrive(p, first, now)
	p, second := espPacket(t, 1, 2, 100)
	l.arrive(p, second, now.Add(time.Millisecond))
	l.leave(now.Add(4*time.Millisecond), out)
	if at, ok := l.next(); len(left) != 0 || !ok || at != now.Add(5*time.Millisecond) {
		t.Errorf("left before the delay was over: %d; next at %v", len(left), at)
	}
	l.leave(now.Add(6*time.Millisecond), out)
	if len(left) != 2 || !bytes.Equal(left[0], first) || !bytes.Equal(left[1], second) {
		t.Errorf("%d packets left", len(left))
	}
	if _, ok := l.next(); ok {
		t.Error("something is still on its way")
	}
}

// TestImpairmentSilence: an SA that falls silent holds nothing for ever: what was to be overtaken goes on, and a straggler, which can not be late enough any more, is dropped.
func TestImpairmentSilence(t *testing.T) {
	for _, o := range []Impairment{
		{Reorder: 1, Depth: 8, Window: 128, Patience: 200 * time.Millisecond},
		{Straggle: 1, Depth: 8, Window: 128, Patience: 200 * time.Millisecond},
	} {
		l, left := drive(t, o, 1)
		want := Fates{Came: 1, Passed: 1}
		if o.Straggle > 0 {
			want = Fates{Came: 1, Dropped: 1}
		}
		if *l.esp[100] != want || len(left) != want.Passed {
			t.Errorf("%v: %+v, %d left", o, *l.esp[100], len(left))
		}
	}
}
