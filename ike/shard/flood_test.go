package shard

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"cygnet/ike"
	"cygnet/ike/wire"
	"cygnet/policy"
)

// BenchmarkFlood is what a shard spends on one datagram of a flood.
func BenchmarkFlood(b *testing.B) {
	for _, kind := range []struct {
		name string
		data []byte
	}{
		{"request", initRequest(b, 1, 1, &wire.KE{Group: wire.GroupMODP2048, Data: make([]byte, 256)})}, // answered with COOKIE
		{"forged cookie", initRequest(b, 1, 1, &wire.Notify{Kind: wire.NotifyCookie, Data: make([]byte, 17)}, &wire.KE{Group: wire.GroupMODP2048, Data: make([]byte, 256)})},
		{"unknown SPI", encode(b, wire.Header{SPIi: 1, SPIr: 2, Exchange: wire.Informational, Flags: wire.FlagInitiator}, sealed())},
		{"IKEv1", append(make([]byte, 17), append([]byte{0x10}, make([]byte, 40)...)...)},
	} {
		b.Run(kind.name, func(b *testing.B) {
			s := New(Config{Rand: seeded(1), Snapshot: &policy.Snapshot{}}) // threshold 0: every request needs a cookie
			var out []Action
			b.ReportAllocs()
			for i := range b.N {
				binary.BigEndian.PutUint32(kind.data, uint32(i)|1<<31)
				from := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}), 500)
				s.Step(ike.Time(i), Packet{ike.Packet{Path: ike.Path{Local: local, Remote: from}, Data: kind.data}}, &out)
				out = out[:0]
			}
			if s.Len() > 0 {
				b.Fatal("state was kept")
			}
		})
	}
}
