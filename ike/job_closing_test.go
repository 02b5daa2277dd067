package ike

import (
	"testing"
	"time"
)

// A computation for a rekey of the IKE SA is given up when the IKE SA is already going, as its lifetime has ended and it has waited for the rekey: it does not begin to go once more.
func TestLostJobWhileClosing(t *testing.T) {
	n := newPair(t, lives("rekey_time = \"10m\"\nover_time = \"53s\"\nrand_time = \"0s\"", `rekey_time = "0"`))
	n.up()
	until := n.now.Add(10*time.Minute + 30*time.Second)
	n.hook = func(d datagram) []datagram { // later the peer does not answer
		if n.now.Before(until) {
			return []datagram{d}
		}
		return nil
	}
	n.a.jobs, n.a.loses = 0, 2 // the first makes a key pair, the second computes with the peer's key
	n.run(11*time.Minute+10*time.Second, nil)
	if n.a.jobs < 2 || n.a.finish == nil || n.a.finish.Code != CodeExpired {
		t.Errorf("%d jobs, finish %+v", n.a.jobs, n.a.finish)
	}
}
