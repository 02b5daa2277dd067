package ike

import (
	"strings"
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

// TestLostJobWords: who waits for a key that is never computed reads why there is none.
func TestLostJobWords(t *testing.T) {
	n := newPair(t, two(`pfs = "x25519"`))
	n.a.internal, n.a.loses = true, 1
	n.a.step(Initiate{})
	n.run(5*time.Minute, func() bool { return n.a.finish != nil })
	n.a.wants(CodeInternal, "cannot make a key for ECP-256: "+notComputed)
}

// TestLateJob: a key pair that comes when its exchange is over is forgotten at once: nobody would use it.
func TestLateJob(t *testing.T) {
	n := newPair(t, two(`pfs = "x25519"`))
	n.a.step(Initiate{})
	n.both(2)
	n.a.step(Rekey{Child: "lan"})
	if n.a.sa.requests.current == nil || len(n.a.sa.computing) != 1 {
		t.Fatal("no key is being computed")
	}
	n.a.do(func(sa *SA) { sa.done(sa.requests.current) })
	n.run(time.Second, nil)
	if len(n.kept.halves) == 0 || len(n.a.sa.computing) != 0 {
		t.Fatal("the key never came")
	}
	if left := n.kept.left(); strings.Contains(strings.Join(left, ","), "private value") {
		t.Errorf("left are %v", left)
	}
}
