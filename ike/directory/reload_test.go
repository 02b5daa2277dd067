package directory

import (
	"crypto/x509"
	"slices"
	"testing"

	"cygnet/ike/auth"
	"cygnet/policy"
)

// TestProofsChanged: other certificates behind the same names take nothing down: the IKE SAs learn of them, and the operator reads from when on they count.
func TestProofsChanged(t *testing.T) {
	trusting := func(raw string) *policy.Connection {
		c := site("b", policy.StartManual)
		c.Remote.Proof.Trust = &auth.Trust{Roots: []*x509.Certificate{{Raw: []byte(raw)}}}
		return c
	}
	load := func(s *story, c *policy.Connection, want ...string) []Change {
		s.t.Helper()
		s.do(Load{&policy.Snapshot{Connections: []*policy.Connection{c}}}, want...)
		return s.Changes()
	}
	s := newStory(t, trusting("old"))
	if got := load(s, trusting("new")); !slices.Equal(got, []Change{{"b", "certificates or keys changed"}}) {
		t.Errorf("nothing is up: %+v", got)
	}
	s.claimed(1, false, false)
	s.do(ChildUp{SPI: 1, Child: "lan"})
	if got := load(s, trusting("new")); len(got) != 0 {
		t.Errorf("the same: %+v", got)
	}
	newest := trusting("newest")
	if got := load(s, newest, "1: 2 children"); !slices.Equal(got, []Change{{"b", "certificates or keys changed: in use from the next authentication on"}}) {
		t.Errorf("up: %+v", got)
	}
	if s.find("b").Connection != newest {
		t.Error("the next authentication uses the old ones")
	}
}
