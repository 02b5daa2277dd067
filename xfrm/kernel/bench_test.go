package kernel

import (
	"testing"

	"cygnet/xfrm"
)

// BenchmarkChild adds and removes what a Child SA takes: two SAs and two policies.
func BenchmarkChild(b *testing.B) {
	needESP(b)
	n := benchNamespace(b)
	c := child{}.defaults()
	add := []xfrm.Op{
		xfrm.AddSA{SA: c.sa(false, xfrm.In)}, xfrm.AddSA{SA: c.sa(true, xfrm.Out)},
		xfrm.PutPolicy{Policy: c.policy(false, xfrm.In)}, xfrm.PutPolicy{Policy: c.policy(true, xfrm.Out)},
	}
	remove := []xfrm.Op{
		xfrm.RemovePolicy{Slot: c.policy(false, xfrm.In).Slot}, xfrm.RemovePolicy{Slot: c.policy(true, xfrm.Out).Slot},
		xfrm.RemoveSA{ID: c.sa(false, xfrm.In).ID}, xfrm.RemoveSA{ID: c.sa(true, xfrm.Out).ID},
	}
	b.ReportAllocs()
	for b.Loop() {
		apply(b, n, add...)
		apply(b, n, remove...)
	}
}

// BenchmarkUsageAll lists 2000 SAs.
func BenchmarkUsageAll(b *testing.B) {
	needESP(b)
	d := benchNamespace(b)
	for i := range uint32(2000) {
		c := child{spiAB: 0xc0000000 + i, spiBA: 1}.defaults()
		apply(b, d, xfrm.AddSA{SA: c.sa(true, xfrm.In)})
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		err := d.UsageAll(b.Context(), func(xfrm.SAID, xfrm.Usage) bool { n++; return true })
		if err != nil || n != 2000 {
			b.Fatalf("%d SAs, %v", n, err)
		}
	}
}

// BenchmarkPolicy needs no ESP.
func BenchmarkPolicy(b *testing.B) {
	d := benchNamespace(b)
	c := child{}.defaults()
	put, remove := xfrm.PutPolicy{Policy: c.policy(false, xfrm.In)}, xfrm.RemovePolicy{Slot: c.policy(false, xfrm.In).Slot}
	b.ReportAllocs()
	for b.Loop() {
		apply(b, d, put, remove)
	}
}

func benchNamespace(b *testing.B) *Driver {
	b.Helper()
	n := newNamespace(b, "bench")
	return n.driver(b, Config{Warn: ignoreWarnings})
}
