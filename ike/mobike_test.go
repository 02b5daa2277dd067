package ike

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

var (
	addrC    = netip.MustParseAddr("203.0.113.50") // where a goes
	addrD    = netip.MustParseAddr("203.0.113.60") // and next
	addrB2   = netip.MustParseAddr("198.51.100.8") // b's other address
	roamingA = strings.Replace(gwA, `address = "192.0.2.1",  `, "", 1)
	roamingB = strings.NewReplacer("192.0.2.1", "%any", `address = "198.51.100.7", `, "").Replace(gwB)
)

// roaming is a pair whose initiator has no address of its own in the configuration. Whatever goes to an address of either arrives, at the host that has it.
func roaming(t *testing.T, s setup) *network {
	t.Helper()
	if s.a == "" {
		s.a = roamingA
	}
	if s.b == "" {
		s.b = roamingB
	}
	n := newPair(t, s)
	n.a.source = addrA
	n.rewire = func(to netip.Addr) *host {
		switch to {
		case n.a.source:
			return n.a
		case addrB, addrB2:
			return n.b
		}
		return nil
	}
	return n
}

// tells: one of the lines about moves has these words.
func (h *host) tells(words string) {
	h.t.Helper()
	var all []string
	for _, r := range h.reports {
		if r.Code == CodeMoved || r.Code == CodeReauth {
			all = append(all, r.Text)
		}
	}
	if text := strings.Join(all, "\n"); !strings.Contains(text, words) {
		h.t.Errorf("%s does not say %q, but:\n%s", h.name, words, text)
	}
}

// roam gives a another address.
func (n *network) roam(to netip.Addr) {
	n.a.source = to
	n.a.step(PathChanged{Own: []netip.Addr{to}})
}

// at reports whether all SAs and policies of both hosts lie between two addresses.
func (n *network) between(a, b netip.Addr) bool {
	for _, h := range []*host{n.a, n.b} {
		local, remote := a, b
		if h == n.b {
			local, remote = b, a
		}
		for id, s := range h.plane.sas {
			if s.Direction == xfrm.Out && (s.Src != local || id.Dst != remote) || s.Direction == xfrm.In && (s.Src != remote || id.Dst != local) {
				return false
			}
		}
		for slot, p := range h.plane.pols {
			if src, dst := p.Template.Src, p.Template.Dst; slot.Direction == xfrm.Out && (src != local || dst != remote) || slot.Direction != xfrm.Out && (src != remote || dst != local) {
				return false
			}
		}
	}
	return true
}

// moved waits for the end of a move.
func (n *network) movesTo(a, b netip.Addr) {
	n.t.Helper()
	if !n.run(20*time.Second, func() bool {
		return n.between(a, b) && n.a.sa.mobility.moving == 0 && n.b.sa.mobility.moving == 0 && n.a.sa.requests.current == nil && n.b.sa.requests.current == nil
	}) {
		n.dump()
		n.t.Fatalf("not at %v and %v: a %v, b %v", a, b, n.a.sa.path, n.b.sa.path)
	}
	n.paired()
}

// TestTrap_4555_1_Supported: both say MOBIKE_SUPPORTED in IKE_AUTH, whatever its data, and nobody says it first who is not asked.
func TestTrap_4555_1_Supported(t *testing.T) {
	for _, c := range []struct{ a, b, both bool }{{true, true, true}, {true, false, false}, {false, true, false}, {false, false, false}} {
		without := func(text string, does bool) string {
			if does {
				return text
			}
			return strings.Replace(text, "psk ", "mobike = false\npsk ", 1)
		}
		n := newPair(t, setup{a: without(gwA, c.a), b: without(gwB, c.b)})
		said := map[bool]bool{}
		n.tamper(func(o *opened) bool {
			if o.Exchange == wire.IKEAuth {
				for _, k := range notifies(o.ps, wire.NotifyMOBIKESupported) {
					said[o.Response()] = true
					k.Data = []byte("whatever")
					return true
				}
			}
			return false
		})
		n.up()
		if said[false] != c.a || said[true] != c.both || n.a.sa.mobility.agreed != c.both || n.b.sa.mobility.agreed != c.both {
			t.Errorf("%+v: said %v, agreed %v and %v", c, said, n.a.sa.mobility.agreed, n.b.sa.mobility.agreed)
		}
	}
}

// TestTrap_4555_3_Port4500: with MOBIKE and NAT traversal IKE_AUTH goes from 4500 to 4500, without a NAT; ESP stays plain.
func TestTrap_4555_3_Port4500(t *testing.T) {
	for _, still := range []bool{false, true} {
		n := newPair(t, setup{still: still})
		n.up()
		port := uint16(4500)
		if still {
			port = 500
		}
		for _, h := range []*host{n.a, n.b} {
			if p := h.sa.path; p.Local.Port() != port || p.Remote.Port() != port {
				t.Errorf("MOBIKE %v: %s at %v", !still, h.name, p)
			}
			for _, s := range h.plane.sas {
				if s.Encap != nil {
					t.Errorf("%s: ESP in UDP", h.name)
				}
			}
		}
	}
}

// TestTrap_4555_4_Moves: a moves, its SAs at once, b's after it has seen that a receives; a second change while the first is on its way counts alone.
func TestTrap_4555_4_Moves(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	spis := []uint32{n.a.sa.children[0].spiIn, n.a.sa.children[0].spiOut}
	n.roam(addrC)
	n.movesTo(addrC, addrB)
	n.a.tells("moving from 192.0.2.1 to 203.0.113.50: the addresses or routes of this host changed")
	n.a.tells("moved in 20 ms: now from 203.0.113.50 to 198.51.100.7:4500; no NAT on the path")
	n.b.tells("the peer moves from 192.0.2.1:4500 to 203.0.113.50:4500; no NAT on the path")
	n.b.tells("the peer receives at 203.0.113.50:4500: the children follow after 20 ms")
	n.roam(addrD)
	n.run(2*time.Millisecond, nil)
	n.roam(addrA)
	n.movesTo(addrA, addrB)
	if c := n.a.sa.children[0]; c.spiIn != spis[0] || c.spiOut != spis[1] || len(n.a.sa.children) != 1 {
		t.Error("it is another child")
	}
	n.b.step(Lower{Why: "over"})
	n.run(10*time.Second, nil)
	n.empty()
}

// TestTrap_4555_7_SameRequest: a request on its way is repeated from the new address, octet for octet; its child comes up there.
func TestTrap_4555_7_SameRequest(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.hook = func(d datagram) []datagram {
		if d.from.Addr() == addrA {
			return nil
		}
		return []datagram{d}
	}
	n.a.step(Rekey{})
	n.run(time.Second, nil)
	first := n.a.sends[len(n.a.sends)-1]
	n.roam(addrC)
	n.run(2*time.Millisecond, nil)
	again := n.a.sends[len(n.a.sends)-1]
	if again.Local.Addr() != addrC || !bytes.Equal(first.Data, again.Data) {
		t.Errorf("sent from %v, the same octets %v", again.Local, bytes.Equal(first.Data, again.Data))
	}
	n.run(10*time.Second, nil)
	if !n.between(addrC, addrB) || n.a.children() != 1 {
		t.Error("the rekeyed child is not there")
	}
	n.paired()
}

// TestTrap_4555_6_Cookie2: copied as it is; wrong or missing in an answer, the IKE SA ends.
func TestTrap_4555_6_Cookie2(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	for _, size := range []int{8, 64} {
		want := bytes.Repeat([]byte{7}, size)
		answer := n.a.ask(wire.Informational, wire.NewNotify(wire.NotifyCookie2, want))
		if got := cookie2(answer); !bytes.Equal(got, want) {
			t.Errorf("%d octets: %x", size, got)
		}
	}
	for _, wrong := range []func([]wire.Payload) []wire.Payload{
		func(ps []wire.Payload) []wire.Payload { return nil },
		func(ps []wire.Payload) []wire.Payload {
			return []wire.Payload{wire.NewNotify(wire.NotifyCookie2, []byte("0123456789abcdef"))}
		},
	} {
		n := roaming(t, setup{})
		n.up()
		n.tamper(func(o *opened) bool {
			if o.is(wire.Informational, true) && len(notifies(o.ps, wire.NotifyCookie2)) > 0 {
				o.ps = wrong(o.ps)
				return true
			}
			return false
		})
		n.roam(addrC)
		n.run(10*time.Second, nil)
		if n.b.finish == nil {
			t.Error("the IKE SA stays")
		}
		n.b.wants(CodeProtocol, "COOKIE2")
	}
}

// TestTrap_4555_5_NoImplicitMove: with MOBIKE an IKE message from elsewhere moves nothing, even behind a NAT; ESP does.
func TestTrap_4555_5_NoImplicitMove(t *testing.T) {
	n, base := natA(t, setup{})
	n.up()
	old := n.b.sa.path
	*base = 30000
	if n.a.ask(wire.Informational) == nil || n.b.sa.path != old {
		t.Errorf("path %v", n.b.sa.path)
	}
	n.b.step(Mapping{ID: n.b.sa.children[0].inID(), From: netip.AddrPortFrom(outer, 34500)})
	if n.b.sa.path.Remote.Port() != 34500 {
		t.Errorf("ESP does not move it: %v", n.b.sa.path)
	}
}

// TestTrap_4555_9_Mapping: behind a NAT a look whether the peer lives shows that the mapping is another, and the peer is told.
func TestTrap_4555_9_Mapping(t *testing.T) {
	n, base := natA(t, setup{})
	n.up()
	n.a.step(Probe{}) // what the peer sees is learnt
	n.run(time.Second, nil)
	if n.a.sa.mobility.seen == nil {
		t.Fatal("nothing was learnt")
	}
	*base = 30000
	n.a.step(Probe{})
	n.run(time.Second, nil)
	n.a.tells("the NAT has given us another address or port")
	if n.b.sa.path.Remote.Port() != 34500 {
		t.Fatalf("b sends to %v", n.b.sa.path.Remote)
	}
	for _, s := range n.b.plane.sas {
		if s.Encap.SrcPort != 34500 && s.Encap.DstPort != 34500 {
			t.Errorf("encapsulation %+v", *s.Encap)
		}
	}
	sent := len(n.a.sends)
	n.a.step(Probe{})
	n.run(time.Second, nil)
	if len(n.a.sends) != sent+1 {
		t.Error("told again without need")
	}
}

// TestMappingUnderAnswers: answers to requests of our own show nothing of the mapping at which the peer sends to us; where nothing else comes, it is looked after all the same.
func TestMappingUnderAnswers(t *testing.T) {
	n, base := natA(t, setup{})
	n.up()
	*base = 30000
	for end := n.now.Add(2 * time.Minute); n.now < end; {
		n.run(12*time.Second, nil)
		n.a.step(Rekey{Child: "lan"})
	}
	if n.b.sa.path.Remote.Port() != 34500 {
		t.Errorf("b sends to %v", n.b.sa.path.Remote)
	}
}

// TestTrap_4555_8_Addresses: the whole list each time; none is none.
func TestTrap_4555_8_Addresses(t *testing.T) {
	n := roaming(t, setup{})
	n.a.sa.config.Addresses = []netip.Addr{addrA, addrC, netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("fe80::1")}
	n.up()
	if want := []netip.Addr{addrA, addrC, netip.MustParseAddr("2001:db8::7")}; !slices.Equal(n.b.sa.mobility.peer, want) {
		t.Errorf("b knows %v", n.b.sa.mobility.peer)
	}
	n.a.step(PathChanged{Own: []netip.Addr{addrA, addrD}})
	n.run(time.Second, nil)
	if want := []netip.Addr{addrA, addrD}; !slices.Equal(n.b.sa.mobility.peer, want) {
		t.Errorf("b knows %v", n.b.sa.mobility.peer)
	}
	n.a.step(PathChanged{Own: []netip.Addr{addrA}})
	n.run(time.Second, nil)
	if want := []netip.Addr{addrA}; !slices.Equal(n.b.sa.mobility.peer, want) {
		t.Errorf("b knows %v", n.b.sa.mobility.peer)
	}
	many := make([]wire.Payload, 30)
	for i := range many {
		many[i] = wire.NewNotify(wire.NotifyAdditionalIP4Address, []byte{9, 9, 9, byte(i)})
	}
	many = append(many, wire.NewNotify(wire.NotifyAdditionalIP4Address, []byte{9, 9}), wire.NewNotify(wire.NotifyAdditionalIP6Address, nil))
	if n.a.ask(wire.Informational, many...); len(n.b.sa.mobility.peer) != maxAddresses {
		t.Errorf("b keeps %d", len(n.b.sa.mobility.peer))
	}
}

// TestTrap_4555_2_WhoMoves: only who initiated the first IKE SA, also after the other has rekeyed it.
func TestTrap_4555_2_WhoMoves(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.b.step(Rekey{IKE: true})
	n.run(time.Second, nil)
	if n.a.sa.initiator || !n.b.sa.initiator {
		t.Fatal("b did not rekey the IKE SA")
	}
	before := n.a.sa.path
	answer := n.b.ask(wire.Informational, wire.NewNotify(wire.NotifyUpdateSAAddresses, nil))
	if len(notifies(answer, wire.NotifyUnacceptableAddresses)) != 1 || n.a.sa.path != before {
		t.Errorf("answer %v", answer)
	}
	n.roam(addrC)
	n.movesTo(addrC, addrB)
}

// TestTrap_4555_10_NoNATs: NO_NATS_ALLOWED that contradicts the header is told, and nothing changes.
func TestTrap_4555_10_NoNATs(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	update := wire.NewNotify(wire.NotifyUpdateSAAddresses, nil)
	right := append(append(addrA.AsSlice(), addrB.AsSlice()...), 0x11, 0x94, 0x11, 0x94)
	if answer := n.a.ask(wire.Informational, update, wire.NewNotify(wire.NotifyNoNATsAllowed, right)); errorNotify(answer) != nil {
		t.Errorf("answer %v", answer)
	}
	for _, wrong := range [][]byte{nil, right[:11], append(append(addrC.AsSlice(), addrB.AsSlice()...), 0x11, 0x94, 0x11, 0x94)} {
		answer := n.a.ask(wire.Informational, update, wire.NewNotify(wire.NotifyNoNATsAllowed, wrong), wire.NewNotify(wire.NotifyAdditionalIP4Address, []byte{9, 9, 9, 9}))
		if len(notifies(answer, wire.NotifyUnexpectedNATDetected)) != 1 || len(n.b.sa.mobility.peer) != 1 {
			t.Errorf("%x: answer %v, knows %v", wrong, answer, n.b.sa.mobility.peer)
		}
	}
}

// TestTrap_4555_11_StrayESP: ESP that comes from where the peer is not moves nothing in the liveness of the peer: it is asked as if nothing had come (section 3.12). ESP from the right
// address is a sign of life.
func TestTrap_4555_11_StrayESP(t *testing.T) {
	for _, stray := range []bool{false, true} {
		n, _ := natA(t, setup{})
		n.up()
		n.b.sa.mobility.doubt = n.now.Add(time.Hour) // what comes from elsewhere is not followed now
		n.b.usage = UsageDone{Inbound: 1}
		n.hook = func(datagram) []datagram { return nil }
		for end := n.now.Add(20 * time.Minute); n.now < end && n.b.finish == nil; n.run(5*time.Second, nil) {
			if stray {
				n.b.step(Mapping{ID: n.b.sa.children[0].inID(), From: netip.MustParseAddrPort("203.0.113.77:24500")})
			}
		}
		if (n.b.finish != nil) != stray {
			t.Errorf("stray ESP %v: finish %v", stray, n.b.finish)
		}
	}
}

// TestTrap_4555_12_ToldAddresses: b's own address is gone, and from its other no way leads to a's, but one to the further address that a has told. b asks there whether a receives
// before ESP follows, and a follows what it is told (section 3.6).
func TestTrap_4555_12_ToldAddresses(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.a.step(PathChanged{Own: []netip.Addr{addrA, addrC}})
	n.run(time.Second, nil)
	if !slices.Contains(n.b.sa.mobility.peer, addrC) {
		t.Fatalf("b knows %v", n.b.sa.mobility.peer)
	}
	n.rewire = func(to netip.Addr) *host {
		switch to {
		case addrC:
			return n.a
		case addrB2:
			return n.b
		}
		return nil
	}
	n.b.source, n.b.unroutable = addrB2, []netip.Addr{addrA}
	n.b.step(PathChanged{Own: []netip.Addr{addrB2}})
	if n.b.aimed()[addrC] {
		t.Error("ESP goes to an address that was only told")
	}
	n.a.source = addrC // from where it reaches b's other address
	n.movesTo(addrC, addrB2)
	n.b.tells("from where no way leads to 192.0.2.1, but to 203.0.113.50")
}
