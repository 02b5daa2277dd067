package ike

import "time"

// A peer that lost its state says INITIAL_CONTACT (RFC 7296 section 2.4), and may choose an ESP SPI that it had before: the SA of that name still stands
// here, of the IKE SA that the peer has forgotten. That one goes as soon as the Claim of the new one is heard, which is after its first child was to be
// installed. So the installation is tried again a little later. When another peer's IKE SA holds the SPI, that is in vain and the child is refused.

const (
	contactDelay = 100 * time.Millisecond
	contactTries = 5
)

// contact is an installation that waits for an older IKE SA of the same peer to go.
type contact struct {
	at    Time
	again func()
	wipe  func() // the keys, when the machine ends first
}

// awaitRoom does again a little later.
func (sa *SA) awaitRoom(again, wipe func()) {
	sa.contact = &contact{sa.now.Add(contactDelay), again, wipe}
}

func (sa *SA) contactDue() (Time, bool) {
	if sa.contact == nil {
		return 0, false
	}
	return sa.contact.at, true
}

func (sa *SA) wakeContact() {
	if sa.due(sa.contactDue()) {
		c := sa.contact
		sa.contact = nil
		c.again()
	}
}
