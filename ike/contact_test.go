package ike

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"cygnet/ike/suite"
	"cygnet/policy"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
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

// TestInitialContactTooLate: the IKE SA closes while a child waits for room. The child is not tried again, and its keys go at that time already.
func TestInitialContactTooLate(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.b.plane.fail = func(op xfrm.Op) error {
		if add, ok := op.(xfrm.AddSA); ok && add.SA.Direction == xfrm.Out {
			return &xfrm.HeldError{Owner: "ike:1"}
		}
		return nil
	}
	key := func() alg.Secret { return alg.NewSecret(bytes.Repeat([]byte{7}, 36)) }
	keys := suite.ChildKeys{EncrI2R: key(), EncrR2I: key()}
	var refused *Refusal
	n.b.do(func(sa *SA) {
		old, mine := sa.children[0], keys
		c := &child{config: old.config, spiOut: old.spiOut + 1, suite: old.suite, local: old.local, remote: old.remote, keys: &mine}
		sa.installAnswer(&childAsk{stage: "IKE_AUTH", contact: true}, c, policy.ESPChoice{}, keyPair{}, 1, func(_ *child, r *Refusal) { refused = r })
	})
	if !n.run(time.Second, func() bool { return n.b.sa.contact != nil }) {
		t.Fatal("nothing waits")
	}
	n.hook = func(datagram) []datagram { return nil }
	n.b.step(Lower{})
	n.run(2*contactDelay, nil)
	if n.b.sa.finished || refused == nil || !strings.Contains(refused.Why, "closing") {
		t.Errorf("finished %v, refused %+v", n.b.sa.finished, refused)
	}
	if !wiped(childSecrets(&keys)...) {
		t.Error("the keys are still here")
	}
}
