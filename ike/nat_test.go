package ike

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

var (
	inner = netip.MustParseAddr("172.16.0.5")  // a's own address behind the NAT
	outer = netip.MustParseAddr("203.0.113.9") // what b sees
)

// natA is a pair whose initiator is behind a NAT that maps its ports to base + port.
func natA(t *testing.T, s setup) (*network, *uint16) {
	base := uint16(20000)
	if s.a == "" {
		s.a = strings.Replace(gwA, "192.0.2.1", inner.String(), 1)
	}
	if s.b == "" {
		s.b = strings.Replace(gwB, "192.0.2.1", "%any", 1)
	}
	n := newPair(t, s)
	n.hook = func(d datagram) []datagram {
		switch {
		case d.from.Addr() == inner:
			d.from = netip.AddrPortFrom(outer, d.from.Port()+base)
		case d.to.Addr() == outer:
			d.to = netip.AddrPortFrom(inner, d.to.Port()-base)
			if d.to.Port() != 500 && d.to.Port() != 4500 {
				return nil // the mapping is gone
			}
		}
		return []datagram{d}
	}
	n.rewire = func(to netip.Addr) *host {
		switch to {
		case inner:
			return n.a
		case addrB:
			return n.b
		}
		return nil
	}
	return n, &base
}

// TestTrap_7296_67_NATInitiator: the initiator behind a NAT moves to 4500; both encapsulate; it alone sends keepalives.
func TestTrap_7296_67_NATInitiator(t *testing.T) {
	n, _ := natA(t, setup{})
	n.up()
	n.a.wants(CodeChosen, "we are behind NAT")
	n.b.wants(CodeChosen, "the peer is behind NAT")
	n.a.wants(CodeChildUp, "ESP AES-GCM-256 in UDP, kernel")
	a, b := n.a.sa.Status(), n.b.sa.Status()
	if !a.NATLocal || a.NATRemote || b.NATLocal || !b.NATRemote {
		t.Errorf("a %+v, b %+v", a, b)
	}
	if a.Path != (Path{netip.AddrPortFrom(inner, 4500), netip.AddrPortFrom(addrB, 4500)}) || b.Path != (Path{netip.AddrPortFrom(addrB, 4500), netip.AddrPortFrom(outer, 24500)}) {
		t.Errorf("paths %v, %v", a.Path, b.Path)
	}
	for _, s := range n.a.plane.sas {
		if s.Encap == nil || s.Encap.SrcPort != 4500 || s.Encap.DstPort != 4500 {
			t.Errorf("a: %+v", s)
		}
	}
	for _, s := range n.b.plane.sas {
		want := xfrm.Encap{SrcPort: 4500, DstPort: 24500}
		if s.Direction == xfrm.In {
			want = xfrm.Encap{SrcPort: 24500, DstPort: 4500}
		}
		if s.Encap == nil || *s.Encap != want {
			t.Errorf("b: %+v", s.Encap)
		}
	}
	n.a.alive = 0
	n.a.usage, n.b.usage = UsageDone{Inbound: 1}, UsageDone{Inbound: 1}
	n.run(100*time.Second, nil)
	if n.a.alive < 4 || n.a.alive > 5 || n.b.alive != 0 {
		t.Errorf("keepalives in 100 s: a %d, b %d", n.a.alive, n.b.alive)
	}
}

// TestTrap_7296_68_Rebinding: the side that is not behind the NAT follows authentic new packets, not repeats, and takes the SAs along.
func TestTrap_7296_68_Rebinding(t *testing.T) {
	n, base := natA(t, setup{still: true})
	n.up()
	*base = 30000
	old := n.b.sa.path
	repeat := n.a.sends[len(n.a.sends)-1].Data
	n.b.step(Packet{Path{old.Local, netip.MustParseAddrPort("203.0.113.66:666")}, repeat})
	if n.b.sa.path != old {
		t.Error("a repeat moved the path")
	}
	if answer := n.a.ask(wire.Informational); answer == nil {
		t.Fatal("no answer on the new mapping")
	}
	if got := n.b.sa.path.Remote; got != netip.AddrPortFrom(outer, 34500) {
		t.Errorf("path %v", got)
	}
	for _, s := range n.b.plane.sas {
		if s.Encap.SrcPort != 34500 && s.Encap.DstPort != 34500 {
			t.Errorf("encapsulation %+v", *s.Encap)
		}
	}
	n.a.step(Packet{Path{n.a.sa.path.Local, netip.MustParseAddrPort("203.0.113.66:4500")}, n.b.seal(n.b.sa.header(wire.Informational, false, 0), nil)})
	if n.a.sa.path.Remote.Addr() != addrB {
		t.Error("the side behind the NAT followed")
	}
}

// TestMapping: ESP from another address moves SAs, policies and IKE.
func TestMapping(t *testing.T) {
	n, _ := natA(t, setup{still: true})
	n.up()
	c := n.b.sa.children[0]
	to := netip.MustParseAddrPort("203.0.113.77:4999")
	n.b.step(Mapping{ID: c.inID(), From: to})
	n.run(5*time.Millisecond, nil)
	if n.b.sa.path.Remote != to || len(n.b.plane.sas) != 2 {
		t.Fatalf("path %v", n.b.sa.path)
	}
	for _, s := range n.b.plane.sas {
		if s.Direction == xfrm.Out && (s.ID.Dst != to.Addr() || s.Encap.DstPort != 4999) || s.Direction == xfrm.In && s.Src != to.Addr() {
			t.Errorf("SA %+v", s)
		}
	}
	for _, p := range n.b.plane.pols {
		if p.Template.Src != to.Addr() && p.Template.Dst != to.Addr() {
			t.Errorf("policy %+v", p)
		}
	}
	n.b.step(Lower{Silent: true})
	if len(n.b.plane.sas)+len(n.b.plane.pols) != 0 {
		t.Error("something is left")
	}
}

// TestNoNATNoFollow: without a NAT nobody follows anybody (RFC 7296 section 2.23).
func TestNoNATNoFollow(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	before := n.b.sa.path
	n.b.step(Packet{Path{before.Local, netip.MustParseAddrPort("203.0.113.66:500")}, n.a.seal(n.a.sa.header(wire.Informational, false, uint32(n.a.sa.requests.next)), nil)})
	if n.b.sa.path != before {
		t.Error("followed")
	}
	if last := n.b.sends[len(n.b.sends)-1]; last.Remote.Addr() != netip.MustParseAddr("203.0.113.66") {
		t.Errorf("the answer went to %v, not to where the request came from", last.Remote)
	}
}

// TestPretendedNAT: encapsulation = "always", or a data plane that wants UDP, on either side.
func TestPretendedNAT(t *testing.T) {
	udp := func() xfrm.Capabilities {
		c := kernelCaps()
		c.Name, c.PlainESP, c.MustEncap = "userspace", false, true
		return c
	}
	always := func(s string) string {
		return strings.Replace(s, "psk ", "encapsulation = \"always\"\npsk ", 1)
	}
	for name, s := range map[string]setup{
		"a userspace": {caps: udp, capsB: kernelCaps}, "b userspace": {capsB: udp, caps: kernelCaps}, "both userspace": {caps: udp},
		"a always": {a: always(gwA)}, "b always": {b: always(gwB)},
	} {
		t.Run(name, func(t *testing.T) {
			n := newPair(t, s)
			n.up()
			for _, h := range []*host{n.a, n.b} {
				for _, x := range h.plane.sas {
					if x.Encap == nil || x.Encap.SrcPort != 4500 || x.Encap.DstPort != 4500 {
						t.Errorf("%s: %+v", h.name, x.Encap)
					}
				}
				if p := h.sa.path; p.Local.Port() != 4500 || p.Remote.Port() != 4500 || len(h.plane.sas) != 2 {
					t.Errorf("%s: path %v", h.name, p)
				}
			}
		})
	}
}

// TestPeerWithoutNATT: no notifies, no NAT traversal; a data plane that has only UDP says so.
func TestPeerWithoutNATT(t *testing.T) {
	strip := func(n *network) {
		n.tamper(func(o *opened) bool { // what a peer without NAT traversal would have sent
			if o.is(wire.IKESAInit, true) {
				o.drop(wire.PayloadNotify)
				return true
			}
			return false
		})
	}
	n := newPair(t, setup{capsB: kernelCaps, caps: func() xfrm.Capabilities {
		c := kernelCaps()
		c.Name, c.PlainESP, c.MustEncap = "userspace", false, true
		return c
	}})
	strip(n)
	n.a.step(Initiate{})
	n.run(time.Minute, func() bool { return n.a.finish != nil })
	n.a.wants(CodeDataplane, "the peer does not do NAT traversal, and the userspace data plane carries ESP in UDP only")
}

// TestTrap_7296_66_Hash: SPIs of this header; of several sources one match suffices.
func TestTrap_7296_66_Hash(t *testing.T) {
	path := Path{netip.MustParseAddrPort("192.0.2.1:500"), netip.MustParseAddrPort("198.51.100.7:500")}
	back := Path{path.Remote, path.Local}
	h := wire.Header{SPIi: 1, SPIr: 2}
	for _, c := range []struct {
		name      string
		ps        []wire.Payload
		at        Path
		want      nat
		supported bool
	}{
		{"none", natPayloads(1, 2, path, false), back, nat{}, true},
		{"several sources", append(natPayloads(1, 2, Path{netip.MustParseAddrPort("10.0.0.1:500"), path.Remote}, false), natPayloads(1, 2, path, false)...), back, nat{}, true},
		{"source", natPayloads(1, 2, path, false), Path{back.Local, netip.MustParseAddrPort("192.0.2.1:501")}, nat{remote: true}, true},
		{"destination", natPayloads(1, 2, path, false), Path{netip.MustParseAddrPort("10.9.9.9:500"), back.Remote}, nat{local: true}, true},
		{"other SPIs", natPayloads(1, 0, path, false), back, nat{local: true, remote: true}, true},
		{"pretended", natPayloads(1, 2, path, true), back, nat{remote: true, asked: true}, true},
		{"pretended from elsewhere", natPayloads(1, 2, path, true), Path{back.Local, netip.MustParseAddrPort("192.0.2.9:500")}, nat{remote: true}, true},
		{"absent", nil, back, nat{}, false},
	} {
		if got, supported := detectNAT(h, c.ps, c.at); got != c.want || supported != c.supported {
			t.Errorf("%s: %+v, %v", c.name, got, supported)
		}
	}
}

// TestPorts: a peer's port of its own is one for NAT traversal; the daemon's own ports hold on both sides.
func TestPorts(t *testing.T) {
	n := newPair(t, setup{a: strings.Replace(gwA, `id = "gw-b.example"`, `id = "gw-b.example", port = 4500`, 1)})
	n.a.step(Initiate{})
	n.run(5*time.Millisecond, nil)
	if s := n.a.sends[0]; s.Local.Port() != 4500 || s.Remote.Port() != 4500 {
		t.Errorf("sent from %v to %v", s.Local, s.Remote)
	}
}
