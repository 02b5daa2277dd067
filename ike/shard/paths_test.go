package shard

import (
	"net/netip"
	"slices"
	"testing"

	"cygnet/ike"
)

// TestPaths: all machines hear of it, and those that come later know the addresses.
func TestPaths(t *testing.T) {
	st := newStage(t, Config{Count: 1})
	st.step(Open{Connection: "site-b"})
	st.step(Open{Connection: "site-b"})
	own := []netip.Addr{netip.MustParseAddr("192.0.2.1")}
	st.step(Paths{Own: own})
	for i, p := range st.puppets {
		if ev, ok := p.events[len(p.events)-1].(ike.PathChanged); !ok || !slices.Equal(ev.Own, own) {
			t.Errorf("machine %d hears %+v", i, p.events)
		}
	}
	st.step(Open{Connection: "site-b"})
	if got := st.puppets[2].c.Addresses; !slices.Equal(got, own) {
		t.Errorf("the next machine knows %v", got)
	}
}
