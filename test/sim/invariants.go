package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cygnet/ike"
	"cygnet/ike/shard"
	"cygnet/ike/wire"
	"cygnet/xfrm"
	"cygnet/xfrm/xfrmfake"
)

// Invariant is what must hold. The first ten are those of the design; the last two hold of any program.
type Invariant string

const (
	// Pairs (1): each outbound SA has its inbound partner with the same keys and selectors, and after quiet none is without.
	// Checked when an SA is added, and in pairs.
	Pairs Invariant = "1: SAs in pairs"
	// Loss (2): no packet is lost on a clean link while both ends have the child. Checked by probes in calm runs and after quiet.
	Loss Invariant = "2: no packet lost"
	// Clear (2): none is in clear where policy protects. Checked by probes, and between any two ops of the data plane.
	Clear Invariant = "2: none in clear"
	// Window (3): one request in flight per direction, message IDs only grow, a repeat has identical octets. Checked on the wire.
	Window Invariant = "3: window and message IDs"
	// Reuse (4): no key and IV are used twice. Checked on the wire for IKE, when an SA is added for ESP.
	Reuse Invariant = "4: no (key, IV) twice"
	// Unauthenticated (5): forged input changes nothing established. Checked around each forged packet.
	Unauthenticated Invariant = "5: forged input changes nothing"
	// Flood (6): state under flood is bounded and returns to zero, and no source gets more than it sent. Checked after each turn and in the end.
	Flood Invariant = "6: bounded under flood"
	// Liveness (7): some time after the faults stop, what is wanted is up, with one live child for each that is configured, at both ends.
	Liveness Invariant = "7: up in the end"
	// Ledger (8): every AddSA meets its RemoveSA, every claim its release. Checked when an owner finishes, and after all is taken down.
	Ledger Invariant = "8: nothing is left"
	// Secrets (9): no secret's octets in any report, status or finish. Checked for each text.
	Secrets Invariant = "9: no secret in a text"
	// Repeat (10): the same seed gives the same trace. Checked by running a seed twice.
	Repeat Invariant = "10: the same seed, the same run"
	// Panic: no panic, no internal error, no livelock, no call that breaks the contract of a driver.
	Panic Invariant = "no panic"
)

// Violation of an invariant.
type Violation struct {
	Invariant Invariant
	At        time.Duration // virtual
	Text      string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("invariant %q broken at %.6f s: %s", v.Invariant, v.At.Seconds(), v.Text)
}

const ike0 = ike.Time(0)

// unsettled says what is not yet as wanted, or "".
func (w *world) unsettled() string {
	at := make([][]ike.Status, len(w.nodes))
	for i, n := range w.nodes {
		at[i] = slices.DeleteFunc(n.machines(), w.leftover)
		for _, m := range at[i] {
			switch {
			case m.Connection == "" || !n.configured(m.Connection):
				return fmt.Sprintf("%s has an IKE SA of no connection: %s", n.name, brief(m))
			case m.Phase != "established":
				return fmt.Sprintf("%s has an IKE SA that is not established: %s", n.name, brief(m))
			}
		}
	}
	for _, c := range w.conns {
		if why := c.unsettled(at); why != "" {
			return why
		}
	}
	for i, n := range w.nodes {
		if why := n.unsettledDriver(at[i]); why != "" {
			return why
		}
	}
	for _, c := range w.conns {
		if why := c.astray(at); why != "" {
			return why
		}
	}
	return ""
}

// leftover: after rekeys that collide one end may wait for a Delete of an IKE SA that the other never had. It has nothing, and goes by itself.
func (w *world) leftover(m ike.Status) bool {
	return w.rekeys && m.Phase == "closing" && len(m.Children) == 0
}

func (n *node) configured(name string) bool {
	return slices.ContainsFunc(n.conns, func(e *end) bool { return e.name() == name })
}

func brief(m ike.Status) string {
	var children []string
	for _, c := range m.Children {
		children = append(children, fmt.Sprintf("%s(up %v, in %08x, out %08x)", c.Name, c.Up, c.SPIIn, c.SPIOut))
	}
	return fmt.Sprintf("%s %s initiated %v, %016x/%016x, children %s", m.Connection, m.Phase, m.Initiated, uint64(m.SPIi), uint64(m.SPIr), strings.Join(children, " "))
}

// unsettled: one IKE SA, the same at both ends, with each child once; or none at all.
func (c *conn) unsettled(all [][]ike.Status) string {
	var at [2][]ike.Status
	for side, e := range c.ends {
		for _, m := range all[e.node.index] {
			if m.Connection == e.name() {
				at[side] = append(at[side], m)
			}
		}
		want := 0
		if c.want {
			want = 1
		}
		if len(at[side]) != want {
			var all []string
			for _, m := range at[side] {
				all = append(all, brief(m))
			}
			return fmt.Sprintf("%s has %d IKE SAs of %s, %d are wanted: %s; %s", e.node.name, len(at[side]), e.name(), want, strings.Join(all, "; "), e.wish())
		}
	}
	if !c.want {
		return ""
	}
	a, b := at[0][0], at[1][0]
	if a.SPIi != b.SPIi || a.SPIr != b.SPIr {
		return fmt.Sprintf("%s: the ends have different IKE SAs: %s; %s", c.ends[0].name(), brief(a), brief(b))
	}
	for k := range c.children {
		if why := sameChild(a, b, childName(k)); why != "" {
			return fmt.Sprintf("%s: child %s: %s: %s; %s; %s; %s", c.ends[0].name(), childName(k), why, brief(a), brief(b), c.ends[0].wish(), c.ends[1].wish())
		}
	}
	return ""
}

// wish is what the directory there says of the connection.
func (e *end) wish() string {
	for _, s := range e.node.directory.Status() {
		if s.Name == e.name() {
			return fmt.Sprintf("%s (start %s) wants it %s, tries %d, next %v, last error %q", e.node.name, e.start, s.Wanted, s.Tries, s.NextTry.Sub(epoch), s.LastErr.Text)
		}
	}
	return "not in the directory of " + e.node.name
}

func sameChild(a, b ike.Status, name string) string {
	one := func(m ike.Status) (found ike.ChildStatus, n int) {
		for _, c := range m.Children {
			if c.Name == name {
				found = c
				n++
			}
		}
		return found, n
	}
	ca, na := one(a)
	cb, nb := one(b)
	switch {
	case na != 1 || nb != 1:
		return fmt.Sprintf("%d and %d of it", na, nb)
	case !ca.Up || !cb.Up:
		return "not up"
	case ca.SPIIn != cb.SPIOut || ca.SPIOut != cb.SPIIn:
		return "not the same at both ends"
	}
	return ""
}

// unsettledDriver: the data plane holds the SAs of the children, and no others.
func (n *node) unsettledDriver(machines []ike.Status) string {
	if !n.alive {
		return n.name + " is down"
	}
	want := make(map[xfrm.SAID]bool)
	for _, m := range machines {
		for _, c := range m.Children {
			want[c.In], want[c.Out] = true, true
		}
	}
	for _, id := range n.heldSAs() {
		if !want[id] && !n.fades(id) {
			return fmt.Sprintf("%s: the data plane holds %v, which is no child's", n.name, id)
		}
		delete(want, id)
	}
	for id := range want {
		return fmt.Sprintf("%s: %v of a child is not in the data plane", n.name, id)
	}
	return n.unsettledClaims(machines)
}

// unsettledClaims: a child claims what it carries, once, and nothing of an earlier one is left behind its claims.
func (n *node) unsettledClaims(machines []ike.Status) string {
	for _, m := range machines {
		want, spi := 0, wire.SPI(m.SPIr)
		if m.Initiated {
			spi = wire.SPI(m.SPIi)
		}
		for _, c := range m.Children {
			want += len(n.sad[c.In].Selectors) + len(n.sad[c.Out].Selectors)
		}
		if claims, _ := n.plane.ledger.Holds(shard.Owner(spi)); claims != want {
			return fmt.Sprintf("%s: %016x has %d claims, its children need %d", n.name, uint64(spi), claims, want)
		}
	}
	return ""
}

// fades: an inbound SA outlives its child by two seconds where another carries its traffic, for packets that are on their way.
func (n *node) fades(id xfrm.SAID) bool {
	const grace = 4 * time.Second
	if n.sad[id].Direction != xfrm.In {
		return false
	}
	if n.fading[id] == 0 {
		n.fading[id] = n.w.now
	}
	return n.w.now.Sub(n.fading[id]) < grace
}

// pairs: after quiet each SA has its partner.
func (w *world) pairs() {
	for _, n := range w.nodes {
		if state, err := n.driver.Dump(context.Background()); err != nil || len(state.SAs) != len(n.sad) {
			w.fail(Panic, "%s: the simulation lost track of the driver: %d SAs, %d known, %v", n.name, len(state.SAs), len(n.sad), err)
		}
		for _, id := range n.heldSAs() {
			s := n.sad[id]
			p := w.partner(n, s)
			switch {
			case p == nil && !n.fades(id):
				w.fail(Pairs, "%s: %v (direction %d) has no partner; %s", n.name, id, s.Direction, w.unsettled())
			case p != nil && (p.Encap == nil) != (s.Encap == nil) && n.liar == nil:
				w.fail(Pairs, "%s: the ends do not agree at rest whether %v travels in UDP", n.name, id)
			}
		}
	}
}

// partner finds the other end of an SA by its keys, and compares the two. Whether ESP travels in UDP they may see otherwise for a while after an end has moved: an
// UPDATE_SA_ADDRESSES that was on its way is repeated from the next address unchanged (RFC 4555 section 3.5), and to the peer that looks like a NAT until the next one comes.
func (w *world) partner(n *node, s *said) *said {
	for _, o := range w.nodes {
		for _, p := range o.sad {
			if p.keys != s.keys || o == n {
				continue
			}
			if n.liar != nil || o.liar != nil {
				return p // what it says and what it does are two things
			}
			switch {
			case p.Direction == s.Direction:
				w.fail(Reuse, "%s and %s both have keys for direction %d: %v", n.name, o.name, s.Direction, s.ID)
			case p.ID.SPI != s.ID.SPI || p.Suite != s.Suite || p.Mode != s.Mode:
				w.fail(Pairs, "%s and %s differ: %v %+v, %v %+v", n.name, o.name, s.ID, s.Suite, p.ID, p.Suite)
			case (p.Encap == nil) != (s.Encap == nil) && n.moves+o.moves == 0:
				w.fail(Pairs, "%s and %s do not agree whether %v travels in UDP", n.name, o.name, s.ID)
			case !sameSelectors(p.Selectors, s.Selectors):
				w.fail(Pairs, "%s and %s have different selectors for %v: %v, %v", n.name, o.name, s.ID, s.Selectors, p.Selectors)
			}
			return p
		}
	}
	return nil
}

func sameSelectors(a, b []xfrm.Selector) bool {
	for _, s := range a {
		if !slices.Contains(b, s) {
			return false
		}
	}
	return len(a) == len(b)
}

// nothingLeft: after all was taken down and unloaded.
func (w *world) nothingLeft() {
	for _, n := range w.nodes {
		for _, m := range n.machines() {
			w.fail(Ledger, "%s still has an IKE SA: %s", n.name, brief(m))
		}
		for _, l := range n.shards {
			if l.shard.Len() != 0 || l.shard.HalfOpen() != 0 {
				w.fail(Flood, "%s: %d machines and %d half-open are left", n.name, l.shard.Len(), l.shard.HalfOpen())
			}
		}
		claims, sas := n.plane.ledger.Size()
		state, err := n.driver.Dump(context.Background())
		added, removed := n.driver.Balance()
		switch {
		case claims+sas != 0:
			w.fail(Ledger, "%s: %d claims and %d SAs are left in the ledger", n.name, claims, sas)
		case err != nil || len(state.SAs)+len(state.Policies) != 0:
			w.fail(Ledger, "%s: the data plane still has %d SAs and policies %v, %v", n.name, len(state.SAs), state.Policies, err)
		case added != removed:
			w.fail(Ledger, "%s: %d SAs were added and %d removed", n.name, added, removed)
		case len(n.directory.Status()) != 0:
			w.fail(Ledger, "%s: the directory still knows %+v", n.name, n.directory.Status())
		}
		if faults := n.driver.Faults(); len(faults) > 0 {
			w.fail(Panic, "%s: calls that break the driver's contract: %v", n.name, faults)
		}
	}
}

// covered: each selector that is to be protected has a policy that does not let its packets pass, in both directions.
func (t *watch) covered(n *node) {
	for _, e := range n.conns {
		for k := range e.conn.children {
			if !n.protects[guarded{e.name(), childName(k)}] {
				continue
			}
			out := e.packet(k)
			in := xfrmfake.Packet{Src: out.Dst, Dst: out.Src, Proto: out.Proto, SrcPort: out.DstPort, DstPort: out.SrcPort}
			if !n.spdCovers(xfrm.Out, out) {
				n.w.fail(Clear, "%s: no policy protects the outbound packets of %s, child %s", n.name, e.name(), childName(k))
			}
			if !n.spdCovers(xfrm.In, in) {
				n.w.fail(Clear, "%s: no policy protects the inbound packets of %s, child %s", n.name, e.name(), childName(k))
			}
		}
	}
}

func (n *node) spdCovers(d xfrm.Direction, p xfrmfake.Packet) bool {
	var best xfrm.Policy
	for at, pol := range n.spd {
		s := at.Selector
		if at.Direction == d && s.Src.Contains(p.Src) && s.Dst.Contains(p.Dst) && (s.Proto == 0 || s.Proto == p.Proto) &&
			inRange(s.SrcPorts, p.SrcPort) && inRange(s.DstPorts, p.DstPort) && (best.Priority == 0 || pol.Priority < best.Priority) {
			best = pol
		}
	}
	return best.Priority != 0 && best.Action != xfrm.Pass
}

func inRange(r xfrm.Ports, port uint16) bool {
	return r == (xfrm.Ports{}) || r.First <= port && port <= r.Last
}
