package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"cygnet/policy"
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

// drawNarrow makes the links of one in six IPv4 runs drop all IKE datagrams that do not fit into 576 octets of IP, as where a larger one would travel in fragments of IP and those
// are dropped. Names so long, and so many networks, that IKE_AUTH does not fit either way have it cut smaller on repetition (RFC 7383 section 2.5.2). These dice, too, change nothing else in a run.
func (w *world) drawNarrow() {
	rng := rand.New(rand.NewPCG(w.opt.Seed, 576))
	if rng.IntN(6) > 0 || w.nodes[0].addr.Is6() {
		return
	}
	w.saw("narrow links")
	w.narrow = policy.SmallestIPv4
	for _, c := range w.conns {
		c.further = 8
		for _, e := range c.ends {
			e.longName = strings.Repeat(strings.Repeat("x", 60)+".", 3) + strings.Repeat("y", 1+rng.IntN(40)) + "."
			if e.fragments == "fragmentation = \"no\"\n" {
				e.fragments = "" // it could never be up
			}
			if strings.HasPrefix(e.lifetimes, "reauth_time") { // IKE_AUTH takes longer here than the tenth that is left by default of times so short
				e.lifetimes += "over_time = \"60s\"\n"
			}
		}
	}
}

// tooLarge: a datagram does not fit through the links of this run. Besides the message it has the headers of IP and UDP, and on the NAT traversal port the marker.
func (w *world) tooLarge(p *packet) bool {
	size := 20 + 8 + len(p.data)
	if _, to := w.behind(p.dst); to.Port() == nattPort || p.src.Port() == nattPort {
		size += 4
	}
	return w.narrow > 0 && size > w.narrow
}
