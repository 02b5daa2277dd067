package shard

import (
	"testing"

	"cygnet/ike/wire"
)

// TestTrap_7296_98_InvalidSPI: the one-way notify about ESP that has no SA here, with zeros for SPIs or others, is never answered.
func TestTrap_7296_98_InvalidSPI(t *testing.T) {
	invalid := wire.NewNotify(wire.NotifyInvalidSPI, []byte{1, 2, 3, 4})
	st := newStage(t, Config{})
	st.packet("198.51.100.7:500", initRequest(t, 5, 1))
	own := st.puppets[0].c.SPI
	for _, h := range []wire.Header{
		{Exchange: wire.Informational, Flags: wire.FlagInitiator},
		{SPIi: 7, Exchange: wire.Informational, Flags: wire.FlagInitiator},
		{SPIi: 7, SPIr: 8, Exchange: wire.Informational, Flags: wire.FlagInitiator},
		{SPIi: 7, SPIr: own, Exchange: wire.Informational, Flags: wire.FlagInitiator | wire.FlagResponse},
		{SPIi: 7, SPIr: 8, Exchange: wire.Informational, Flags: wire.FlagResponse},
	} {
		if acts := st.packet("198.51.100.9:500", encode(t, h, invalid)); len(acts) != 0 {
			t.Errorf("%+v is answered: %+v", h, acts)
		}
	}
}

// TestCVE_2013_4564_Short: 0 to 64 octets of anything make neither an answer nor a machine.
func TestCVE_2013_4564_Short(t *testing.T) {
	st := newStage(t, Config{})
	request := initRequest(t, 5, 1)
	for n := range 65 {
		for _, fill := range []byte{0, 0x20, 0xff} {
			b := make([]byte, n)
			for i := range b {
				b[i] = fill
			}
			if acts := st.packet("198.51.100.7:500", b); len(acts) != 0 {
				t.Errorf("%d octets 0x%02x: %+v", n, fill, acts)
			}
		}
		if n < len(request) {
			if acts := st.packet("198.51.100.7:500", request[:n]); len(acts) != 0 {
				t.Errorf("%d octets of a request: %+v", n, acts)
			}
		}
	}
	if st.Len() != 0 {
		t.Errorf("%d machines", st.Len())
	}
}
