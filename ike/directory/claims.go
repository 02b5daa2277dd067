package directory

import (
	"net/netip"
	"slices"

	"cygnet/policy"
	"cygnet/xfrm"
)

// claims are a connection's own claims: blocks have no lineage, traps one for each child.
type claims struct {
	lineages []string // in the order in which they were claimed first
	of       map[string][]xfrm.Claim
}

// wantedClaims is what stands between a connection's packets and the clear, beneath its Child SAs.
func (c *connection) wantedClaims() (w claims) {
	w.of = make(map[string][]xfrm.Claim)
	if c.removed {
		return w
	}
	for _, ch := range c.Children {
		if c.blocks() {
			w.add("", c.block(ch, xfrm.Out)...)
			w.add("", c.block(ch, xfrm.In)...)
		}
	}
	for _, ch := range c.Children {
		if c.traps(ch) {
			w.add(c.lineage(ch.Name), c.trap(ch)...)
		}
	}
	return w
}

func (w *claims) add(lineage string, list ...xfrm.Claim) {
	if _, ok := w.of[lineage]; !ok {
		w.lineages = append(w.lineages, lineage)
	}
	for _, c := range list { // two children may name the same selector
		if !slices.ContainsFunc(w.of[lineage], func(o xfrm.Claim) bool { return o.Slot == c.Slot }) {
			w.of[lineage] = append(w.of[lineage], c)
		}
	}
}

// blocks: with when_down = "drop" nothing leaves in clear from load to unload; a manual connection claims nothing before up and after down.
func (c *connection) blocks() bool {
	return c.Drop && (c.Start != policy.StartManual || c.wanted() == wantUp)
}

// traps: packets raise the child. Not after Down, which they would undo.
func (c *connection) traps(ch *policy.Child) bool {
	return c.Start == policy.StartTraffic && c.wanted() != wantDown && !c.off[ch.Name]
}

func (c *connection) block(ch *policy.Child, dir xfrm.Direction) (list []xfrm.Claim) {
	src, dst := ch.Local, ch.Remote
	if dir == xfrm.In {
		src, dst = dst, src
	}
	for _, sel := range policy.Selectors(src, dst) {
		list = append(list, xfrm.Claim{Slot: xfrm.Slot{Direction: dir, Selector: sel}, Action: xfrm.Block, Rank: xfrm.RankBlock})
	}
	return list
}

// trap protects by an SA that does not exist: the data plane drops the packet and raises Acquire.
func (c *connection) trap(ch *policy.Child) (list []xfrm.Claim) {
	src, dst := c.Local.Address, c.Remote.Address
	if !dst.IsValid() { // a name: the address is looked up when the packet comes
		dst = netip.IPv4Unspecified()
		if src.Is6() {
			dst = netip.IPv6Unspecified()
		}
	}
	if !src.IsValid() {
		src = netip.IPv4Unspecified()
		if dst.Is6() {
			src = netip.IPv6Unspecified()
		}
	}
	for _, sel := range policy.Selectors(ch.Local, ch.Remote) {
		list = append(list, xfrm.Claim{Slot: xfrm.Slot{Direction: xfrm.Out, Selector: sel}, Action: xfrm.Protect, Rank: xfrm.RankTrap,
			Template: xfrm.Template{Src: src, Dst: dst, Mode: xfrm.Tunnel}})
	}
	return list
}

// claim brings the ledger from what the connection held to what it wants: one batch per lineage, new claims before old ones go.
func (t turn) claim(c *connection) {
	want := c.wantedClaims()
	for _, lineage := range want.lineages {
		t.change(c, lineage, c.held.of[lineage], want.of[lineage])
	}
	for _, lineage := range c.held.lineages {
		if _, still := want.of[lineage]; !still {
			t.change(c, lineage, c.held.of[lineage], nil)
		}
	}
	c.held = want
}

func (t turn) change(c *connection, lineage string, held, want []xfrm.Claim) {
	b := xfrm.Batch{Lineage: lineage}
	for _, w := range want {
		if !slices.Contains(held, w) {
			b.Claims = append(b.Claims, w)
		}
	}
	for _, h := range held {
		if !slices.Contains(want, h) {
			b.Release = append(b.Release, h.Slot)
		}
	}
	if len(b.Claims)+len(b.Release) > 0 {
		t.emit(Claims{c.owner(), b})
	}
}
