package directory

import (
	"testing"
	"time"

	"cygnet/ike"
	"cygnet/policy"
)

// After a rekey the IKE SA has another SPI, and all else is as before.
func TestAdopted(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.do(Opened{"b", 1})
	s.claimed(1, true, false)
	s.up(1, "lan")
	s.up(1, "dmz")
	s.do(Adopted{SPI: 1, Heir: 2})
	s.do(Finished{1, ike.Finish{Connection: "b", Code: ike.CodeClosed, Text: "replaced by a rekey"}})
	if got := s.Status()[0].Serving; len(got) != 1 || got[0] != 2 {
		t.Errorf("serving %v", got)
	}
	s.do(Adopted{SPI: 2, Heir: 3})
	s.do(ChildDown{3, "b", "dmz"})
	if _, ok := s.Deadline(); !ok {
		t.Error("a missing child is not asked for")
	}
	s.do(Adopted{SPI: 99, Heir: 4}) // a stranger
	s.do(Down{"b", ""}, "b closed: true", "3: lower")
}

// reauth is a story with IKE SA 1 up, started by us or by the peer.
func reauth(t *testing.T, initiated bool) *story {
	s := newStory(t, site("b", policy.StartManual))
	if initiated {
		s.do(Up{Connection: "b"}, "start b")
		s.do(Opened{"b", 1})
	}
	s.claimed(1, initiated, false)
	s.up(1, "lan")
	s.up(1, "dmz")
	s.now = s.now.Add(time.Hour)
	return s
}

// Make before break: the old IKE SA goes when the new one has carried all its children for a moment, whoever started the old one.
func TestTrap_7296_58_Reauthenticate(t *testing.T) {
	for _, initiated := range []bool{true, false} {
		s := reauth(t, initiated)
		s.do(Reauthenticate{1}, "start b lan,dmz not alone")
		s.do(Reauthenticate{1}) // once is enough
		s.do(Opened{"b", 2})
		s.do(Reauthenticate{1})
		s.claimed(2, true, false)
		s.up(2, "lan")
		s.now = s.now.Add(time.Second)
		s.up(2, "dmz")
		s.wait(renewGrace, "1: lower, carried by another")
		s.do(Finished{1, ike.Finish{Connection: "b", Code: ike.CodeClosed}})
		if got := s.Status()[0].Serving; len(got) != 1 || got[0] != 2 {
			t.Errorf("serving %v", got)
		}
		s.now = s.now.Add(time.Minute)
		s.do(Wake{}) // no duplicate is left to end
	}
}

// A child of the old IKE SA that the new one does not get keeps the old one.
func TestReauthenticateHalf(t *testing.T) {
	s := reauth(t, true)
	s.do(Reauthenticate{1}, "start b lan,dmz not alone")
	s.do(Opened{"b", 2})
	s.claimed(2, true, false)
	s.up(2, "lan")
	s.now = s.now.Add(5 * time.Second)
	s.do(Wake{})
	s.do(ChildDown{1, "b", "dmz"}, "1: lower, carried by another") // it was the last that it had alone
}

// A child that comes up on the old IKE SA when the new one is on its way already is asked for there: or both would stay, until the old one expires.
func TestReauthenticateGrows(t *testing.T) {
	s := reauth(t, true)
	s.do(ChildDown{1, "b", "dmz"})
	s.do(Reauthenticate{1}, "start b lan not alone")
	s.up(1, "dmz") // by the peer
	s.do(Opened{"b", 2})
	s.claimed(2, true, false)
	s.up(2, "lan")
	s.wait(raiseGrace, "2: raise dmz")
	s.up(2, "dmz")
	s.wait(renewGrace, "1: lower, carried by another")
}

// The old IKE SA ends by itself before the new one has replaced it, and the peer has made one of its own: from then on they are duplicates, and the end of ours is not forgotten.
func TestReauthenticateBoth(t *testing.T) {
	b := site("b", policy.StartManual)
	b.Local.ID, b.Remote.ID = b.Remote.ID, b.Local.ID // what the peer starts stays
	claim := ike.Claim{Connection: "b", Peer: b.Remote.ID}
	s := newStory(t, b)
	s.do(Claimed{1, claim})
	s.up(1, "lan")
	s.now = s.now.Add(time.Hour)
	s.do(Reauthenticate{1}, "start b lan not alone")
	s.do(Claimed{3, claim})
	s.up(3, "lan")
	s.do(Opened{"b", 2})
	claim.Initiated = true
	s.do(Claimed{2, claim})
	s.up(2, "lan")
	s.do(Finished{1, ike.Finish{Connection: "b", Code: ike.CodeClosed}})
	s.wait(duplicateGrace, "2: lower, carried by another")
}

// A child that was taken down here by name and that the peer has brought up again is renewed with the others.
func TestReauthenticateWhatThePeerWants(t *testing.T) {
	s := reauth(t, true)
	s.do(Down{"b", "dmz"}, "1: lower dmz")
	s.do(ChildDown{1, "b", "dmz"})
	s.do(Reauthenticate{1}, "start b lan not alone")
	s.do(Finished{0, ike.Finish{Connection: "b", Code: ike.CodeInternal, Retry: true}})
	s.up(1, "dmz")
	s.do(Reauthenticate{1}, "start b lan,dmz not alone")
	s.do(Down{"b", "dmz"}, "1: lower dmz") // before there is a machine to be told
	s.do(Opened{"b", 2}, "2: lower dmz")
	s.claimed(2, true, false)
	s.up(2, "lan")
	s.wait(renewGrace, "1: lower, carried by another")
}

// An attempt that fails leaves the old IKE SA alone and can be repeated; only what is up is brought up; what is taken down is not.
func TestReauthenticateFails(t *testing.T) {
	s := reauth(t, true)
	s.do(ChildDown{1, "b", "dmz"})
	s.do(Reauthenticate{1}, "start b lan not alone")
	s.do(Opened{"b", 2})
	s.do(Finished{2, ike.Finish{Connection: "b", Code: ike.CodeNoAnswer, Retry: true}})
	s.do(Reauthenticate{1}, "start b lan not alone")
	s.do(Finished{0, ike.Finish{Connection: "b", Code: ike.CodeInternal, Retry: true}})
	if got := s.Status()[0].Serving; len(got) != 1 || got[0] != 1 {
		t.Errorf("serving %v", got)
	}
	s.do(Reauthenticate{7}) // a stranger
}

// The old IKE SA ends by itself, or is rekeyed, while the new one comes up.
func TestReauthenticateOldGoes(t *testing.T) {
	s := reauth(t, true)
	s.do(Reauthenticate{1}, "start b lan,dmz not alone")
	s.do(Adopted{SPI: 1, Heir: 3})
	s.do(Opened{"b", 2})
	s.do(Finished{3, ike.Finish{Connection: "b", Code: ike.CodeClosed, Retry: true}})
	s.claimed(2, true, false)
	s.up(2, "lan")
	s.up(2, "dmz")
	s.now = s.now.Add(time.Minute)
	s.do(Wake{})
}
