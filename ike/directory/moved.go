package directory

import (
	"cygnet/ike"
	"cygnet/ike/wire"
)

// Moved: an authentic packet of an IKE SA's peer came over another path.
type Moved struct {
	SPI wire.SPI
	ike.Moved
}

func (Moved) dirEvent() {}

// moved tells the other IKE SAs with the same peer: behind a NAT they have one mapping.
func (t turn) moved(ev Moved) {
	a := t.sas[ev.SPI]
	if a == nil || !a.claimed {
		return
	}
	for _, b := range a.conn.sas {
		if b != a && b.claimed && b.peer.Equal(a.peer) {
			t.tell(b, ike.Follow(ev.Moved))
		}
	}
}
