package ike

import (
	"net/netip"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// aimed are the addresses to which a host sends ESP.
func (h *host) aimed() map[netip.Addr]bool {
	to := map[netip.Addr]bool{}
	for id, s := range h.plane.sas {
		if s.Direction == xfrm.Out {
			to[id.Dst] = true
		}
	}
	return to
}

// spoofs has a say that it is at an address, from where it receives nothing.
func (n *network) spoofs(at netip.Addr) {
	n.t.Helper()
	hdr := n.a.sa.header(wire.Informational, false, uint32(n.a.sa.requests.next))
	n.a.sa.requests.next++
	data := n.a.seal(hdr, []wire.Payload{wire.NewNotify(wire.NotifyUpdateSAAddresses, nil)})
	n.transmit(datagram{netip.AddrPortFrom(at, 4500), n.a.sa.path.Remote, data})
	n.run(5*n.delay, nil)
	if n.b.sa.path.Remote.Addr() != at {
		n.t.Fatalf("b did not take the update: %v", n.b.sa.path)
	}
}

// TestNoESPBeforeRoutability: whatever an authenticated peer does after it has said that it is at an address: no ESP goes there before it has shown
// that it receives there (RFC 4555 section 3.7).
func TestNoESPBeforeRoutability(t *testing.T) {
	for name, does := range map[string]func(n *network){
		"nothing":            func(n *network) {},
		"rekeys the child":   func(n *network) { n.a.step(Rekey{}) },
		"rekeys the IKE SA":  func(n *network) { n.a.step(Rekey{IKE: true}) },
		"rekeys both":        func(n *network) { n.a.step(Rekey{IKE: true}); n.run(time.Second, nil); n.a.step(Rekey{}) },
		"raises a new child": func(n *network) { n.a.step(RaiseChild{Child: n.a.sa.conn.Children[0].Name}) },
	} {
		t.Run(name, func(t *testing.T) {
			n := roaming(t, setup{})
			n.up()
			n.spoofs(addrC)
			does(n)
			end := n.now.Add(20 * time.Second)
			for n.now.Before(end) {
				n.run(10*time.Millisecond, nil)
				if n.b.aimed()[addrC] {
					t.Fatalf("ESP goes to %v, which has never answered", addrC)
				}
			}
		})
	}
}

// TestMappingShowsRoutability: nor does ESP from a spoofed source aim it there, for a peer that pretends to be behind a NAT, on this IKE SA or on another of
// the same peer; a NAT that has taken another address is followed as soon as the peer has answered from behind it.
func TestMappingShowsRoutability(t *testing.T) {
	other := netip.MustParseAddrPort("203.0.113.77:24500")
	for _, receives := range []bool{false, true} {
		for _, sibling := range []bool{false, true} {
			n, _ := natA(t, setup{})
			n.up()
			if nat := n.hook; receives {
				n.hook = func(d datagram) []datagram {
					if d.to.Addr() == other.Addr() {
						d.to = netip.AddrPortFrom(outer, d.to.Port())
					}
					return nat(d)
				}
			}
			if from := n.b.sa.path; sibling {
				n.b.step(Follow{From: from, To: Path{from.Local, other}})
			} else {
				n.b.step(Mapping{ID: n.b.sa.children[0].inID(), From: other})
			}
			if n.b.aimed()[other.Addr()] {
				t.Errorf("receives %v, sibling %v: ESP goes to %v, which has never answered", receives, sibling, other)
			}
			n.run(5*time.Second, nil)
			if n.b.aimed()[other.Addr()] != receives {
				t.Errorf("receives %v, sibling %v: ESP goes to %v", receives, sibling, n.b.aimed())
			}
		}
	}
}

// TestAuthFromElsewhere: where IKE_AUTH comes from has not received anything.
func TestAuthFromElsewhere(t *testing.T) {
	n := roaming(t, setup{})
	n.hook = func(d datagram) []datagram {
		if d.from.Addr() == addrA {
			if h, err := wire.ParseHeader(d.data); err == nil && h.Exchange == wire.IKEAuth {
				d.from = netip.AddrPortFrom(addrC, d.from.Port())
			}
		}
		return []datagram{d}
	}
	n.a.step(Initiate{})
	n.run(3*time.Second, nil)
	if n.b.sa == nil || n.b.sa.path.Remote.Addr() != addrC {
		t.Fatalf("no IKE SA with %v", addrC)
	}
	if n.b.aimed()[addrC] {
		t.Errorf("ESP goes to %v, which has never answered", addrC)
	}
	n.a.source = addrC
	n.run(30*time.Second, nil)
	if !n.b.aimed()[addrC] {
		t.Errorf("ESP goes to %v, and the peer receives at %v", n.b.aimed(), addrC)
	}
}

// TestWrongGuess: the peer's ESP came from an address where it does not receive, once, as from somebody on the way who changed the source of one packet. The peer still answers
// where it was, so the IKE SA goes on there, with the request that asked elsewhere; ESP never left. For a while no packet misleads again, and then a NAT that has really taken
// another address is followed.
func TestWrongGuess(t *testing.T) {
	other := netip.MustParseAddrPort("203.0.113.77:24500")
	for name, before := range map[string]func(n *network){
		"idle":    func(n *network) {},
		"a rekey": func(n *network) { n.b.step(Rekey{}) }, // its request goes astray as well
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := natA(t, setup{})
			n.up()
			right := n.b.sa.path
			spis := n.b.sa.children[0].spiIn
			before(n)
			n.b.step(Mapping{ID: n.b.sa.children[0].inID(), From: other})
			begun, to := n.now, 0
			if !n.run(time.Minute, func() bool { return n.b.sa.path == right }) {
				t.Fatalf("b sends to %v for a minute", n.b.sa.path.Remote)
			}
			n.b.tells("nobody answers at 203.0.113.77:24500: again to " + right.Remote.String())
			n.run(5*time.Second, nil)
			for _, s := range n.b.sends {
				if s.Remote == other {
					to++
				}
			}
			if n.b.aimed()[other.Addr()] || to > hopelessAfter {
				t.Errorf("ESP goes to %v, or %d messages", n.b.aimed(), to)
			}
			if name == "a rekey" && n.b.sa.children[0].spiIn == spis {
				t.Error("the rekey that was on its way has come to nothing")
			}
			n.b.step(Mapping{ID: n.b.sa.children[0].inID(), From: other})
			if n.b.sa.path != right {
				t.Error("misled again at once")
			}
			n.b.step(Rekey{IKE: true})
			n.run(5*time.Second, nil)
			n.paired()
			if n.now.Sub(begun) > time.Minute {
				t.Fatalf("it took %v", n.now.Sub(begun))
			}
			n.run(doubtPause, nil)
			nat := n.hook
			n.hook = func(d datagram) []datagram { // the peer's NAT has another address now
				if d.to.Addr() == other.Addr() {
					d.to = netip.AddrPortFrom(outer, d.to.Port())
				}
				return nat(d)
			}
			n.b.step(Mapping{ID: n.b.sa.children[0].inID(), From: other})
			n.run(5*time.Second, nil)
			if !n.b.aimed()[other.Addr()] {
				t.Errorf("not followed: ESP goes to %v", n.b.aimed())
			}
		})
	}
}
