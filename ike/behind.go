package ike

import (
	"slices"
	"time"

	"cygnet/xfrm"
)

// A child that the peer asked for receives at once. What we sent on it before the peer has our answer would be lost; while an older instance of it
// stands on another IKE SA, as when the peer is authenticated anew, that one goes on sending. So the policies of the new one stand behind its
// until something shows that the peer has it (RFC 7296 section 2.8, which says so of rekeys).

// behindLimit: the new one sends at the latest then: an answer that was lost has been repeated, which takes many peers 4 s, and the older instance may lead
// nowhere. When the peer deletes that one the new one has its place at once.
const behindLimit = 5 * time.Second

// peerHas: something shows that the peer has the child, so that it sends. As long as the peer has not shown that it receives where this IKE SA finds it (RFC 4555
// section 3.7) ESP goes where it was before, maybe to nobody: then an older instance, whose peer has, does better.
func (sa *SA) peerHas(c *child) {
	if sa.mobility.held == nil {
		sa.stepForward(c)
	}
}

// stepForward has a child send, although an older instance of it may stand.
func (sa *SA) stepForward(c *child) {
	if c.behind == 0 || c.out != installed || c.deleting || c.gone {
		return
	}
	c.behind = 0
	if sa.successor(c) != nil {
		return
	}
	b := xfrm.Batch{Lineage: sa.lineage(c)}
	for _, cl := range c.claims() {
		if cl.Slot.Direction == xfrm.Out {
			b.Claims, b.Release = append(b.Claims, cl), append(b.Release, cl.Slot)
		}
	}
	sa.sadb(b, func(d SADBDone) {
		if d.Err != nil {
			sa.ignored("child %s: its policies stay behind those of an older instance: %v", c.config.Name, d.Err)
		}
	})
}

// wakeBehind: nothing has shown that the peer has the child, but it must.
func (sa *SA) wakeBehind() {
	for _, c := range slices.Clone(sa.children) {
		if sa.due(c.behindDue()) {
			sa.stepForward(c)
		}
	}
}

func (c *child) behindDue() (Time, bool) {
	return c.behind, c.behind != 0 && c.out == installed && !c.deleting
}
