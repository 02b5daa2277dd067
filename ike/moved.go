package ike

// A NAT mapping that moves shows in the next authentic packet from there. Several IKE SAs with one peer, as in a reauthentication, share the mapping, and
// only one of them hears that packet: it tells, and the directory tells the others.

// Moved states that the peer's authentic packets come from elsewhere now. Not answered.
type Moved struct{ From, To Path }

// Follow says that an authentic packet of the same peer, on another IKE SA, came over another path than before.
type Follow struct{ From, To Path }

func (Moved) action() {}
func (Follow) event() {}

// onFollow moves this IKE SA too, where it stands on the same path and would follow such a packet itself (RFC 7296 section 2.23).
func (sa *SA) onFollow(e Follow) {
	if sa.path == e.From && sa.nat.remote && !sa.nat.local && sa.phase.name() != phaseOpening {
		sa.remap(e.To)
	}
}
