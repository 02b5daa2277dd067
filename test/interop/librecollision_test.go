//go:build interop

package interop

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"cygnet/test/rig"
)

// Libreswan 5.2 does less about collisions than RFC 7296 asks of it. What cygnet owes is wanted of every round all the same: it ends with one IKE SA and one pair of SAs, or with
// none. What follows from one of the peer's limits is allowed where that limit has been seen in that round, and the row says how often:
//   - It sends on the new child of our rekey before we can have its answer, which RFC 7296 section 2.8 allows. What comes too early is lost.
//   - It leaves the redundant child of its own open. cygnet closes it after 30 s, and the IKE SA after a minute.
//   - With a redundant child that it installed last, it takes the policies out of its kernel, which the other child still needs; as initiator it raises
//     a third one at once ("revival attempt").
//   - It puts the children under the new IKE SA that it answered last, whatever the nonces say, and deletes them with that one ("EXPECTATION FAILED" in its log).
//   - It answers a rekey of an IKE SA that it is deleting, where section 2.25.2 wants TEMPORARY_FAILURE, and keeps the new one.
//   - It does not take our answer while it computes its own ("already has outstanding crypto"). So the answers of a round cross here, as the requests do.
type libreLimits struct {
	early       int // datagrams lost because they came too early
	kept        int // rounds after which the tunnel worked
	noPolicy    int // rounds that lost the policies, if only until a third child was up
	lostChild   int // rounds that lost the child with an IKE SA
	leftOverIKE int // rounds that left it an IKE SA which cygnet does not have
}

func (l libreLimits) String() string {
	var b strings.Builder
	for _, part := range []struct {
		n    int
		text string
	}{
		{l.kept, "the tunnel stayed %d times"}, {l.early, "%d datagrams the peer sent too early"}, {l.noPolicy, "the peer lost its policies %d times"},
		{l.lostChild, "the peer lost the child with an IKE SA %d times"}, {l.leftOverIKE, "the peer kept an IKE SA of its own %d times"},
	} {
		if part.n > 0 {
			fmt.Fprintf(&b, "; "+part.text, part.n)
		}
	}
	return b.String()
}

var libreParty = party{"Libreswan", func(s *stage, at rig.Site, x rig.Tunnel, _ string) rig.Told {
	e, err := rig.StartLibreswan(at.Gateway, s.folder(), peersRoot(), x)
	s.must(err)
	s.keep(e)
	return e
}}

// TestKernelLibreswanCollision is TestKernelCollision with Libreswan and what libreLimits allow it, 20 times each (ROUNDS in the environment says otherwise, CI makes it 1 and some of the collisions). Each round has a
// tunnel of its own, since what Libreswan is left with after one may spoil the next.
func TestKernelLibreswanCollision(t *testing.T) {
	t.Parallel()
	needLibreswan(t)
	for i, what := range collisions {
		for _, initiate := range []bool{true, false} {
			turn := initiate == (i%2 == 0 || what.is(ends))
			switch {
			case !initiate && what.is(ends): // as initiator Libreswan raises at once what is deleted
			case short("kernel") && !(what.is(cover) && turn):
			default:
				libreCollisionRow(t, what, initiate)
			}
		}
	}
}

// libreCollisionRow is one row. As responder cygnet has one round only, because it lets nobody raise what it has taken down.
func libreCollisionRow(t *testing.T, what collision, initiate bool) {
	n := rounds(t, 20)
	if what.is(slow) {
		n = max(1, n/4)
	}
	if !initiate || short("kernel") {
		n = 1
	}
	line{peer: "Libreswan kernel", role: role(initiate), subject: what.subject, path: "IPv4"}.run(t, func(s *stage) string {
		x := tunnel(s.Topology, rig.GCM, false, false)
		x.Cygnet = "liveness = { timeout = \"1s\" }\n" // the first repeat of a request
		c := cross(s, libreParty, "kernel", initiate, x)
		defer c.ferry.Stop()
		var seen libreLimits
		for i := range n {
			c.round = i + 1
			c.libreswan(what, &seen)
		}
		return fmt.Sprintf("%d of %d crossed%s", n, n, seen)
	})
}

// TestKernelLibreswanStart is TestKernelStart with Libreswan.
func TestKernelLibreswanStart(t *testing.T) {
	t.Parallel()
	needLibreswan(t)
	startRow(t, libreParty, "kernel")
}

func needLibreswan(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	_, err := os.Stat(peersRoot())
	need(t, "peers", err)
}

// libreswan is one round.
func (c *crossing) libreswan(what collision, seen *libreLimits) {
	c.must(c.initiator.Up())
	before, _ := c.atRest(rig.Shown{}, math.MaxInt)
	unknown, confused, revived := c.unknownSPIs(c.ownAt), c.peerSaid(confusion), c.peerSaid(revival)
	stop, err := rig.Flood(c.A.Host, c.B.Host, c.B.Host4)
	c.must(err)
	begin, done := c.both(what.own, what.peer)
	a, b, err := c.ferry.Cross(rig.Spoken{Src: c.ownAt.WAN4, Exchange: what.ownSends}, rig.Spoken{Src: c.peerAt.WAN4, Exchange: what.peerSends}, !what.is(ends), patience, begin)
	c.must(err)
	c.want(c.ferry.Crossed(a, b) && a.Header.SPIi == b.Header.SPIi, "%s and %s have not crossed", a, b)
	for range 2 {
		<-done // what is asked for may be impossible by then
	}
	if what.is(ends) {
		c.ended(before)
		stop()
	} else {
		own, peer := c.atRest(before, confused)
		_, err := stop()
		switch {
		case c.peerSaid(confusion) > confused && (len(peer.Children) == 0 || what.is(keeps) && !slices.Equal(own.Children, before.Children)):
			seen.lostChild++
		case !c.policies(c.peerAt), c.peerSaid(revival) > revived:
			seen.noPolicy++
		default:
			c.whole(err, c.unknownSPIs(c.ownAt)-unknown, c.ferry.Unheard(a), seen)
		}
	}
	c.must(c.own.Down())
	if !rig.Until(patience, func() bool { v, err := c.peer.Shown(); return err == nil && len(v.IKE) == 0 }) {
		seen.leftOverIKE++
	}
	c.bothDown()
}

// atRest waits until cygnet has one new IKE SA or pair of SAs, and nothing else but what is closing, and the peer the same pair, or none if it has been confused since. What is redundant
// cygnet itself closes after 30 s; that the peer has forgotten an IKE SA it finds out within a minute.
func (c *crossing) atRest(before rig.Shown, confused int) (own, peer rig.Shown) {
	var err error
	c.want(rig.Until(8*patience, func() bool {
		if own, err = c.own.Standing(); err != nil || slices.Equal(own.Children, before.Children) && c.ferry.Waits(c.ownAt.WAN4) { // for the answer to its Delete
			return false
		}
		peer, err = c.peer.Shown()
		return err == nil && len(own.IKE) == 1 && len(own.Children) == 1 && !(slices.Equal(own.IKE, before.IKE) && slices.Equal(own.Children, before.Children)) &&
			(slices.Equal(peer.Children, own.Mirror().Children) || len(peer.Children) == 0 && c.peerSaid(confusion) > confused)
	}), "not at rest: cygnet shows %v, the peer %v (%v)", own, peer, err)
	return own, peer
}

// ended waits until neither daemon and neither kernel has anything left of the children before.
func (c *crossing) ended(before rig.Shown) {
	var left string
	c.want(rig.Until(2*patience, func() bool {
		left = ""
		for at, e := range map[rig.Site]rig.Told{c.ownAt: c.own, c.peerAt: c.peer} {
			v, err := e.Shown()
			spis, err2 := rig.KernelSPIs(at.Gateway)
			kernel := slices.ContainsFunc(spis, func(spi string) bool { return strings.Contains(strings.Join(before.Children, " "), spi) })
			if err != nil || err2 != nil || kernel || v.Any(before.Children) || v.Any(before.Mirror().Children) {
				left += fmt.Sprintf("%s shows %v, its kernel has %v; ", at.Gateway, v, spis)
			}
		}
		return left == ""
	}), "of %v is left: %s", before, left)
}

// whole judges the flood of a round after which the tunnel works: what was lost our kernel did not know the SPI of, and it is no more than what the peer has sent before it could know
// that we had its answer.
func (c *crossing) whole(err error, unknown, unheard int, seen *libreLimits) {
	if lost := (*rig.Lost)(nil); errors.As(err, &lost) && lost.Number == unknown && unknown <= unheard {
		seen.early += unknown
	} else if err != nil {
		c.must(fmt.Errorf("%w; of an unknown SPI were %d here, %d were sent early; %s", err, unknown, unheard, c.dropped()))
	}
	seen.kept++
}

func (c *crossing) unknownSPIs(at rig.Site) int {
	n, err := rig.XfrmStat(at.Gateway, "XfrmInNoStates")
	c.must(err)
	return n
}

// policies reports whether a kernel has any with a tunnel.
func (c *crossing) policies(at rig.Site) bool {
	out, err := at.Gateway.Output("ip", "xfrm", "policy")
	c.must(err)
	return strings.Contains(out, "tmpl")
}

// What the peer says where it finds what it did not expect, and where it raises a tunnel that should be up.
const (
	confusion = "EXPECTATION FAILED"
	revival   = "revival attempt"
)

// peerSaid counts how often the peer has said something.
func (c *crossing) peerSaid(text string) int { return len(c.peer.(*rig.Libreswan).Said(text)) }
