package directory

import (
	"net/netip"
	"testing"

	"cygnet/ike"
	"cygnet/policy"
)

// TestMovedTellsSiblings: the other IKE SAs with the same proved peer hear of its mapping; those of another peer, and one that is not proved, do not.
func TestMovedTellsSiblings(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	s.claimed(1, false, false)
	s.claimed(2, false, false)
	s.do(Claimed{3, ike.Claim{Connection: "b", Peer: id("gw-c.example")}})
	at := func(text string) ike.Path { return ike.Path{Remote: netip.MustParseAddrPort(text)} }
	m := ike.Moved{From: at("203.0.113.1:7000"), To: at("203.0.113.1:7001")}
	var out []Action
	s.Step(s.now, Moved{1, m}, &out)
	if len(out) != 1 || out[0] != (Tell{2, ike.Follow(m)}) {
		t.Errorf("actions %+v", out)
	}
	s.do(Moved{9, m}) // long gone
}
