package ike

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// TestTrap_7296_39_KEYMAT: from the initiator of the exchange to the responder first; each direction has keys of its own.
func TestTrap_7296_39_KEYMAT(t *testing.T) {
	for _, esp := range []string{"aes256gcm16", "aes256-sha256"} {
		s := two("")
		s.a += "esp = \"" + esp + "\"\n"
		s.b += "esp = \"" + esp + "\"\n"
		n := newPair(t, s)
		var ni, nr []byte
		n.tamper(func(o *opened) bool {
			if nonce, ok := wire.Find[*wire.Nonce](o.ps); ok && o.Exchange == wire.CreateChildSA {
				if o.Response() {
					nr = bytes.Clone(nonce.Data)
				} else {
					ni = bytes.Clone(nonce.Data)
				}
			}
			if ke, ok := wire.Find[*wire.KE](o.ps); ok && o.Exchange == wire.CreateChildSA {
				t.Errorf("a key exchange of %v: this test wants none", ke.Group)
			}
			return false
		})
		n.a.config.Snapshot.Connections[0].Children[0].PFS = nil
		n.b.config.Snapshot.Connections[0].Children[0].PFS = nil
		for _, h := range []*host{n.a, n.b} {
			for _, c := range h.config.Snapshot.Connections[0].Children {
				c.PFS = []wire.GroupID{wire.GroupNone}
			}
		}
		n.a.step(Initiate{Children: []string{"lan"}})
		n.both(1)
		n.b.step(RaiseChild{Child: "dmz"}) // the responder of the IKE SA initiates the exchange
		n.both(2)
		c := n.b.sa.children[1]
		encr, integ := policy.SuiteLens(c.suite)
		keys, err := n.b.sa.keys.Child(alg.Secret{}, ni, nr, encr, integ)
		if err != nil {
			t.Fatal(err)
		}
		out, in := n.b.plane.sas[c.outID()], n.b.plane.sas[c.inID()]
		if !out.EncrKey.Equal(keys.EncrI2R) || !out.IntegKey.Equal(keys.IntegI2R) || !in.EncrKey.Equal(keys.EncrR2I) || !in.IntegKey.Equal(keys.IntegR2I) || out.EncrKey.Equal(in.EncrKey) {
			t.Errorf("%s: keys are not those of RFC 7296 section 2.17", esp)
		}
	}
}

// TestTrap_7296_2_Flags: with good keys but a wrong flag, SPI or ID a message is not taken.
func TestTrap_7296_2_Flags(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	for name, change := range map[string]func(*wire.Header){
		"flag": func(h *wire.Header) { h.Flags ^= wire.FlagInitiator }, "SPIi": func(h *wire.Header) { h.SPIi++ }, "SPIr": func(h *wire.Header) { h.SPIr++ },
	} {
		h := n.a.sa.header(wire.Informational, false, uint32(n.a.sa.requests.next))
		change(&h)
		if answer := n.a.exchange(n.a.seal(h, nil)); answer != nil {
			t.Errorf("%s: answered", name)
		}
	}
	// Responses while a request waits: of another ID, of another exchange.
	n.hook = func(d datagram) []datagram { return nil }
	n.a.step(Lower{Child: "lan"})
	id := n.a.sa.requests.header.MessageID
	for _, h := range []wire.Header{n.b.sa.header(wire.Informational, true, id+1), n.b.sa.header(wire.Informational, true, id-1), n.b.sa.header(wire.CreateChildSA, true, id)} {
		n.a.step(Packet{Path{apA, apB}, n.b.seal(h, nil)})
		if !n.a.sa.requests.waiting() {
			t.Fatalf("a response of exchange %d and ID %d was taken", h.Exchange, h.MessageID)
		}
	}
	n.a.step(Packet{Path{apA, apB}, n.b.seal(n.b.sa.header(wire.Informational, true, id), nil)})
	if n.a.sa.requests.waiting() {
		t.Error("the right one was not taken")
	}
}

// TestCookieRepeated: the same COOKIE again (a doubled datagram) does not make another request.
func TestCookieRepeated(t *testing.T) {
	n := newPair(t, setup{})
	n.b.accept = func(Packet) bool { return false }
	n.a.step(Initiate{})
	n.run(5*time.Millisecond, nil)
	for range 3 {
		n.unprotected(0, wire.NewNotify(wire.NotifyCookie, []byte("same")))
	}
	for _, bad := range [][]byte{{}, make([]byte, 65)} {
		n.unprotected(0, wire.NewNotify(wire.NotifyCookie, bad))
	}
	n.run(100*time.Millisecond, nil)
	if len(n.inits()) != 2 {
		t.Errorf("%d requests", len(n.inits()))
	}
}

// TestTrap_7296_82_AnswerOfAnotherGroup: a key of a group that is not the chosen one, or not ours, is not used.
func TestTrap_7296_82_AnswerOfAnotherGroup(t *testing.T) {
	a := strings.Replace(gwA, "prfsha256-ecp256", "prfsha256-ecp256-ecp384", 1)
	for _, change := range []func(o *opened){
		func(o *opened) { ke, _ := wire.Find[*wire.KE](o.ps); ke.Group = wire.GroupECP384 },
		func(o *opened) {
			p, _ := wire.Find[*wire.SA](o.ps)
			for i := range p.Proposals[0].Transforms {
				if tr := &p.Proposals[0].Transforms[i]; tr.Type == wire.TransformKE {
					tr.ID = uint16(wire.GroupECP384)
				}
			}
		},
	} {
		n := newPair(t, setup{a: a})
		n.tamper(func(o *opened) bool {
			if !o.is(wire.IKESAInit, true) {
				return false
			}
			change(o)
			return true
		})
		n.a.step(Initiate{})
		n.run(500*time.Millisecond, nil)
		if n.a.said(CodeChosen) != nil || len(n.a.sends) != 1 {
			t.Error("used")
		}
	}
}

// TestLowSPIAnswered: an answer with a reserved SPI is not installed, and the peer hears of it.
func TestLowSPIAnswered(t *testing.T) {
	n := newPair(t, setup{})
	n.tamper(func(o *opened) bool {
		p, ok := wire.Find[*wire.SA](o.ps)
		if !ok || !o.is(wire.IKEAuth, true) {
			return false
		}
		p.Proposals[0].SPI = []byte{0, 0, 0, 255}
		return true
	})
	n.a.step(Initiate{})
	n.run(5*time.Second, nil)
	n.a.wants(CodeNoProposal, "255")
	n.empty()
}

// TestDrawSPI: 0 to 255 are reserved, and one in use is not drawn again.
func TestDrawSPI(t *testing.T) {
	sa := NewResponder(Config{Rand: bytes.NewReader([]byte{0, 0, 0, 0, 0, 0, 0, 255, 0, 0, 1, 0, 0, 0, 1, 1})})
	sa.children = []*child{{spiIn: 256}}
	if got := sa.drawSPI(); got != 257 {
		t.Errorf("SPI %d", got)
	}
}

// TestNoNATT: behind a NAT with a data plane that cannot carry ESP in UDP.
func TestNoNATT(t *testing.T) {
	n, _ := natA(t, setup{caps: kernelCaps, capsB: func() xfrm.Capabilities { c := kernelCaps(); c.NATT = false; return c }})
	n.a.step(Initiate{})
	n.run(5*time.Second, nil)
	n.b.wants(CodeDataplane, "the kernel data plane cannot carry ESP in UDP")
	n.a.wants(CodeNoProposal)
	n.empty()
}

// TestMovedWhileInstalling: the peer's mapping changes between the batch and its answer.
func TestMovedWhileInstalling(t *testing.T) {
	n, base := natA(t, setup{})
	n.a.config.Snapshot.Connections[0].Children[0].PFS = nil
	n.up()
	n.a.step(Lower{Child: "lan"})
	n.run(time.Second, nil)
	answerTo := n.b.sa.path.Remote
	n.a.step(RaiseChild{Child: "lan"})
	n.run(time.Minute, func() bool { return len(n.b.plane.sas) == 2 })
	c := n.b.sa.children[0]
	if c.in != installing {
		t.Fatalf("in %v", c.in)
	}
	*base = 30000
	n.b.step(Mapping{ID: c.inID(), From: netip.AddrPortFrom(outer, 34500)})
	n.run(5*time.Millisecond, nil)
	for _, s := range n.b.plane.sas {
		if s.Encap.SrcPort != 34500 && s.Encap.DstPort != 34500 {
			t.Errorf("encapsulation %+v, was to %v", *s.Encap, answerTo)
		}
	}
}

// TestMappingWithoutNAT: nobody moves.
func TestMappingWithoutNAT(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	before := n.b.sa.path.Remote
	n.b.step(Mapping{ID: n.b.sa.children[0].inID(), From: netip.MustParseAddrPort("203.0.113.66:500")})
	if n.b.sa.path.Remote != before {
		t.Error("moved")
	}
}

// TestLowerWithQueue: what waits for the window is not started any more once the IKE SA closes (trap 92).
func TestLowerWithQueue(t *testing.T) {
	n := newPair(t, two(`pfs = "no"`))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.both(1)
	n.hook = func(d datagram) []datagram {
		n.after(500*time.Millisecond, func() { n.deliver(d) })
		return nil
	}
	n.a.step(Lower{Child: "lan"}) // occupies the window
	n.a.step(RaiseChild{Child: "dmz"})
	n.a.step(Lower{})
	n.run(20*time.Second, func() bool { return n.a.finish != nil })
	for _, s := range n.a.sends {
		if h, _ := wire.ParseHeader(s.Data); h.Exchange == wire.CreateChildSA {
			t.Error("a CREATE_CHILD_SA was sent on a closing IKE SA")
		}
	}
	n.run(10*time.Second, nil)
	n.empty()
}
