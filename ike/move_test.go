package ike

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// TestOwnMoveIsAtOnce: when only a's own address changes its SAs do not wait for the peer's word.
func TestOwnMoveIsAtOnce(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.roam(addrC)
	n.run(3*time.Millisecond, nil)
	for id, s := range n.a.plane.sas {
		if s.Src != addrC && id.Dst != addrC {
			t.Errorf("%v is where it was", id)
		}
	}
}

// TestOutdatedAnswer: the answer to an update that went along two paths confirms neither (RFC 4555 section 3.5).
func TestOutdatedAnswer(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.rewire = func(to netip.Addr) *host {
		if to == addrB {
			return n.b
		}
		return n.a
	}
	n.roam(addrC)
	n.run(5*time.Millisecond, nil)
	n.roam(addrD)
	answered := len(n.b.sends) // the answer to the first update is the next
	n.run(25*time.Millisecond, func() bool { return len(n.b.sends) > answered })
	n.run(10*time.Millisecond, nil)
	if n.a.sa.mobility.moving == 0 {
		t.Error("the first answer confirms the second path")
	}
	n.movesTo(addrD, addrB)
}

// TestScatteredCheck: a check that went to two addresses proves neither; another one does (RFC 4555 section 3.7).
func TestScatteredCheck(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.hook = func(d datagram) []datagram {
		if d.from.Addr() == addrB && d.to.Addr() == addrC {
			if h, err := wire.ParseHeader(d.data); err == nil && !h.Response() {
				return nil // b's check of C
			}
		}
		if h, err := wire.ParseHeader(d.data); err == nil && d.from.Addr() == addrB && !h.Response() && d.to.Addr() == addrD && slices.Contains(n.b.sa.mobility.proven, addrD) {
			t.Error("D counts as proved before a check of its own")
		}
		return []datagram{d}
	}
	n.roam(addrC)
	n.run(100*time.Millisecond, nil)
	n.roam(addrD)
	n.movesTo(addrD, addrB)
	checks := map[uint32]bool{}
	for _, s := range n.b.sends {
		if h, err := wire.ParseHeader(s.Data); err == nil && !h.Response() && h.Exchange == wire.Informational {
			checks[h.MessageID] = true
		}
	}
	if len(checks) != 2 {
		t.Errorf("b asked %d times, wanted twice", len(checks))
	}
	if slices.Contains(n.b.sa.mobility.proven, addrC) || !slices.Contains(n.b.sa.mobility.proven, addrD) {
		t.Errorf("proven: %v", n.b.sa.mobility.proven)
	}
}

// TestMoveKeepsPretence: a data plane that carries ESP in UDP only does so after a move too.
func TestMoveKeepsPretence(t *testing.T) {
	udp := func() xfrm.Capabilities {
		c := kernelCaps()
		c.Name, c.PlainESP, c.MustEncap = "userspace", false, true
		return c
	}
	n := roaming(t, setup{caps: udp})
	n.up()
	n.roam(addrC)
	n.movesTo(addrC, addrB)
	for _, h := range []*host{n.a, n.b} {
		for id, s := range h.plane.sas {
			if s.Encap == nil {
				t.Errorf("%s: %v is plain", h.name, id)
			}
		}
	}
}

// TestMappingAfterRekey: what the peer sees of us is hashed with the SPIs, so that after a rekey of the IKE SA it is learnt anew and not taken for a change.
func TestMappingAfterRekey(t *testing.T) {
	n, _ := natA(t, setup{})
	n.up()
	n.a.step(Probe{})
	n.run(time.Second, nil)
	n.a.step(Rekey{IKE: true})
	n.run(time.Second, nil)
	n.a.step(Probe{})
	n.run(time.Second, nil)
	if n.a.sa.mobility.seen == nil {
		t.Error("nothing was learnt")
	}
	for _, r := range n.a.reports {
		if r.Code == CodeMoved {
			t.Errorf("said: %s", r.Text)
		}
	}
}

// TestUnacceptable: where the configuration names our address, and from what is no host's, no move is accepted, and nothing changes.
func TestUnacceptable(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	update := wire.NewNotify(wire.NotifyUpdateSAAddresses, nil)
	for _, p := range []Path{
		{netip.AddrPortFrom(addrB2, 4500), netip.AddrPortFrom(addrA, 4500)},
		{netip.AddrPortFrom(addrB, 4500), netip.MustParseAddrPort("127.0.0.1:4500")},
		{netip.AddrPortFrom(addrB, 4500), netip.MustParseAddrPort("224.0.0.1:4500")},
	} {
		before, sent := n.b.sa.path, len(n.b.sends)
		n.b.step(Packet{p, n.a.seal(n.a.sa.header(wire.Informational, false, uint32(n.a.sa.requests.next)), []wire.Payload{update})})
		n.a.sa.requests.next++
		if n.b.sa.path != before || len(n.b.sends) != sent+1 {
			t.Errorf("%v: b at %v", p, n.b.sa.path)
		}
		n.b.wants(CodePeerError, "the peer wants to move to")
	}
}

// TestResponderIsPatient: a responder whose peer may come from anywhere repeats its requests for five minutes (RFC 4555 section 3.11), another as ever.
func TestResponderIsPatient(t *testing.T) {
	for _, c := range []struct {
		s           setup
		least, most time.Duration
	}{{setup{a: roamingA, b: roamingB}, 5 * time.Minute, 11 * time.Minute}, {setup{}, time.Minute, 2 * time.Minute}} {
		n := newPair(t, c.s)
		n.up()
		n.hook = func(datagram) []datagram { return nil }
		begun := n.now
		n.b.step(Probe{})
		n.run(time.Hour, func() bool { return n.b.finish != nil })
		if took := n.now.Sub(begun); n.b.finish == nil || took < c.least || took > c.most {
			t.Errorf("given up after %v, wanted %v to %v", took, c.least, c.most)
		}
	}
}

// TestNetworkChangesBehindNAT: the network of a host changes and its address does not. It may be another network, behind another NAT, so that how the peer sees us is looked at at once.
func TestNetworkChangesBehindNAT(t *testing.T) {
	n, base := natA(t, setup{})
	n.up()
	n.a.step(Probe{}) // what the peer sees is learnt
	n.run(quietLimit, nil)
	*base = 30000
	n.a.step(PathChanged{Own: []netip.Addr{inner}})
	n.run(time.Second, nil)
	if n.b.sa.path.Remote.Port() != 34500 {
		t.Errorf("b sends to %v", n.b.sa.path.Remote)
	}
}

// TestMovesTwiceToldOnce: a moves again before it could tell the peer of the first move. The peer hears of where a is, once.
func TestMovesTwiceToldOnce(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.hook = func(datagram) []datagram { return nil }
	n.a.step(Probe{}) // what is next has to wait
	n.roam(addrC)
	n.run(100*time.Millisecond, nil)
	n.roam(addrD)
	n.run(100*time.Millisecond, nil)
	updates := map[uint32]bool{}
	n.tamper(func(o *opened) bool {
		if o.from == n.a && len(notifies(o.ps, wire.NotifyUpdateSAAddresses)) > 0 {
			updates[o.MessageID] = true
		}
		return false
	})
	n.movesTo(addrD, addrB)
	if len(updates) != 1 {
		t.Errorf("%d updates", len(updates))
	}
}

// TestHopelessAfter: the peer's other address is tried after the third sending in vain.
func TestHopelessAfter(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.b.step(PathChanged{Own: []netip.Addr{addrB, addrB2}})
	n.run(time.Second, nil)
	sent := 0
	n.hook = func(d datagram) []datagram {
		switch {
		case d.to.Addr() == addrB:
			sent++
			return nil
		case d.from.Addr() == addrB:
			return nil
		}
		return []datagram{d}
	}
	n.a.step(Probe{})
	n.movesTo(addrA, addrB2)
	if sent != hopelessAfter {
		t.Errorf("sent %d times to where nobody answers", sent)
	}
}

// TestConfirmedPathIsProven: the peer that has returned the COOKIE2 of an update receives where it is, and is not asked for that again.
func TestConfirmedPathIsProven(t *testing.T) {
	n := roaming(t, setup{})
	n.up()
	n.b.step(PathChanged{Own: []netip.Addr{addrB, addrB2}})
	n.run(time.Second, nil)
	var cookies []bool
	n.tamper(func(o *opened) bool {
		if o.from == n.a && len(notifies(o.ps, wire.NotifyUpdateSAAddresses)) > 0 {
			cookies = append(cookies, cookie2(o.ps) != nil)
		}
		return false
	})
	n.a.unroutable = []netip.Addr{addrB} // no way leads there any more
	n.roam(addrC)
	n.movesTo(addrC, addrB2)
	n.roam(addrD)
	n.movesTo(addrD, addrB2)
	if !slices.Equal(cookies, []bool{true, false}) {
		t.Errorf("updates with COOKIE2: %v", cookies)
	}
}
