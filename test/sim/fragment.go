package sim

import (
	"fmt"
	"math/rand/v2"
)

// drawFragments chooses how each end cuts IKE messages (RFC 7383), by a line of its configuration. Sizes are small, so that many messages are cut. It is drawn from
// dice of its own, which change nothing else in a run.
func (w *world) drawFragments() {
	rng := rand.New(rand.NewPCG(w.opt.Seed, 7383))
	for _, c := range w.conns {
		if rng.IntN(3) > 0 {
			continue // as ever: 1280 octets, which no message here has
		}
		for _, e := range c.ends {
			e.fragments = fmt.Sprintf("fragment_size = %d\n", 256+rng.IntN(100))
			if rng.IntN(8) == 0 {
				e.fragments = "fragmentation = \"no\"\n"
			}
		}
	}
}
