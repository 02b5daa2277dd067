package ike

import (
	"bytes"
	"time"
)

// This file ends what is redundant when both sides replace the same child at once (RFC 7296 sections 2.8.1, 2.25.1). Both sides see
// the four nonces and draw the same conclusion: the pair whose exchange has the lowest of them is closed by the side that began it.

// redundantLimit bounds how long the peer may take to close the child that it made too many. Libreswan 5 does not do so at all, and then we do.
const redundantLimit = 30 * time.Second

// lowest of the two nonces of an exchange, octet by octet; where one ends it is the lower.
func lowest(a, b []byte) []byte {
	if bytes.Compare(b, a) < 0 {
		return b
	}
	return a
}

func (c *child) lower(o *child) bool { return bytes.Compare(c.nonce, o.nonce) < 0 }

// settle is called when a successor of old is up, and when a request of the peer's for one is done with. Which one stays is known once ours is
// installed and no request of the peer's is being worked on.
func (sa *SA) settle(old *child) {
	mine, theirs := sa.replacement(old, true), sa.replacement(old, false)
	switch {
	case mine == nil || old.peerRekeys > 0:
		return // the peer, who began, deletes the old one; or its answer is still being made
	case theirs == nil:
	case mine.lower(theirs):
		sa.giveUp(mine)
		return
	default:
		theirs.redundant, theirs.outboundDue, theirs.surplus = true, 0, sa.now.Add(redundantLimit)
		sa.ignored("both sides rekeyed child %s: the peer closes its %s", theirs.config.Name, theirs.spiText())
	}
	sa.retire(old, "replaced")
}

// retire deletes a child whose traffic another carries: it ends sending at once, and is deleted when what it has sent is there.
func (sa *SA) retire(c *child, why string) {
	if c.gone || c.deleting {
		return
	}
	sa.remove(c, false, true)
	c.deleting = true
	sa.postpone(deleteDelay, &deleteExchange{spis: []uint32{c.spiIn}, children: []*child{c}, why: why})
}

// replacement is the successor of old that we made, or that the peer made. old itself may be gone already.
func (sa *SA) replacement(old *child, mine bool) *child {
	return sa.findChild(func(c *child) bool {
		return c.rekeys == old && c.initiated == mine && c.in == installed && !c.deleting
	})
}

// outdone: a successor of ours that is about to be installed is known to be the one that is closed.
func (sa *SA) outdone(c *child) bool {
	if c.rekeys == nil {
		return false
	}
	theirs := sa.replacement(c.rekeys, false)
	return theirs != nil && c.lower(theirs)
}

// giveUp closes a child of ours that another replaces.
func (sa *SA) giveUp(c *child) {
	c.redundant = true
	sa.ignored("both sides rekeyed child %s at once: ours is closed, %s", c.config.Name, c.spiText())
	sa.retire(c, "redundant")
}

// takeOver: a child went that carried the traffic of others which wait for it, such as the winner of a collision that the peer closed nevertheless.
func (sa *SA) takeOver(gone *child) {
	sends := sa.findChild(func(c *child) bool { return c.config == gone.config && c.out != absent && !c.deleting })
	waits := sa.findChild(func(c *child) bool {
		return c.config == gone.config && c.in == installed && c.out == absent && !c.deleting && !c.initiated
	})
	if sends == nil && waits != nil {
		waits.redundant, waits.surplus = false, 0
		sa.startSending(waits)
	}
}
