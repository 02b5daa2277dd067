package daemon

import (
	"testing"

	"cygnet/ike"
	"cygnet/ike/wire"
)

// TestFloodLeavesRoom: however many first messages come, those of IKE SAs that exist, and answers to ours, find room.
func TestFloodLeavesRoom(t *testing.T) {
	l := newLoop(nil, nil)
	const tooMany = 100
	for i := range firstQueue + tooMany {
		l.receive(wire.Header{SPIi: wire.SPI(i + 1), Exchange: wire.IKESAInit, Flags: wire.FlagInitiator}, ike.Packet{})
	}
	for _, h := range []wire.Header{
		{SPIi: 1, SPIr: 2, Exchange: wire.Informational, Flags: wire.FlagInitiator},
		{SPIi: 1, SPIr: 2, Exchange: wire.CreateChildSA, Flags: wire.FlagResponse},
		{SPIi: 1, SPIr: 2, Exchange: wire.IKESAInit, Flags: wire.FlagResponse},
	} {
		l.receive(h, ike.Packet{})
	}
	if n := l.dropped.Load(); n != tooMany || len(l.packets) != 3 {
		t.Errorf("%d packets dropped, want %d; %d wait beside the first messages, want 3", n, tooMany, len(l.packets))
	}
}
