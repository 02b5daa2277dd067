package ike

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// two is a pair with a second child.
func two(extra string) setup {
	return setup{
		a: gwA + dmz("10.3.0.0/16", "10.2.0.0/16") + extra,
		b: gwB + strings.ReplaceAll(dmz("10.2.0.0/16", "10.3.0.0/16"), "site-b", "site-a") + extra,
	}
}

// both waits until each side has that many children up.
func (n *network) both(children int) {
	n.t.Helper()
	if !n.run(time.Minute, func() bool { return n.a.children() == children && n.b.children() == children }) {
		n.dump()
		n.t.Fatalf("children: a %d, b %d, want %d", n.a.children(), n.b.children(), children)
	}
	n.paired()
}

// TestFurtherChild: all children of the connection come up, the first in IKE_AUTH; with and without a key exchange of their own.
func TestFurtherChild(t *testing.T) {
	for _, pfs := range []string{"", `pfs = "x25519"`, `pfs = "no"`, `pfs = "modp2048"`} {
		n := newPair(t, two(pfs))
		n.a.step(Initiate{})
		n.both(2)
		for _, h := range []*host{n.a, n.b} {
			names := map[string]bool{}
			for _, c := range h.sa.Status().Children {
				names[c.Name] = c.ReqID != 0
			}
			if !names["lan"] || !names["dmz"] {
				t.Errorf("%s: %s: %v", pfs, h.name, names)
			}
		}
		if a := n.a.sa.Status().Children; a[0].ReqID == a[1].ReqID {
			t.Error("two children with one reqid")
		}
	}
}

// TestRaiseByResponder: the responder of the IKE SA asks for a child; SK_ei and KEYMAT follow the roles (traps 39, 101).
func TestRaiseByResponder(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.both(1)
	n.b.step(RaiseChild{Child: "dmz"})
	n.both(2)
	n.b.step(RaiseChild{Child: "dmz"})
	if r := n.b.reports[len(n.b.reports)-1]; r.Code != CodeChildUp || !strings.Contains(r.Text, "is up") {
		t.Errorf("%+v", r)
	}
	n.b.internal = true
	n.b.step(RaiseChild{Child: "nonesuch"})
	n.b.wants(CodeInternal, "no such child")
}

// TestTrap_7296_44_PacketFirst: the packet that asks for a child stands first in the selectors.
func TestTrap_7296_44_PacketFirst(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.both(1)
	var seen []wire.TrafficSelector
	n.tamper(func(o *opened) bool {
		if ts, ok := wire.FindTS(o.ps, true); ok && o.is(wire.CreateChildSA, false) {
			seen = ts.Selectors
		}
		return false
	})
	packet := xfrm.Selector{Src: netip.MustParsePrefix("10.3.0.9/32"), Dst: netip.MustParsePrefix("10.2.0.5/32"), Proto: 6, DstPorts: xfrm.Ports{First: 443, Last: 443}}
	n.a.step(RaiseChild{Child: "dmz", Packet: &packet})
	n.a.step(RaiseChild{Child: "dmz"}) // merged with the first
	n.both(2)
	if len(seen) != 2 || seen[0].Start != netip.MustParseAddr("10.2.0.5") || seen[0].Protocol != 6 || seen[0].EndPort != 443 {
		t.Errorf("selectors %+v", seen)
	}
}

// TestTrap_7296_31_ChildInvalidKE: the responder wants another group for the child.
func TestTrap_7296_31_ChildInvalidKE(t *testing.T) {
	s := two("")
	s.a += "pfs = \"x25519 ecp256\"\n"
	s.b += "pfs = \"ecp256\"\n"
	s.a = strings.Replace(s.a, `pfs = "x25519 ecp256"`, `esp = ["aes256gcm16-x25519-ecp256"]`, 1)
	s.b = strings.Replace(s.b, `pfs = "ecp256"`, `esp = ["aes256gcm16-ecp256"]`, 1)
	n := newPair(t, s)
	var groups []wire.GroupID
	n.tamper(func(o *opened) bool {
		if ke, ok := wire.Find[*wire.KE](o.ps); ok && o.is(wire.CreateChildSA, false) {
			groups = append(groups, ke.Group)
		}
		return false
	})
	n.a.step(Initiate{})
	n.both(2)
	if fmt.Sprint(groups) != fmt.Sprint([]wire.GroupID{wire.GroupX25519, wire.GroupECP256}) {
		t.Errorf("groups %v", groups)
	}
}

// TestTrap_7296_91_TemporaryFailure: not retried at once, and not for ever.
func TestTrap_7296_91_TemporaryFailure(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.both(1)
	count := 0
	var times []Time
	n.tamper(func(o *opened) bool {
		if !o.is(wire.CreateChildSA, true) {
			return false
		}
		count++
		times = append(times, n.now)
		o.ps = []wire.Payload{wire.NewNotify(wire.NotifyTemporaryFailure, nil)}
		return true
	})
	n.a.step(RaiseChild{Child: "dmz"})
	n.run(2*time.Minute, func() bool { return n.a.said(CodePeerError) != nil })
	n.a.wants(CodePeerError, "TEMPORARY_FAILURE")
	if count != 1+maxTemporary || times[1].Sub(times[0]) < temporaryDelay {
		t.Errorf("%d tries at %v", count, times)
	}
	if !n.a.sa.Established() {
		t.Error("the IKE SA went")
	}
}

// TestLowerWhatIsPostponed: a child for which a busy peer is to be asked again is taken down, and not asked for any more.
func TestLowerWhatIsPostponed(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.both(1)
	asked := 0
	n.tamper(func(o *opened) bool {
		if !o.is(wire.CreateChildSA, true) {
			return false
		}
		asked++
		o.ps = []wire.Payload{wire.NewNotify(wire.NotifyTemporaryFailure, nil)}
		return true
	})
	n.a.step(RaiseChild{Child: "dmz"})
	n.run(time.Second, nil)
	n.a.step(Lower{Child: "dmz"})
	n.run(time.Minute, nil)
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	if r := n.a.said(CodeClosed); r != nil {
		t.Errorf("said: %s", r.Text)
	}
}

// TestTrap_7296_59_NoAdditionalSAs is told; the IKE SA stays.
func TestTrap_7296_59_NoAdditionalSAs(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.both(1)
	n.tamper(func(o *opened) bool {
		if o.is(wire.CreateChildSA, true) {
			o.ps = []wire.Payload{wire.NewNotify(wire.NotifyNoAdditionalSAs, nil)}
			return true
		}
		return false
	})
	n.a.step(RaiseChild{Child: "dmz"})
	n.run(5*time.Second, nil)
	n.a.wants(CodePeerError, "NO_ADDITIONAL_SAS")
}

// TestTrap_7296_45_WiderAnswer: an answer outside the offer is not installed, and the peer is told to delete it.
func TestTrap_7296_45_WiderAnswer(t *testing.T) {
	n := newPair(t, setup{})
	n.tamper(func(o *opened) bool {
		ts, ok := wire.FindTS(o.ps, true)
		if !ok || !o.is(wire.IKEAuth, true) {
			return false
		}
		ts.Selectors[0].End = netip.MustParseAddr("10.255.255.255")
		return true
	})
	n.a.step(Initiate{})
	n.run(10*time.Second, nil)
	n.a.wants(CodeNoSelectors)
	if !n.a.sa.Established() || !n.b.sa.Established() {
		t.Error("the IKE SA went")
	}
	n.empty()
}

// TestDataplaneRefuses: each op of the child's installation fails on each side. Nothing half installed stays anywhere.
func TestDataplaneRefuses(t *testing.T) {
	for _, side := range []string{"a", "b"} {
		for k := range 4 {
			n := newPair(t, setup{})
			h := n.a
			if side == "b" {
				h = n.b
			}
			count := 0
			h.plane.fail = func(op xfrm.Op) error {
				switch op.(type) {
				case xfrm.AddSA, xfrm.PutPolicy:
					if count++; count-1 == k {
						return errors.New("no memory")
					}
				}
				return nil
			}
			n.a.step(Initiate{})
			n.run(time.Minute, nil)
			h.wants(CodeDataplane, "no memory")
			if !n.a.sa.Established() || !n.b.sa.Established() || n.a.children()+n.b.children() != 0 {
				n.dump()
				t.Errorf("%s, op %d: children %d, %d", side, k, n.a.children(), n.b.children())
			}
			n.empty()
		}
	}
}

// TestSPITaken: an inbound SPI that the host uses already is drawn again by the responder before its answer leaves; the initiator deletes the child
// and asks anew.
func TestSPITaken(t *testing.T) {
	for _, side := range []string{"a", "b"} {
		n := newPair(t, setup{})
		h := n.a
		if side == "b" {
			h = n.b
		}
		first := true
		h.plane.fail = func(op xfrm.Op) error {
			if add, ok := op.(xfrm.AddSA); ok && add.SA.Direction == xfrm.In && first {
				first = false
				return xfrm.ErrExists
			}
			return nil
		}
		n.a.step(Initiate{})
		n.run(5*time.Second, nil)
		n.both(1)
	}
}

// TestSPITakenOutbound: the peer's SPI clashes with another peer's behind one address: the child is refused with the reason.
func TestSPITakenOutbound(t *testing.T) {
	n := newPair(t, setup{})
	n.b.plane.fail = func(op xfrm.Op) error {
		if add, ok := op.(xfrm.AddSA); ok && add.SA.Direction == xfrm.Out {
			return xfrm.ErrExists
		}
		return nil
	}
	n.a.step(Initiate{})
	n.run(10*time.Second, nil)
	n.b.wants(CodeDataplane, "SA exists already")
	n.a.wants(CodePeerError, "TEMPORARY_FAILURE")
	n.empty()
}

// offer builds a peer's request for a child.
func (h *host) offer(spi uint32, more ...wire.Payload) []wire.Payload {
	cfg := h.sa.conn.Children[0]
	return append(more,
		&wire.SA{Proposals: policy.OfferESP(cfg, spi, false, h.config.Caps)}, &wire.Nonce{Data: make([]byte, 32)},
		&wire.TS{Selectors: policy.WireTS(cfg.Local)}, &wire.TS{Responder: true, Selectors: policy.WireTS(cfg.Remote)})
}

// TestTrap_7296_51_Rekey: REKEY_SA names the peer's inbound SPI. The new child receives at once and sends when the old one goes, by one batch.
func TestTrap_7296_51_Rekey(t *testing.T) {
	for _, how := range []string{"delete", "first use", "time"} {
		t.Run(how, func(t *testing.T) {
			n := newPair(t, setup{})
			n.up()
			old := n.b.sa.children[0]
			answer := n.a.ask(wire.CreateChildSA, n.a.offer(0x7777, wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoESP, old.spiOut))...)
			if _, ok := wire.Find[*wire.SA](answer); !ok || len(n.b.sa.children) != 2 {
				t.Fatalf("answer %v", answer)
			}
			next := n.b.sa.children[1]
			if next.in != installed || next.out != absent || old.out != installed {
				t.Errorf("new in %v out %v, old out %v", next.in, next.out, old.out)
			}
			n.b.wants(CodeRekeyed, "rekeyed: 10.2.0.0/16 <-> 10.1.0.0/16")
			switch how {
			case "delete":
				from := len(n.b.plane.ops)
				d := n.a.ask(wire.Informational, &wire.Delete{Protocol: wire.ProtoESP, SPIs: []uint32{old.spiOut}})
				if got, ok := wire.Find[*wire.Delete](d); !ok || got.SPIs[0] != old.spiIn {
					t.Errorf("answer %v", d)
				}
				ops := n.b.plane.ops[from:]
				if len(ops) < 3 || !strings.HasPrefix(ops[0], "add SA") || !strings.HasPrefix(ops[1], "put policy") || !strings.HasPrefix(ops[len(ops)-1], "remove SA") {
					t.Errorf("ops %v", ops)
				}
				if len(n.b.sa.children) != 1 || n.b.said(CodeChildDown) != nil {
					t.Error("the old child is still there, or its end was told as the child's")
				}
			case "first use":
				n.b.step(FirstUse{next.inID()})
				n.run(100*time.Millisecond, nil)
			case "time":
				n.run(rekeyedLimit, nil)
			}
			if next.out != installed || n.b.plane.pols[xfrm.Slot{Direction: xfrm.Out, Selector: policy.Selectors(next.local, next.remote)[0]}].Template.SPI != 0x7777 {
				t.Errorf("the new outbound SA is not in use: %v", next.out)
			}
			n.a.ask(wire.Informational, &wire.Delete{Protocol: wire.ProtoESP, SPIs: []uint32{0x7777, old.spiOut}})
			n.run(time.Second+InboundGrace, nil)
			if len(n.b.plane.sas)+len(n.b.plane.pols) != 0 {
				t.Errorf("left: %v, %v", n.b.plane.sas, n.b.plane.pols)
			}
			n.b.wants(CodeChildDown)
		})
	}
}

// TestTrap_7296_51_RekeyRefused: an unknown SPI, another protocol, an odd SPI size, a child that is being deleted.
func TestTrap_7296_51_RekeyRefused(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	spi := binary.BigEndian.AppendUint32(nil, 0xdead0001)
	answer := n.a.ask(wire.CreateChildSA, n.a.offer(0x7777, &wire.Notify{Kind: wire.NotifyRekeySA, Protocol: wire.ProtoESP, SPI: spi})...)
	if no, ok := wire.FindNotify(answer, wire.NotifyChildSANotFound); !ok || !bytes.Equal(no.SPI, spi) || no.Protocol != wire.ProtoESP {
		t.Errorf("unknown SPI: %v", answer)
	}
	own := binary.BigEndian.AppendUint32(nil, n.b.sa.children[0].spiOut)
	if answer = n.a.ask(wire.CreateChildSA, n.a.offer(0x7777, &wire.Notify{Kind: wire.NotifyRekeySA, Protocol: wire.ProtoAH, SPI: own})...); !notified(answer, wire.NotifyChildSANotFound) {
		t.Errorf("AH: %v", answer)
	}
	n.b.sa.children[0].deleting = true
	if answer = n.a.ask(wire.CreateChildSA, n.a.offer(0x7777, &wire.Notify{Kind: wire.NotifyRekeySA, Protocol: wire.ProtoESP, SPI: own})...); !notified(answer, wire.NotifyTemporaryFailure) {
		t.Errorf("deleting: %v", answer)
	}
	n.b.sa.children[0].deleting = false
	for _, bad := range []*wire.Notify{
		{Kind: wire.NotifyRekeySA, Protocol: wire.ProtoNone, SPI: own}, {Kind: wire.NotifyRekeySA, Protocol: wire.ProtoESP, SPI: own[:3]},
		{Kind: wire.NotifyRekeySA, Protocol: wire.ProtoIKE},
	} {
		n := newPair(t, setup{})
		n.up()
		if answer := n.a.ask(wire.CreateChildSA, n.a.offer(0x7777, bad)...); !notified(answer, wire.NotifyInvalidSyntax) || n.b.finish == nil {
			t.Errorf("%+v: %v", bad, answer)
		}
	}
}

// TestTrap_7296_46_RekeyNarrower: a rekeyed child is not made narrower.
func TestTrap_7296_46_RekeyNarrower(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	ps := n.a.offer(0x7777, wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoESP, n.b.sa.children[0].spiOut))
	ts, _ := wire.FindTS(ps, false)
	ts.Selectors[0].End = netip.MustParseAddr("10.1.0.255")
	if answer := n.a.ask(wire.CreateChildSA, ps...); !notified(answer, wire.NotifyTSUnacceptable) || len(n.b.sa.children) != 1 {
		t.Errorf("answer %v", answer)
	}
}

// TestTrap_6989_1_BadChildKey: in CREATE_CHILD_SA an unusable key ends the IKE SA: with INVALID_SYNTAX as responder, with a Delete as initiator.
func TestTrap_6989_1_BadChildKey(t *testing.T) {
	for _, response := range []bool{false, true} {
		n := newPair(t, two(`pfs = "ecp256"`))
		n.tamper(func(o *opened) bool {
			ke, ok := wire.Find[*wire.KE](o.ps)
			if ok && o.is(wire.CreateChildSA, response) {
				ke.Data = make([]byte, suite.PublicLen(wire.GroupECP256))
			}
			return ok && o.Exchange == wire.CreateChildSA
		})
		n.a.step(Initiate{})
		n.run(time.Minute, func() bool { return n.a.finish != nil && n.b.finish != nil })
		if n.a.finish == nil || n.b.finish == nil {
			n.dump()
			t.Fatal("not over")
		}
		if !response {
			n.b.wants(CodeProtocol, "unusable key")
		} else {
			n.a.wants(CodeProtocol, "unusable key")
			n.b.wants(CodeClosed, "closed by the peer")
		}
		n.empty()
	}
}

// TestChildrenBounded: an authenticated peer cannot make us keep any number of children.
func TestChildrenBounded(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	refused := false
	for i := range 40 {
		answer := n.a.ask(wire.CreateChildSA, n.a.offer(uint32(0x8000+i))...)
		refused = refused || notified(answer, wire.NotifyNoAdditionalSAs)
	}
	if !refused || len(n.b.sa.children) > n.b.sa.maxChildren() {
		t.Errorf("%d children", len(n.b.sa.children))
	}
}

// TestLowSPI: SPIs below 256 are reserved (RFC 4303 section 2.1).
func TestLowSPI(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	if answer := n.a.ask(wire.CreateChildSA, n.a.offer(255)...); !notified(answer, wire.NotifyNoProposalChosen) {
		t.Errorf("answer %v", answer)
	}
}

// TestLineage: one reqid for one child with one peer, another for another peer, whatever String makes of the identities.
func TestLineage(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	if got := n.b.sa.lineage(n.b.sa.children[0]); got != "site-a/lan/gw-a.example" {
		t.Errorf("lineage %q", got)
	}
	long := strings.Repeat("x", 400)
	one, other := n.b.sa.peer, n.b.sa.peer
	one.Type, other.Type = wire.IDKeyID, wire.IDKeyID
	one.Data, other.Data = long+"1", long+"2"
	if peerName(one) == peerName(other) {
		t.Error("two peers share a lineage")
	}
}

// TestLoweredBeforeUp: a child that goes while the data plane is still at work on it is refused to the peer, and nothing of it is left.
func TestLoweredBeforeUp(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{})
	n.both(2)
	n.a.step(Lower{Child: "dmz"})
	n.run(time.Second, nil)
	n.a.step(RaiseChild{Child: "dmz"})
	busy := func() bool {
		return n.b.sa.responses.busy && len(n.b.sa.children) == 2 && n.b.sa.children[1].in == installing
	}
	if !n.run(time.Second, busy) {
		t.Fatal("the data plane was never at work")
	}
	before := len(n.b.reports)
	n.b.step(Lower{Child: "dmz", Silent: true})
	n.run(time.Second, nil)
	if len(n.a.sa.children) != 1 || len(n.b.sa.children) != 1 {
		t.Errorf("a has %d children, b %d", len(n.a.sa.children), len(n.b.sa.children))
	}
	var said []string
	for _, r := range n.b.reports[before:] {
		said = append(said, r.Text)
	}
	if !slices.Contains(said, "the child was lowered before it was up") {
		t.Errorf("b says %q", said)
	}
	n.paired()
}

// TestAnswerKeysWiped: the keys of a child that is installed for the peer are held by nobody but the data plane, however it goes.
func TestAnswerKeysWiped(t *testing.T) {
	for name, fails := range map[string]error{"up": nil, "lowered": nil, "refused": errors.New("no memory"), "taken too often": xfrm.ErrExists} {
		n := newPair(t, setup{})
		n.up()
		old := n.b.sa.children[0]
		var keys *suite.ChildKeys
		done := false
		n.b.plane.fail = func(op xfrm.Op) error {
			if add, ok := op.(xfrm.AddSA); ok && add.SA.Direction == xfrm.In {
				return fails
			}
			return nil
		}
		n.b.do(func(sa *SA) {
			c := &child{config: old.config, suite: old.suite, local: old.local, remote: old.remote, spiOut: 0x4711}
			if err := sa.deriveKeys(c, alg.Secret{}, make([]byte, 32), make([]byte, 32)); err != nil {
				t.Fatal(err)
			}
			keys = c.keys
			sa.installAnswer(&childAsk{stage: "CREATE_CHILD_SA", replaces: old}, c, policy.ESPChoice{}, keyPair{}, 1, func(*child, *Refusal) { done = true })
			if name == "lowered" {
				sa.dropChild(c, "test")
			}
		})
		held := childSecrets(keys)
		n.run(time.Second, nil)
		if !done || !wiped(held...) {
			t.Errorf("%s: done %v, wiped %v", name, done, wiped(held...))
		}
	}
}
