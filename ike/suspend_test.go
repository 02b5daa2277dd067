package ike

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// sleep lets time pass for b alone: a's host is suspended, and what is sent to it is lost.
func (n *network) sleep(d time.Duration) {
	n.t.Helper()
	a, rewire := n.a.sa, n.rewire
	n.a.sa = nil
	n.rewire = func(to netip.Addr) *host {
		if h := rewire(to); h != n.a {
			return h
		}
		return nil
	}
	n.run(d, nil)
	n.a.sa, n.rewire = a, rewire
}

// TestSuspend: a laptop sleeps for ten minutes and wakes in another network. What was due meanwhile does not end the tunnel before the path was tried.
func TestSuspend(t *testing.T) {
	for name, before := range map[string]func(n *network){
		"idle":    func(n *network) {},
		"a rekey": func(n *network) { n.a.step(Rekey{}); n.run(time.Second, nil) },
		"the last repeat": func(n *network) {
			n.a.step(Rekey{IKE: true})
			n.run(60*time.Second, nil)
		},
		"without an address": func(n *network) {
			n.roam(netip.IPv4Unspecified())
			n.run(time.Second, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := roaming(t, setup{})
			n.up()
			n.b.usage = UsageDone{Inbound: 1} // b stays
			n.hook = func(datagram) []datagram { return nil }
			before(n)
			n.sleep(10 * time.Minute)
			n.a.turn(n.a.sa, Wake{})
			n.run(15*time.Second, nil) // no network yet
			n.hook = nil
			n.roam(addrC)
			n.run(20*time.Second, nil)
			if n.a.finish != nil || n.b.finish != nil || !n.between(addrC, addrB) {
				n.dump()
				t.Fatal("the tunnel is not there")
			}
			n.paired()
		})
	}
}

// TestSuspendTooLong: meanwhile b has given a up. Its word that it knows no such IKE SA is not proved, so that a asks for a new one beside the old, at once and
// once.
func TestSuspendTooLong(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.sleep(10 * time.Minute)
	if n.b.finish == nil {
		t.Fatal("b waits for ever")
	}
	woken := n.now
	n.a.turn(n.a.sa, Wake{})
	n.roam(addrC)
	n.hook = func(d datagram) []datagram { // as a shard answers
		if h, err := wire.ParseHeader(d.data); err == nil && d.to.Addr() == addrB {
			h.Flags |= wire.FlagResponse
			h.Flags ^= wire.FlagInitiator
			m := wire.Message{Header: h, Payloads: []wire.Payload{wire.NewNotify(wire.NotifyInvalidIKESPI, nil)}}
			data, _ := m.Encode()
			return []datagram{{d.to, d.from, data}}
		}
		return []datagram{d}
	}
	n.run(5*time.Second, func() bool { return len(n.a.reauth) > 0 })
	if took := n.now.Sub(woken); len(n.a.reauth) != 1 || took > time.Second {
		t.Errorf("a asks %d times for a new IKE SA, %v after it woke", len(n.a.reauth), took)
	}
	n.run(10*time.Second, nil)
	if len(n.a.reauth) != 1 || n.a.finish != nil {
		t.Errorf("asked %d times; finish %v", len(n.a.reauth), n.a.finish)
	}
}

// TestFirstQuestionNotSent: the host that wakes has no route for a moment. What it could not send was not asked in vain: b, which still has the IKE SA, is heard before a asks for another.
func TestFirstQuestionNotSent(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.b.usage = UsageDone{Inbound: 1} // b stays
	n.sleep(10 * time.Minute)
	refused := 0
	n.hook = func(d datagram) []datagram {
		if d.from.Addr() == addrA && refused == 0 {
			refused++
			n.a.step(SendFailed{Path{d.from, d.to}, SendNoRoute, errors.New("network is unreachable")})
			return nil
		}
		return []datagram{d}
	}
	n.a.turn(n.a.sa, Wake{})
	n.run(30*time.Second, nil)
	if refused != 1 || len(n.a.reauth) != 0 || n.a.sa.lastHeard <= n.a.sa.woke {
		n.dump()
		t.Errorf("%d not sent, asked for %d new IKE SAs, b heard %v, awake since %v", refused, len(n.a.reauth), n.a.sa.lastHeard, n.a.sa.woke)
	}
}

// TestDisownedWithoutMove: the same word without a move or a sleep is a hint like any other, and asks for nothing.
func TestDisownedWithoutMove(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.run(time.Minute, nil)
	n.a.step(Probe{})
	h := n.a.sa.header(wire.Informational, true, uint32(n.a.sa.requests.next))
	h.Flags ^= wire.FlagInitiator
	data, _ := (&wire.Message{Header: h, Payloads: []wire.Payload{wire.NewNotify(wire.NotifyInvalidIKESPI, nil)}}).Encode()
	n.a.step(Packet{Path{n.a.sa.path.Local, n.a.sa.path.Remote}, data})
	if len(n.a.reauth) != 0 {
		t.Error("it asks for a new IKE SA")
	}
}

// TestNoAddress: without an address to send from a waits, longer than for a peer that is silent, and not for ever.
func TestNoAddress(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.b.usage = UsageDone{Inbound: 1}
	n.roam(netip.IPv4Unspecified())
	n.run(time.Second, nil)
	n.a.tells("this host has no address from which to reach 198.51.100.7: no route; waiting for one, for 1800 s at most")
	n.run(20*time.Minute, nil)
	if n.a.finish != nil {
		t.Fatalf("given up: %v", n.a.finish)
	}
	n.run(20*time.Minute, nil)
	if n.a.finish == nil || !n.a.finish.Retry {
		t.Errorf("after 40 min: %v", n.a.finish)
	}
}

// TestDeadPath: the address in use is silent, and the peer has told of another, which is tried by itself.
func TestDeadPath(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.b.step(PathChanged{Own: []netip.Addr{addrB, addrB2}})
	n.run(time.Second, nil)
	n.hook = func(d datagram) []datagram {
		if d.to.Addr() == addrB || d.from.Addr() == addrB {
			return nil
		}
		return []datagram{d}
	}
	n.run(90*time.Second, func() bool { return n.between(addrA, addrB2) && n.a.sa.mobility.moving == 0 })
	if n.a.finish != nil || !n.between(addrA, addrB2) {
		n.dump()
		t.Fatalf("a at %v", n.a.sa.path)
	}
	n.a.tells("moving from 198.51.100.7:4500 to 198.51.100.8:4500: no answer from 198.51.100.7")
	n.paired()
	n.hook = func(datagram) []datagram { return nil } // now nothing passes: it ends all the same
	n.run(10*time.Minute, nil)
	if n.a.finish == nil || n.a.finish.Code != CodeNoAnswer {
		t.Errorf("finish %v", n.a.finish)
	}
}

// TestResponderMoves: the responder's own address is gone, the one case in which it moves by itself; the initiator follows what it is told.
func TestResponderMoves(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.b.source = addrB2
	n.b.step(PathChanged{Own: []netip.Addr{addrB2}})
	n.run(10*time.Second, nil)
	if !n.between(addrA, addrB2) || n.a.sa.path.Remote.Addr() != addrB2 {
		n.dump()
		t.Fatalf("a at %v, b at %v", n.a.sa.path, n.b.sa.path)
	}
	n.paired()
}

// TestWithoutMOBIKE: a host whose address changes asks for a new IKE SA where the peer does no MOBIKE.
func TestWithoutMOBIKE(t *testing.T) {
	n := roaming(t, setup{still: true})
	n.up()
	n.roam(addrC)
	n.run(time.Second, nil)
	if len(n.a.reauth) != 1 {
		t.Errorf("asked %d times", len(n.a.reauth))
	}
	n.a.tells("the addresses or routes of this host changed, from 192.0.2.1 to 203.0.113.50, and the peer does not do MOBIKE")
}

// TestIntoNAT: a goes behind a NAT and comes out again: ESP goes into UDP and comes out of it, with the same child.
func TestIntoNAT(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.rewire = func(to netip.Addr) *host {
		if to == addrB {
			return n.b
		}
		return n.a
	}
	n.hook = func(d datagram) []datagram {
		if d.from.Addr() == inner {
			d.from = netip.AddrPortFrom(outer, d.from.Port()+20000)
		} else if d.to.Addr() == outer {
			d.to = netip.AddrPortFrom(inner, d.to.Port()-20000)
		}
		return []datagram{d}
	}
	udp := func(want bool) {
		t.Helper()
		for _, h := range []*host{n.a, n.b} {
			for id, s := range h.plane.sas {
				if (s.Encap != nil) != want {
					t.Errorf("%s: %v in UDP: %v", h.name, id, s.Encap)
				}
			}
		}
		n.paired()
	}
	n.roam(inner)
	n.run(5*time.Second, nil)
	n.a.tells("we are behind NAT")
	udp(true)
	for _, s := range n.b.plane.sas {
		if s.Encap.SrcPort != 24500 && s.Encap.DstPort != 24500 {
			t.Errorf("b: %+v", s.Encap)
		}
	}
	n.roam(addrC)
	n.run(5*time.Second, nil)
	udp(false)
	if !n.between(addrC, addrB) {
		t.Error("not there")
	}
}

// TestRefusedMove: the peer does not accept the new path; a asks for a new IKE SA from there.
func TestRefusedMove(t *testing.T) {
	for kind, asked := range map[wire.NotifyType]int{wire.NotifyUnacceptableAddresses: 1, wire.NotifyUnexpectedNATDetected: 1 + maxUnexpected} {
		n := roaming(t, setup{})
		n.up()
		updates := 0
		n.tamper(func(o *opened) bool {
			if o.is(wire.Informational, false) && len(notifies(o.ps, wire.NotifyUpdateSAAddresses)) > 0 {
				updates++
			}
			if o.is(wire.Informational, true) && len(notifies(o.ps, wire.NotifyNATDetectionSourceIP)) > 0 {
				o.ps = []wire.Payload{wire.NewNotify(kind, nil)}
				return true
			}
			return false
		})
		n.roam(addrC)
		n.run(10*time.Second, nil)
		if updates != asked || len(n.a.reauth) != 1 {
			t.Errorf("%v: %d updates, asked %d times for a new IKE SA", kind, updates, len(n.a.reauth))
		}
	}
}

// TestOutdatedUpdate: an UPDATE_SA_ADDRESSES that comes again, or out of its turn, moves nothing.
func TestOutdatedUpdate(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.roam(addrC)
	n.movesTo(addrC, addrB)
	var update []byte
	for _, s := range n.a.sends {
		if s.Local.Addr() == addrC {
			update = s.Data
			break
		}
	}
	for range 2 {
		n.b.step(Packet{Path{n.b.sa.path.Local, netip.MustParseAddrPort("203.0.113.66:4500")}, update})
		if n.b.sa.path.Remote.Addr() != addrC {
			t.Fatalf("b at %v", n.b.sa.path)
		}
		n.a.ask(wire.Informational)
	}
}

// TestVictim: an authenticated peer that claims an address of somebody else gets no ESP sent there, and few messages.
func TestVictim(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	victim := netip.MustParseAddr("203.0.113.99")
	before := len(n.b.sends)
	n.a.source = victim // a lies: it does not receive there
	n.rewire = func(to netip.Addr) *host {
		if to == addrB {
			return n.b
		}
		return nil
	}
	n.a.step(PathChanged{Own: []netip.Addr{victim}})
	n.run(2*time.Minute, nil)
	sent := 0
	for _, s := range n.b.sends[before:] {
		if s.Remote.Addr() == victim {
			sent++
		}
	}
	for id, s := range n.b.plane.sas {
		if id.Dst == victim || s.Src == victim {
			t.Errorf("ESP goes to the victim: %v", id)
		}
	}
	if sent > 30 {
		t.Errorf("%d messages to the victim", sent)
	}
	t.Logf("%d messages in two minutes", sent)
}

// TestDeadPeerOfManyAddresses: a peer that told addresses to which no way leads, of another family and behind the tunnel, is dead: it is given up as soon as
// one without them, and IKE goes to none of them.
func TestDeadPeerOfManyAddresses(t *testing.T) {
	v6 := netip.MustParseAddr("2001:db8::7")
	for _, c := range []struct {
		name  string
		setup setup
	}{{"our address is configured", setup{}}, {"our address is open", setup{a: strings.Replace(gwA, `address = "192.0.2.1"`, `address = "%any"`, 1)}}} {
		t.Run(c.name, func(t *testing.T) {
			var took []time.Duration
			for _, told := range [][]netip.Addr{nil, {addrB, v6, netip.MustParseAddr("10.2.0.1"), addrB2}} {
				n := newPair(t, c.setup)
				n.up()
				n.a.sa.mobility.peer, n.a.unroutable = told, []netip.Addr{v6, addrB2}
				n.hook = func(d datagram) []datagram {
					if to := d.to.Addr(); to != addrA && to != addrB {
						t.Errorf("IKE goes to %v", to)
					}
					return nil
				}
				begun := n.now
				n.run(time.Hour, func() bool { return n.a.finish != nil })
				if n.a.finish == nil || n.a.finish.Code != CodeNoAnswer {
					n.dump()
					t.Fatalf("finish %v", n.a.finish)
				}
				for _, r := range n.a.reports {
					if strings.Contains(r.Text, "no address from which") {
						t.Errorf("told: %s", r.Text)
					}
				}
				took = append(took, n.now.Sub(begun))
			}
			if took[1] > took[0] {
				t.Errorf("given up after %v, without further addresses after %v", took[1], took[0])
			}
		})
	}
}

// TestSuspendSilentPeer: meanwhile b has given a up, or died, and says nothing to what it does not know. It is asked at once, and when nothing comes for a few seconds a asks for
// an IKE SA beside this one, once; so it is after a time without any network.
func TestSuspendSilentPeer(t *testing.T) {
	for name, away := range map[string]func(n *network){
		"asleep":  func(n *network) { n.sleep(10 * time.Minute) },
		"cut off": func(n *network) { n.roam(netip.IPv4Unspecified()); n.run(10*time.Minute, nil) },
	} {
		for _, to := range []netip.Addr{addrA, addrC} {
			n := roaming(t, setup{})
			n.up()
			n.hook = func(datagram) []datagram { return nil }
			away(n)
			n.a.reauth = nil
			woken, sends := n.now, len(n.a.sends)
			n.a.turn(n.a.sa, Wake{})
			n.roam(to)
			n.run(time.Second, nil)
			if len(n.a.sends) == sends {
				t.Errorf("%s, back at %v: nothing is asked for a second", name, to)
			}
			n.run(time.Minute, func() bool { return len(n.a.reauth) > 0 })
			if took := n.now.Sub(woken); len(n.a.reauth) != 1 || took > 6*time.Second {
				t.Errorf("%s, back at %v: a asks %d times for a new IKE SA, %v after it is back", name, to, len(n.a.reauth), took)
			}
			n.run(20*time.Second, nil)
			if len(n.a.reauth) != 1 || n.a.finish != nil {
				t.Errorf("%s, back at %v: asked %d times; finish %v", name, to, len(n.a.reauth), n.a.finish)
			}
		}
	}
}

// TestSleptBeforeAnythingWasDue: the network is back before the timer of the host has rung, and the peer says that it knows no such IKE SA.
func TestSleptBeforeAnythingWasDue(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.sleep(10 * time.Minute)
	n.a.step(PathChanged{Own: []netip.Addr{addrA}})
	if n.a.sa.woke != n.now {
		t.Errorf("woke at %v, now %v", n.a.sa.woke, n.now)
	}
}
