package directory

import (
	"fmt"
	"testing"
	"time"

	"cygnet/ike"
	"cygnet/ike/wire"
	"cygnet/policy"
)

// An IKE SA whose child failed stays for a minute, so that the peer can ask for another; each request of ours begins the minute anew.
func TestIdleEnds(t *testing.T) {
	s := newStory(t, site("b", policy.StartTraffic))
	s.claimed(1, false, false)
	s.now = s.now.Add(idleLimit - time.Second)
	s.do(Acquire{Connection: "b", Child: "lan"}, "1: raise lan")
	s.wait(time.Second) // looks again
	s.wait(idleLimit-time.Second, "1: lower")
	s.finished(1, false)
	s.status("trap")
	if at, ok := s.Deadline(); ok {
		t.Errorf("something is planned for %v", at.Sub(s.now))
	}
	// With a child it stays; a minute after the last one went it ends.
	s.claimed(2, false, false)
	s.up(2, "lan")
	s.now = s.now.Add(time.Hour)
	s.do(Wake{})
	s.do(ChildDown{2, "b", "lan"})
	s.wait(idleLimit, "2: lower")
}

// What is wanted up is asked for on the IKE SA that serves, as long as that takes; others without a child end.
func TestIdleIsNotWhatIsWanted(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.do(Opened{"b", 1})
	s.claimed(1, true, false)
	s.claimed(2, false, false)
	end := s.now.Add(10 * time.Minute)
	lowered := 0
	for s.now < end {
		at, ok := s.Deadline()
		if !ok {
			t.Fatal("nothing is planned")
		}
		s.now = at
		var out []Action
		s.Step(s.now, Wake{}, &out)
		for _, a := range out {
			if tell, ok := a.(Tell); ok {
				if _, ok := tell.Event.(ike.Lower); ok {
					lowered++
					if tell.SPI != 2 {
						t.Errorf("lowered: %s", say(a))
					}
				}
			}
		}
	}
	if lowered != 1 {
		t.Errorf("%d were lowered", lowered)
	}
	s.status("up", 1)
}

// A peer that opens IKE SAs without end keeps some: the oldest without a child goes for the new one, and where all have children the new one does.
func TestCrowd(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	for spi := wire.SPI(1); spi <= crowdLimit; spi++ {
		s.claimed(spi, false, false)
	}
	s.up(1, "lan")
	s.claimed(9, false, false, "2: lower")
	s.claimed(10, false, false, "3: lower")
	// Another peer of the connection is not concerned.
	s.do(Claimed{90, ike.Claim{Connection: "b", Peer: id("gw-c.example")}})
	for spi := wire.SPI(4); spi <= 10; spi++ {
		s.up(spi, "lan")
	}
	s.claimed(11, false, false, "11: lower")
	s.status("down", 1, 4, 5, 6, 7, 8, 9, 10, 90)
	// One that says that the others are gone has all the room.
	var silently []string
	for _, spi := range []int{1, 4, 5, 6, 7, 8, 9, 10} {
		silently = append(silently, fmt.Sprintf("%d: lower silently", spi))
	}
	s.claimed(12, false, true, silently...)
	s.status("down", 90, 12)
}

// Our own new IKE SA, which is to replace one authenticated long ago, is not refused for what the peer has opened.
func TestCrowdLeavesRenewal(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	for spi := wire.SPI(1); spi <= crowdLimit; spi++ {
		s.claimed(spi, false, false)
		s.up(spi, "lan")
	}
	s.do(Reauthenticate{3}, "start b lan not alone")
	s.do(Opened{"b", 20})
	s.claimed(20, true, false)
	s.up(20, "lan")
	s.status("down", 1, 2, 3, 4, 5, 6, 7, 8, 20)
}

// The IKE SA that is to take over the children of its duplicate is asked for them again and again, and is not idle while that lasts.
func TestIdleIsNotTheSurvivor(t *testing.T) {
	b := site("b", policy.StartBoot)
	b.Local.ID, b.Remote.ID = b.Remote.ID, b.Local.ID // what the peer starts stays
	claim := ike.Claim{Connection: "b", Peer: b.Remote.ID, Initiated: true}
	s := newStory(t, b)
	s.do(Opened{"b", 1})
	s.do(Claimed{1, claim})
	s.up(1, "lan")
	s.up(1, "dmz")
	claim.Initiated = false
	s.do(Claimed{2, claim})
	for range 2 * idleLimit / raiseAgain {
		s.wait(raiseAgain, "2: raise lan", "2: raise dmz")
	}
	s.status("up", 1, 2)
}
