package ike

import (
	"testing"
	"time"

	"cygnet/xfrm"
)

// TestInitialContactTakesItsSPI: a peer that began anew uses the ESP SPI of an IKE SA that it has forgotten. That one goes a moment after the new one is
// claimed, and the child comes up; where it does not go, the child is refused as for any SPI that is taken.
func TestInitialContactTakesItsSPI(t *testing.T) {
	for _, c := range []struct {
		name          string
		contact, goes bool
		children      int
		tries         int
	}{
		{"goes", true, true, 1, 3},
		{"stays", true, false, 0, contactTries},
		{"no INITIAL_CONTACT", false, true, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newPair(t, setup{})
			n.a.config.InitialContact = c.contact
			n.a.sa = NewInitiator(n.a.config, n.a.config.Snapshot.Connections[0])
			tries, first := 0, Time(0)
			n.b.plane.fail = func(op xfrm.Op) error {
				if add, ok := op.(xfrm.AddSA); ok && add.SA.Direction == xfrm.Out {
					if tries++; tries == 1 {
						first = n.now
					}
					if !c.goes || n.now.Sub(first) < contactDelay+contactDelay/2 {
						return &xfrm.HeldError{Owner: "ike:1"}
					}
				}
				return nil
			}
			n.a.step(Initiate{})
			n.run(10*time.Second, nil)
			n.both(c.children)
			if tries != c.tries {
				t.Errorf("%d tries, want %d", tries, c.tries)
			}
			if c.children == 0 {
				n.b.wants(CodeDataplane, "SA exists already")
				n.a.wants(CodePeerError, "TEMPORARY_FAILURE")
				n.empty()
			}
		})
	}
}

// TestInitialContactWaits: what waits for room ends with the machine, and its keys with it.
func TestInitialContactWaits(t *testing.T) {
	n := newPair(t, setup{})
	n.a.config.InitialContact = true
	n.a.sa = NewInitiator(n.a.config, n.a.config.Snapshot.Connections[0])
	n.b.plane.fail = func(op xfrm.Op) error {
		if add, ok := op.(xfrm.AddSA); ok && add.SA.Direction == xfrm.Out {
			return &xfrm.HeldError{Owner: "ike:1"}
		}
		return nil
	}
	n.a.step(Initiate{})
	n.run(10*time.Second, func() bool { return n.b.sa != nil && n.b.sa.contact != nil })
	n.b.step(Lower{Why: "test", Silent: true})
	if n.b.sa.contact != nil || n.b.finish == nil {
		t.Error("something still waits")
	}
	n.run(time.Minute, nil)
	n.empty()
}
