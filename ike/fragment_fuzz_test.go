package ike

import (
	"bytes"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// FuzzFragments feeds a machine in every phase with fragments under good checksums, in any number, order and size: what a peer with keys can do. Each three
// octets of data are a fragment: number, total, and its length in units of 16 octets. What is kept stays bounded, and goes with time.
func FuzzFragments(f *testing.F) {
	for phase := range byte(12) {
		f.Add(phase, byte(wire.Informational), byte(0), []byte{1, 2, 1, 2, 2, 1})
		f.Add(phase, byte(wire.IKEAuth), byte(0), []byte{2, 2, 9, 1, 3, 9, 2, 2, 9, 3, 3, 0, 2, 3, 1})
		f.Add(phase, byte(wire.IKEAuth), byte(1), []byte{1, 1, 0})
		f.Add(phase, byte(wire.CreateChildSA), byte(1), bytes.Repeat([]byte{3, 64, 255, 4, 63, 255, 5, 64, 255}, 20))
	}
	f.Fuzz(func(t *testing.T, phase, exchange, response byte, data []byte) {
		n, target, other := bring(t, phase)
		target.internal, other.internal = true, true
		if target.sa == nil || target.sa.protect == nil || other.sa == nil || other.sa.protect == nil || len(data) > 600 {
			return
		}
		id := uint32(target.sa.responses.next)
		if response&1 == 1 {
			id = target.sa.requests.header.MessageID
		}
		h := other.sa.header(wire.ExchangeType(exchange), response&1 == 1, id)
		for ; len(data) >= 3 && target.finish == nil; data = data[3:] {
			packet, err := other.sa.protect.SealFragment(h, wire.PayloadVendor, uint16(data[0]), uint16(data[1]), make([]byte, 16*int(data[2])), other.config.Rand)
			if err != nil {
				continue
			}
			target.step(Packet{Path{target.sa.path.Local, target.sa.path.Remote}, packet})
			limit := wire.MaxMessage
			if target.sa.up == 0 {
				limit = wire.MaxBeforeAuth
			}
			for _, f := range []*reassembly{&target.sa.requests.parts, &target.sa.responses.parts} {
				if f.octets > limit || len(f.parts) > wire.MaxFragments || f.have > len(f.parts) {
					t.Fatalf("%d octets in %d of %d fragments are kept", f.octets, f.have, len(f.parts))
				}
			}
		}
		n.hook = nil
		n.run(5*time.Minute, nil)
		if target.sa != nil && target.sa.responses.parts.collecting() {
			t.Error("fragments are kept for ever")
		}
		if target.finish != nil && len(target.plane.sas)+len(target.plane.pols) > 0 {
			t.Error("finished and holds SAs")
		}
	})
}
