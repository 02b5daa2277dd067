package ike

import (
	"testing"
	"time"
)

// TestLostJob: a job is never answered, whichever it is. What it was for fails within its limit; nothing waits for ever, and the two sides agree.
func TestLostJob(t *testing.T) {
	for _, side := range []string{"a", "b"} {
		for k := 1; ; k++ {
			n := newPair(t, two(`pfs = "x25519"`))
			h := n.a
			if side == "b" {
				h = n.b
			}
			n.a.step(Initiate{})
			n.both(2)
			n.a.internal, n.b.internal = true, true
			h.jobs, h.loses = 0, k
			n.a.step(Rekey{Child: "lan"})
			n.run(2*time.Second, nil)
			n.b.step(Rekey{IKE: true})
			n.run(2*time.Second, nil)
			n.a.step(RaiseChild{Child: "dmz"})
			n.run(6*time.Minute, nil)
			for _, x := range []*host{n.a, n.b} {
				if x.finish == nil && (x.sa.requests.current != nil || x.sa.responses.busy || len(x.sa.computing) > 0) {
					t.Errorf("%s: job %d of %s was lost, and something waits for it", x.name, k, side)
				}
			}
			if n.a.finish == nil && n.b.finish == nil {
				n.paired()
			}
			if h.jobs < k { // there are no more
				break
			}
			if t.Failed() {
				n.dump()
				t.Fatalf("job %d of %s", k, side)
			}
		}
	}
}
