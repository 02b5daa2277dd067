package shard

import (
	"cygnet/ike"
	"cygnet/ike/wire"
)

// adopt takes in the machine of an IKE SA that replaces m's (RFC 7296 section 2.8). It is home here, as its SPI was drawn here, so that any reader
// routes its packets without being told.
func (s *Shard) adopt(m *machine, a ike.Adopt) *machine {
	heir := s.machines[a.SPI]
	if heir == nil {
		heir = &machine{spi: a.SPI, connection: m.connection, peer: a.Successor}
		s.machines[a.SPI] = heir
	}
	if a.Inherits {
		s.heirs[m.spi], heir.before = a.SPI, m.spi
		delete(s.heirs, m.before) // by now the directory and the data plane use the name after it
	}
	return heir
}

// addressee finds the machine of an event. What a machine asked for or sent comes back to itself; all else concerns the connection or its children and goes to
// the machine that has inherited them, also after its predecessor has gone.
func (s *Shard) addressee(spi wire.SPI, ev ike.Event) *machine {
	switch ev.(type) {
	case ike.JobDone, ike.ResolveDone, ike.SADBDone, ike.UsageDone, ike.SendFailed:
		return s.machines[spi]
	}
	if heir, ok := s.heirs[spi]; ok {
		return s.machines[heir]
	}
	return s.machines[spi]
}

// drawForRekey is a machine's way to an SPI for its successor.
func (s *Shard) drawForRekey() wire.SPI {
	spi, err := s.drawSPI()
	if err != nil {
		return 0
	}
	return spi
}
