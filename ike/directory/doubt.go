package directory

import "cygnet/ike"

// doubt has the peer asked whether it still has an IKE SA that it started, when it has started another since which carries the same children and has not ended the first: a peer that
// restarts and does not say INITIAL_CONTACT, as Libreswan by default, leaves it to us to find that out (RFC 7296 section 2.4). One that wants both answers, and keeps both. Those that
// we started are settled by the rule for duplicates.
func (t turn) doubt(c *connection) {
	for _, old := range c.serving() {
		if old.initiated || old.doubted || len(old.children) == 0 {
			continue
		}
		for _, a := range c.serving() {
			if a.initiated || a.seq <= old.seq || !a.peer.Equal(old.peer) || !a.covers(old) {
				continue
			}
			if at := max(a.grown, old.grown).Add(duplicateGrace); t.now.Before(at) { // the peer may be about to end it
				c.dropBy(at)
				continue
			}
			old.doubted = true
			t.tell(old, ike.Probe{Carried: true})
			break
		}
	}
}
