//go:build interop

package interop

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/test/rig"
)

// rounds is how often a row does what it is about: wanted times, or as often as the environment says by ROUNDS. Where CI is set it is a quarter of wanted and at most three times, for the sake of time.
func rounds(t *testing.T, wanted int) int {
	t.Helper()
	if s := os.Getenv("ROUNDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("ROUNDS=%q, wanted a number of rounds", s)
		}
		return n
	}
	if os.Getenv("CI") != "" {
		return min(wanted/4, 3)
	}
	return wanted
}

// short says that a row in the lab is cut short for CI's sake.
func short(plane string) bool { return plane == "kernel" && os.Getenv("CI") != "" }

// collision is what both ends do at the same moment to a tunnel that is up.
type collision struct {
	subject   string
	own, peer func(rig.Told) error
	ownSends  wire.ExchangeType // the request that each begins with
	peerSends wire.ExchangeType
	traits    int
}

// Traits of a collision.
const (
	ends  = 1 << iota // the tunnel may be down afterwards
	slow              // each refuses the other's for a while: a quarter of the rounds
	cover             // one of those that are enough in the lab in CI
	keeps             // nobody rekeys the child
)

func (c collision) is(trait int) bool { return c.traits&trait != 0 }

// What an end does, as methods.
var (
	rekeyChild  = rig.Told.Rekey
	rekeyIKE    = rig.Told.RekeyIKE
	deleteChild = rig.Told.DeleteChild
	deleteIKE   = rig.Told.DeleteIKE
)

// collisions: RFC 7296 sections 2.8.1, 2.8.2, 2.25.1 and 2.25.2 say what comes of them.
var collisions = []collision{
	{"child rekey x child rekey", rekeyChild, rekeyChild, wire.CreateChildSA, wire.CreateChildSA, cover},
	{"IKE rekey x IKE rekey", rekeyIKE, rekeyIKE, wire.CreateChildSA, wire.CreateChildSA, cover | keeps},
	{"IKE rekey x child rekey", rekeyIKE, rekeyChild, wire.CreateChildSA, wire.CreateChildSA, slow},
	{"child rekey x IKE rekey", rekeyChild, rekeyIKE, wire.CreateChildSA, wire.CreateChildSA, slow},
	{"child rekey x child delete", rekeyChild, deleteChild, wire.CreateChildSA, wire.Informational, ends},
	{"child delete x child rekey", deleteChild, rekeyChild, wire.Informational, wire.CreateChildSA, ends | cover},
	{"IKE rekey x IKE delete", rekeyIKE, deleteIKE, wire.CreateChildSA, wire.Informational, ends | cover},
	{"IKE delete x IKE rekey", deleteIKE, rekeyIKE, wire.Informational, wire.CreateChildSA, ends},
}

// party is a real peer in a row: how it is started at a site.
type party struct {
	name  string
	start func(s *stage, at rig.Site, x rig.Tunnel, plane string) rig.Told
}

// The peers.
var swanParty = party{"strongSwan", func(s *stage, at rig.Site, x rig.Tunnel, plane string) rig.Told {
	x.SwanDaemon += "delete_rekeyed_delay = 1\n" // it shows what has been replaced for so many seconds
	return s.swan(at, x, plane)
}}

// TestUserspaceCollision: cygnet and strongSwan do two things to one tunnel at once, 20 times (ROUNDS in the environment says otherwise, CI makes it 3). A ferry keeps the
// IKE messages on the WAN until both requests are under way, so that a round is none unless they have really crossed. After each round both ends show one IKE SA and one pair
// of SAs, the same ones, and nothing else; where nobody has deleted anything, no packet of a flood through the tunnel is lost.
func TestUserspaceCollision(t *testing.T) {
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	collisionRows(t, swanParty, "userspace")
}

// TestKernelCollision is the same on the kernel's ESP, whose SAs are counted too. CI makes it some of the collisions, 3 times each.
func TestKernelCollision(t *testing.T) {
	t.Parallel()
	need(t, "kernel-esp", kernelESP())
	need(t, "peers", rig.HaveSwan())
	collisionRows(t, swanParty, "kernel")
}

// collisionRows runs each collision, cygnet being the initiator of every second row.
func collisionRows(t *testing.T, p party, plane string) {
	n := rounds(t, 20)
	if short(plane) {
		n = min(n, 3)
	}
	for i, c := range collisions {
		if short(plane) && !c.is(cover) {
			continue
		}
		initiate, n := i%2 == 0, n
		if c.is(slow) {
			n = max(1, n/4)
		}
		line{peer: p.name + " " + plane, role: role(initiate), subject: c.subject, path: "IPv4"}.run(t, func(s *stage) string {
			return collide(s, p, plane, c, initiate, n)
		})
	}
}

// crossing is a row's tunnel with the ferry.
type crossing struct {
	*stage
	ferry     *rig.Ferry
	own       *rig.CygnetEnd
	peer      rig.Told
	plane     string
	initiator rig.End
	ownAt     rig.Site
	peerAt    rig.Site
	round     int
}

// must and want name the round.
func (c *crossing) must(err error) {
	if err != nil {
		c.stage.must(fmt.Errorf("round %d: %w", c.round, err))
	}
}

func (c *crossing) want(ok bool, format string, a ...any) {
	c.stage.want(ok, "round %d: %s", c.round, fmt.Sprintf(format, a...))
}

// cross builds the networks, the ferry and both ends, with cygnet at A if it is the initiator.
func cross(s *stage, p party, plane string, initiate bool, x rig.Tunnel) *crossing {
	ferry, err := s.Ferry()
	s.must(err)
	c := &crossing{stage: s, ferry: ferry, plane: plane, ownAt: s.B, peerAt: s.A}
	y := tunnelB(s.Topology, x)
	if initiate {
		c.ownAt, c.peerAt = s.A, s.B
		x, y = y, x
	}
	c.peer = p.start(s, c.peerAt, x, plane)
	c.own = s.own(c.ownAt, y, rig.CygnetOptions{Dataplane: plane})
	c.initiator = c.peer
	if initiate {
		c.initiator = c.own
	}
	return c
}

// settled waits until both ends show one IKE SA and one pair of SAs, and in the kernels is nothing else.
func (c *crossing) settled(within time.Duration) rig.Shown {
	var own, peer rig.Shown
	var err error
	c.want(rig.Until(within, func() bool {
		if own, err = c.own.Shown(); err != nil {
			return false
		}
		if peer, err = c.peer.Shown(); err != nil {
			return false
		}
		if err = rig.Same(own, peer); err != nil {
			return false
		}
		for _, at := range []rig.Site{c.ownAt, c.peerAt} {
			if list, e := rig.KernelSPIs(at.Gateway); c.plane == "kernel" && (e != nil || len(list) != 2) {
				err = fmt.Errorf("the kernel of %s has %x (%v), both daemons have %s", at.Gateway, list, e, own)
			}
		}
		return err == nil
	}), "not settled within %s: %v", within, err)
	return own
}

// outcome of what an end was told.
type outcome struct {
	own bool
	err error
}

// both returns a function that has both ends act, and the channel of what comes of it.
func (c *crossing) both(own, peer func(rig.Told) error) (begin func(), done chan outcome) {
	done = make(chan outcome, 2)
	return func() {
		go func() { done <- outcome{true, own(c.own)} }()
		go func() { done <- outcome{false, peer(c.peer)} }()
	}, done
}

// collide is one row.
func collide(s *stage, p party, plane string, what collision, initiate bool, n int) string {
	x := tunnel(s.Topology, rig.GCM, false, false)
	x.Cygnet = "liveness = { timeout = \"1s\" }\n" // the first repeat of a request
	c := cross(s, p, plane, initiate, x)
	defer c.ferry.Stop()
	c.must(c.initiator.Up())
	last := c.settled(patience)
	stop, err := rig.Flood(s.A.Host, s.B.Host, s.B.Host4)
	c.must(err)
	downs := 0
	for i := range n {
		c.round = i + 1
		begin, done := c.both(what.own, what.peer)
		a, b, err := c.ferry.Cross(rig.Spoken{Src: c.ownAt.WAN4, Exchange: what.ownSends}, rig.Spoken{Src: c.peerAt.WAN4, Exchange: what.peerSends}, false, patience, begin)
		c.must(err)
		c.want(c.ferry.Crossed(a, b) && a.Header.SPIi == b.Header.SPIi, "%s and %s have not crossed", a, b)
		for range 2 {
			if r := <-done; !what.is(ends) { // what is asked for may be impossible by then
				c.must(r.err)
			}
		}
		if what.is(ends) {
			downs += c.again(last, what)
		}
		now := c.settled(2 * patience)
		c.want(!slices.Equal(now.Children, last.Children) || !slices.Equal(now.IKE, last.IKE), "nothing has become new: %v", now)
		last = now
	}
	said, err := stop()
	if err != nil && !what.is(ends) {
		c.must(fmt.Errorf("%w; %s", err, c.dropped()))
	}
	c.must(c.own.Down()) // which raises it no more, if it had been told to
	c.must(rig.Gone(c.own))
	c.must(rig.Gone(c.peer))
	if what.is(ends) {
		return fmt.Sprintf("%d of %d crossed, %d times raised anew; %s", n, n, downs, said)
	}
	return fmt.Sprintf("%d of %d crossed, %s", n, n, said)
}

// dropped is what the kernels count of ESP that they did not take, or had no SA for.
func (c *crossing) dropped() string {
	a, _ := c.A.Gateway.Output("grep", "-v", "\\s0$", "/proc/net/xfrm_stat")
	b, _ := c.B.Gateway.Output("grep", "-v", "\\s0$", "/proc/net/xfrm_stat")
	return fmt.Sprintf("the kernels count at A %s, at B %s", strings.Join(strings.Fields(a), " "), strings.Join(strings.Fields(b), " "))
}

// patientRounds: a tunnel that the peer deletes comes back by itself so often in a row before the row is told to raise it, as an operator would: each time in a row doubles the
// back-off.
const patientRounds = 3

// again waits until nothing is left of what there was, in either daemon and, by settled, in either kernel, and raises the tunnel once more unless it came back by itself, or soon will. It
// returns 1 if it had to.
func (c *crossing) again(before rig.Shown, what collision) int {
	var own, peer rig.Shown
	var wanted bool
	var err error
	c.want(rig.Until(2*patience, func() bool {
		if own, err = c.own.Shown(); err == nil {
			peer, err = c.peer.Shown()
		}
		if err == nil {
			wanted, err = c.own.Wanted()
		}
		if err != nil || own.Any(before.Children) || peer.Any(before.Mirror().Children) {
			return false
		}
		return rig.Same(own, peer) == nil || wanted || c.empty()
	}), "after the Delete of %v: cygnet shows %v, the peer %v (%v)", before, own, peer, err)
	if rig.Same(own, peer) == nil || wanted && c.round <= patientRounds {
		return 0
	}
	if wanted || what.ownSends == wire.Informational { // what was taken down here nobody else raises
		c.must(c.own.Up())
	} else {
		c.must(c.initiator.Up())
	}
	return 1
}

// empty: no Child SA is in either daemon, no SA in either kernel.
func (c *crossing) empty() bool {
	for _, e := range []rig.Told{c.own, c.peer} {
		if v, err := e.Shown(); err != nil || len(v.Children) > 0 {
			return false
		}
	}
	for _, at := range []rig.Site{c.ownAt, c.peerAt} {
		if list, err := rig.KernelSPIs(at.Gateway); err != nil || len(list) > 0 {
			return false
		}
	}
	return true
}
