package ike

import (
	"slices"

	"cygnet/policy"
)

// Both ends may raise one child at the same time: their CREATE_CHILD_SA requests cross, both succeed, and two equal pairs of SAs stand. RFC 7296
// section 2.8.1 settles that for rekeys by the nonces; of new children it says nothing, and two would be rekeyed for ever. One rule settles it here: of the two
// that one goes which the original responder asked for, and the responder ends it. A responder that does not know the rule gets its time, and then the
// original initiator does.

// noteDuplicate plans the end of one of two equal children. The peer may not have heard of its own one yet, so that both work on for a moment.
func (sa *SA) noteDuplicate(c *child) {
	x := sa.duplicate(c)
	if x == nil || c.surplus != 0 || x.surplus != 0 {
		return
	}
	goes := c
	switch {
	case x.initiated != c.initiated:
		if x.initiated != sa.initiator {
			goes = x
		}
	case x.since < c.since: // rekeys have changed who began them
		goes = x
	}
	grace := outboundLimit
	if sa.initiator {
		grace = redundantLimit
	}
	goes.surplus = sa.now.Add(grace)
}

// takesOver: x takes over from c, which it replaced and which is gone, and with it the end that was planned.
func (sa *SA) takesOver(c, x *child) {
	x.replaces = nil
	if c.surplus != 0 {
		x.surplus = c.surplus
	}
	sa.noteDuplicate(x)
}

// duplicate finds an equal child that stands beside c and not for it. What the nonces of two rekeys have made redundant the peer closes, although its
// answer may be late.
func (sa *SA) duplicate(c *child) *child {
	return sa.findChild(func(x *child) bool {
		return x != c && x.config == c.config && x.up && c.up && !x.deleting && !c.deleting &&
			x.replaces == nil && c.replaces == nil && !x.redundant && !c.redundant && same(x.local, c.local) && same(x.remote, c.remote)
	})
}

func same(a, b []policy.TS) bool { return policy.Within(a, b) && policy.Within(b, a) }

// wakeDuplicates deletes what has become surplus, if the other is still there, and what the peer should have closed.
func (sa *SA) wakeDuplicates() {
	for _, c := range slices.Clone(sa.children) {
		if !sa.due(c.surplus, c.surplus != 0) {
			continue
		}
		c.surplus = 0
		switch {
		case c.redundant:
			sa.retire(c, "both sides rekeyed it at once, and the peer has not closed its own")
		case sa.duplicate(c) != nil:
			sa.retire(c, "an equal one stands beside it, as both sides raised it at the same time")
		}
	}
}
