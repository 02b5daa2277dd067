package userspace

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"cygnet/xfrm"
	"cygnet/xfrm/esp"
)

// RFC 7296 section 2.23: ESP in UDP and plain ESP are accepted at any time, whichever was agreed.
func TestTrap_7296_99_BothForms(t *testing.T) {
	for _, encap := range []bool{false, true} {
		b := newBench(t)
		sa := testSA(xfrm.In, 0x1001, back)
		if !encap {
			sa.Encap = nil
		}
		b.apply(t, xfrm.AddSA{SA: sa})
		p := newPeer(t, 0x1001)
		for _, port := range []uint16{0, 4500} {
			inner := udp4("10.2.0.9", "10.1.0.5", 1, port, 9)
			b.Receive(&xfrm.Burst{Local: netip.AddrPortFrom(local.Addr(), port), Remote: netip.AddrPortFrom(remote.Addr(), port), Packets: [][]byte{p.seal(t, inner)}})
			if got := wait(t, b.tun.out); !bytes.Equal(got, inner) {
				t.Errorf("encapsulation agreed %v, port %d: delivered %x", encap, port, got)
			}
		}
	}
}

// RFC 3948 section 5.1: two clients with one inner address: what is for one never goes to the other, and neither speaks for the other's SA.
func TestTrap_3948_5_TwoClients(t *testing.T) {
	b := newBench(t)
	other := netip.MustParseAddrPort("203.0.113.9:61000")
	to, from := testSA(xfrm.Out, 0x2002), testSA(xfrm.In, 0x1002, back)
	to.ID.Dst, from.Src = other.Addr(), other.Addr()
	to.Encap, from.Encap = &xfrm.Encap{SrcPort: 4500, DstPort: other.Port()}, &xfrm.Encap{SrcPort: other.Port(), DstPort: 4500}
	to.ReqID, from.ReqID = testReqID+1, testReqID+1
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.In, 0x1001, back)}, xfrm.AddSA{SA: testSA(xfrm.Out, 0x2001)}, xfrm.AddSA{SA: from}, xfrm.AddSA{SA: to},
		xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x2001)})
	inner := udp4("10.1.0.5", "10.2.0.9", 1, 2, 10)
	burst := b.send(t, inner)
	if spi := binary.BigEndian.Uint32(burst.Packets[0]); spi != 0x2001 || burst.Remote != remote {
		t.Errorf("SPI %x to %v", spi, burst.Remote)
	}
	// The owner of the policy goes: nobody else's SA takes its place.
	b.apply(t, xfrm.RemoveSA{ID: testSA(xfrm.Out, 0x2001).ID})
	b.tun.in <- inner
	if ev, ok := b.event(t).(xfrm.Acquire); !ok || ev.ReqID != testReqID || len(b.sent) != 0 {
		t.Errorf("event %+v, %d bursts", ev, len(b.sent))
	}
	// The other client has keys of its own: under the first one's SPI they prove nothing.
	out, err := esp.NewOutbound(from, rand.NewChaCha8([32]byte{9}))
	if err != nil {
		t.Fatal(err)
	}
	p := &peerSA{out: out, at: other}
	sealed := p.seal(t, udp4("10.2.0.9", "10.1.0.5", 1, 2, 10))
	binary.BigEndian.PutUint32(sealed, 0x1001)
	b.Receive(&xfrm.Burst{Local: local, Remote: other, Packets: [][]byte{sealed}})
	if b.Drops().Opening[esp.Integrity] != 1 || len(b.tun.out) != 0 {
		t.Errorf("%+v", b.Drops())
	}
}
