package userspace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"cygnet/xfrm"
	"cygnet/xfrm/esp"
)

// peerSA is the peer's end of an inbound SA.
type peerSA struct {
	out *esp.Outbound
	at  netip.AddrPort
}

func newPeer(t testing.TB, spi uint32) *peerSA {
	t.Helper()
	out, err := esp.NewOutbound(testSA(xfrm.In, spi), rand.NewChaCha8([32]byte{9}))
	if err != nil {
		t.Fatal(err)
	}
	return &peerSA{out: out, at: remote}
}

func (p *peerSA) seal(t testing.TB, inner []byte) []byte {
	t.Helper()
	next := uint8(esp.NextIPv4)
	switch {
	case len(inner) == 0:
		next = esp.NextDummy
	case inner[0]>>4 == 6:
		next = esp.NextIPv6
	}
	sealed, err := p.out.Seal(nil, append(make([]byte, 0, len(inner)+esp.TrailerRoom), inner...), next)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

var (
	lanToLAN = selector("10.1.0.0/16", "10.2.0.0/16")
	back     = selector("10.2.0.0/16", "10.1.0.0/16")
)

func TestOutbound(t *testing.T) {
	b := newBench(t)
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.Out, 0x2001)}, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x2001)})
	inner := udp4("10.1.0.5", "10.2.0.9", 1, 2, 100)
	burst := b.send(t, inner, inner)
	for len(burst.Packets) < 2 {
		burst.Packets = append(burst.Packets, wait(t, b.sent).Packets...)
	}
	if burst.Local != local || burst.Remote != remote {
		t.Errorf("burst %v -> %v", burst.Local, burst.Remote)
	}
	in, err := esp.NewInbound(testSA(xfrm.Out, 0x2001))
	if err != nil {
		t.Fatal(err)
	}
	for n, p := range burst.Packets {
		if spi, seq := binary.BigEndian.Uint32(p), binary.BigEndian.Uint32(p[4:]); spi != 0x2001 || seq != uint32(n+1) {
			t.Errorf("SPI %x, number %d", spi, seq)
		}
		if data, next, r := in.Open(p); r != esp.Accepted || next != esp.NextIPv4 || !bytes.Equal(data, inner) {
			t.Errorf("opened as %v: %x", r, data)
		}
	}
	u, err := b.Usage(context.Background(), xfrm.SAID{Dst: remote.Addr(), SPI: 0x2001, Proto: 50})
	if err != nil || u.Packets != 2 || u.Bytes != uint64(2*len(inner)) || u.Sequence != 2 || u.LastUse == 0 {
		t.Errorf("%+v, %v", u, err)
	}
}

// A packet that no policy covers, that one blocks, or that has no SA is dropped: nothing leaves in clear.
func TestTrap_4301_3_NothingInClear(t *testing.T) {
	b := newBench(t)
	blocked := outPolicy(selector("10.1.0.0/16", "10.9.0.0/16"), 1, 0)
	blocked.Action = xfrm.Block
	b.apply(t, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0)}, xfrm.PutPolicy{Policy: blocked})
	p := udp4("10.1.0.5", "10.2.0.9", 7, 53, 0)
	for range 3 {
		b.tun.in <- p
	}
	ev := b.event(t)
	want := selector("10.1.0.5/32", "10.2.0.9/32")
	want.Proto, want.SrcPorts, want.DstPorts = 17, xfrm.Ports{First: 7, Last: 7}, xfrm.Ports{First: 53, Last: 53}
	if ev != (xfrm.Acquire{ReqID: testReqID, Selector: want}) {
		t.Errorf("event %+v", ev)
	}
	b.tun.in <- udp4("10.1.0.5", "10.9.0.9", 7, 53, 0)
	b.tun.in <- udp4("10.1.0.5", "10.3.0.9", 7, 53, 0) // no policy for the destination
	b.tun.in <- udp4("10.7.0.5", "10.2.0.9", 7, 53, 0) // none for the source
	b.tun.in <- []byte("not an IP packet")
	b.tun.in <- nil
	eventually(t, "no policy", 4, func() uint64 { return b.Drops().NoPolicy })
	if d := b.Drops(); d.NoSA != 3 || d.Blocked != 1 {
		t.Errorf("%+v", d)
	}
	if c := b.Counters(); c["dropped-out-no-sa"] != 3 || c["dropped-out-blocked"] != 1 || c["dropped-out-no-policy"] != 4 {
		t.Errorf("%v", c)
	}
	b.quiet(t) // one Acquire for all
	if len(b.sent) != 0 {
		t.Error("something was sent")
	}
	// An answered Acquire can be raised again.
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.Out, 0x2001)}, xfrm.RemoveSA{ID: testSA(xfrm.Out, 0x2001).ID})
	b.tun.in <- p
	if _, ok := b.event(t).(xfrm.Acquire); !ok {
		t.Error("no second Acquire")
	}
}

// The SA that the template names is used, else the latest of the reqid; a rekey loses nothing.
func TestRekeyOutbound(t *testing.T) {
	b := newBench(t)
	inner := udp4("10.1.0.5", "10.2.0.9", 1, 2, 0)
	spi := func() uint32 { t.Helper(); return binary.BigEndian.Uint32(b.send(t, inner).Packets[0]) }
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.Out, 0x2001)}, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x2001)})
	if got := spi(); got != 0x2001 {
		t.Errorf("SPI %x", got)
	}
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.Out, 0x2002)})
	if got := spi(); got != 0x2001 {
		t.Errorf("SPI %x before the policy names the new one", got)
	}
	b.apply(t, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x2002)})
	if got := spi(); got != 0x2002 {
		t.Errorf("SPI %x", got)
	}
	b.apply(t, xfrm.RemoveSA{ID: testSA(xfrm.Out, 0x2002).ID})
	if got := spi(); got != 0x2001 {
		t.Errorf("SPI %x after the named one is gone", got)
	}
	other := testSA(xfrm.Out, 0x2003)
	other.ReqID++
	b.apply(t, xfrm.RemoveSA{ID: testSA(xfrm.Out, 0x2001).ID}, xfrm.AddSA{SA: other}, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x2003)})
	b.tun.in <- inner
	if _, ok := b.event(t).(xfrm.Acquire); !ok {
		t.Error("the SA of another lineage was used")
	}
}

// Until the packet path sees what took its place a removed SA carries what finds it: a batch that removes it may wait for the kernel's routes.
func TestRemovedInUse(t *testing.T) {
	b := newBench(t)
	inner := udp4("10.1.0.5", "10.2.0.9", 1, 2, 0)
	spi := func() uint32 { t.Helper(); return binary.BigEndian.Uint32(b.send(t, inner).Packets[0]) }
	old, next := testSA(xfrm.Out, 0x2001), testSA(xfrm.Out, 0x2002)
	b.apply(t, xfrm.AddSA{SA: old}, xfrm.AddSA{SA: next}, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x2001)})
	func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		defer b.publish()
		err := b.applyOne(context.Background(), xfrm.RemoveSA{ID: old.ID})
		if got := spi(); err != nil || got != 0x2001 {
			t.Errorf("SPI %x while the batch is being applied (%v)", got, err)
		}
	}()
	if got := spi(); got != 0x2002 {
		t.Errorf("SPI %x", got)
	}
	b.contents.sas[next.ID].wipe() // as when it goes between look-up and use; here nothing takes its place
	b.tun.in <- inner
	eventually(t, "sealing", 1, func() uint64 { return b.Drops().Sealing })
}

func TestInbound(t *testing.T) {
	b := newBench(t)
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.In, 0x1001, back, selector("fd02::/64", "fd01::/64"))})
	p := newPeer(t, 0x1001)
	for _, inner := range [][]byte{udp4("10.2.0.9", "10.1.0.5", 1, 2, 33), udp6("fd02::9", "fd01::5", 1, 2, 33)} {
		b.from(t, p, append(bytes.Clone(inner), 0, 0, 0)) // with TFC padding
		if got := wait(t, b.tun.out); !bytes.Equal(got, inner) {
			t.Errorf("delivered %x, want %x", got, inner)
		}
	}
	id := testSA(xfrm.In, 0x1001).ID
	if ev := b.event(t); ev != (xfrm.FirstUse{ID: id}) {
		t.Errorf("event %+v", ev)
	}
	b.quiet(t)

	sealed := p.seal(t, udp4("10.2.0.9", "10.1.0.5", 1, 2, 0))
	b.Receive(&xfrm.Burst{Local: local, Remote: remote, Packets: [][]byte{bytes.Clone(sealed), bytes.Clone(sealed), append(bytes.Clone(sealed[:len(sealed)-1]), 0x55)}})
	wait(t, b.tun.out)
	forged := p.seal(t, udp4("10.2.0.9", "10.1.0.5", 1, 2, 0))
	forged[20] ^= 1
	b.Receive(&xfrm.Burst{Local: local, Remote: remote, Packets: [][]byte{forged, sealed[:7], append([]byte{0, 0, 0x10, 9}, sealed[4:]...)}})
	b.Receive(&xfrm.Burst{Local: netip.MustParseAddrPort("192.0.2.99:4500"), Remote: remote, Packets: [][]byte{sealed}})
	b.from(t, p, nil) // a dummy
	d := b.Drops()
	if d.Opening[esp.Replayed] != 2 || d.Opening[esp.Integrity] != 1 || d.Opening[esp.Malformed] != 1 || d.UnknownSPI != 2 || d.Opening[esp.Dummy] != 1 {
		t.Errorf("%+v", d)
	}
	u, _ := b.Usage(context.Background(), id)
	if u.Packets != 4 || u.ReplayDrops != 2 || u.IntegrityDrops != 1 || u.Sequence != 5 {
		t.Errorf("%+v", u)
	}
	if len(b.tun.out) != 0 {
		t.Error("something was delivered")
	}
}

// RFC 4301 section 5.2: what an authenticated peer may send is bounded by the SA's selectors, checked after decryption.
func TestTrap_4301_1_Selectors(t *testing.T) {
	b := newBench(t)
	web := back
	web.Proto, web.SrcPorts = 6, xfrm.Ports{First: 443, Last: 443}
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.In, 0x1001, back)}, xfrm.AddSA{SA: testSA(xfrm.In, 0x1002, web)}, xfrm.AddSA{SA: testSA(xfrm.In, 0x1003)})
	lan, port, none := newPeer(t, 0x1001), newPeer(t, 0x1002), newPeer(t, 0x1003)
	bad := uint64(0)
	refuse := func(p *peerSA, inner []byte) {
		t.Helper()
		b.from(t, p, inner)
		if bad++; b.Drops().Selectors != bad || len(b.tun.out) != 0 {
			t.Errorf("%x: %d refused, want %d", inner[:20], b.Drops().Selectors, bad)
			bad = b.Drops().Selectors
		}
	}
	refuse(lan, udp4("10.3.0.9", "10.1.0.5", 1, 2, 0))
	refuse(lan, udp4("10.2.0.9", "10.4.0.5", 1, 2, 0))
	refuse(lan, udp4("127.0.0.1", "10.1.0.5", 1, 2, 0))
	refuse(lan, udp6("fd02::9", "fd01::5", 1, 2, 0))
	refuse(port, udp4("10.2.0.9", "10.1.0.5", 443, 2, 0)) // UDP
	refuse(none, udp4("10.2.0.9", "10.1.0.5", 1, 2, 0))
	tcp := udp4("10.2.0.9", "10.1.0.5", 443, 2, 0)
	tcp[9] = 6
	later := bytes.Clone(tcp)
	later[7] = 1 // a later fragment has no ports
	refuse(port, later)
	tcp[20] = 0
	refuse(port, tcp) // port 187
}

// RFC 4301 section 6.2: an ICMP error of a router on the way passes only for a packet that could have been sent.
func TestTrap_4301_5_ICMPErrors(t *testing.T) {
	b := newBench(t)
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.In, 0x1001, back, selector("fd02::/64", "fd01::/64"))})
	p := newPeer(t, 0x1001)
	icmp := func(kind byte, src, dst string, quote []byte) []byte {
		m := udp4(src, dst, 0, 0, len(quote))
		m[9], m[20] = 1, kind
		copy(m[28:], quote)
		return m
	}
	sent := udp4("10.1.0.5", "10.2.0.9", 7, 8, 0)
	b.from(t, p, icmp(3, "172.16.0.1", "10.1.0.5", sent))
	wait(t, b.tun.out)
	for _, m := range [][]byte{
		icmp(3, "172.16.0.1", "10.1.0.5", udp4("10.1.0.5", "10.3.0.9", 7, 8, 0)), // never sent into this SA
		icmp(3, "172.16.0.1", "10.1.0.6", sent),                                  // to another than its sender
		icmp(8, "172.16.0.1", "10.1.0.5", sent),                                  // no error
		icmp(3, "172.16.0.1", "10.1.0.5", sent[:10]),
		icmp(3, "172.16.0.1", "10.1.0.5", nil),
	} {
		b.from(t, p, m)
	}
	six := udp6("2001:db8::9", "fd01::5", 0, 0, 48)
	six[6], six[40] = 58, 1
	copy(six[48:], udp6("fd01::5", "fd02::9", 7, 8, 0))
	b.from(t, p, six)
	wait(t, b.tun.out)
	if n := b.Drops().Selectors; n != 5 || len(b.tun.out) != 0 {
		t.Errorf("%d refused, want 5", n)
	}
}

func TestMapping(t *testing.T) {
	b := newBench(t)
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.In, 0x1001, back)})
	p := newPeer(t, 0x1001)
	inner := udp4("10.2.0.9", "10.1.0.5", 1, 2, 0)
	old := p.seal(t, inner)
	b.from(t, p, inner)
	b.event(t) // FirstUse
	id := testSA(xfrm.In, 0x1001).ID
	moved := netip.MustParseAddrPort("203.0.113.5:61000")
	forged := p.seal(t, inner)
	forged[len(forged)-1] ^= 1
	b.Receive(&xfrm.Burst{Local: local, Remote: moved, Packets: [][]byte{forged}}) // not authenticated
	b.Receive(&xfrm.Burst{Local: local, Remote: moved, Packets: [][]byte{old}})    // authenticated, but held back by someone
	b.quiet(t)
	p.at = moved
	b.from(t, p, inner, inner)
	b.from(t, p, inner)
	if ev := b.event(t); ev != (xfrm.Mapping{ID: id, From: moved}) {
		t.Errorf("event %+v", ev)
	}
	b.quiet(t) // said once
	b.apply(t, xfrm.MoveSA{ID: id, Src: moved.Addr(), Dst: id.Dst, Encap: &xfrm.Encap{SrcPort: moved.Port(), DstPort: local.Port()}})
	b.from(t, p, inner)
	b.quiet(t)
	p.at = netip.MustParseAddrPort("203.0.113.5:61001")
	b.from(t, p, inner)
	if ev := b.event(t); ev != (xfrm.Mapping{ID: id, From: p.at}) {
		t.Errorf("event %+v", ev)
	}
	b.apply(t, xfrm.UpdateSA{ID: id, Encap: xfrm.Encap{SrcPort: 61001, DstPort: local.Port()}})
	b.from(t, p, inner)
	b.quiet(t)
}

// Packets in flight across a move are not lost, and the outbound SA goes on counting.
func TestMove(t *testing.T) {
	b := newBench(t)
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.In, 0x1001, back)}, xfrm.AddSA{SA: testSA(xfrm.Out, 0x2001)}, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x2001)})
	inner := udp4("10.1.0.5", "10.2.0.9", 1, 2, 0)
	b.send(t, inner)
	here, there := netip.MustParseAddrPort("[2001:db8::1]:4500"), netip.MustParseAddrPort("[2001:db8::7]:4501")
	pol := outPolicy(lanToLAN, 1, 0x2001)
	pol.Template.Src, pol.Template.Dst = here.Addr(), there.Addr()
	b.apply(t,
		xfrm.MoveSA{ID: testSA(xfrm.In, 0x1001).ID, Src: there.Addr(), Dst: here.Addr(), Encap: &xfrm.Encap{SrcPort: 4501, DstPort: 4500}},
		xfrm.MoveSA{ID: testSA(xfrm.Out, 0x2001).ID, Src: here.Addr(), Dst: there.Addr(), Encap: &xfrm.Encap{SrcPort: 4500, DstPort: 4501}},
		xfrm.PutPolicy{Policy: pol})
	burst := b.send(t, inner)
	if burst.Local != here || burst.Remote != there || binary.BigEndian.Uint32(burst.Packets[0][4:]) != 2 {
		t.Errorf("%v -> %v, number %x", burst.Local, burst.Remote, burst.Packets[0][4:8])
	}
	p := newPeer(t, 0x1001)
	b.Receive(&xfrm.Burst{Local: here, Remote: there, Packets: [][]byte{p.seal(t, udp4("10.2.0.9", "10.1.0.5", 1, 2, 0))}})
	wait(t, b.tun.out)
	// To plain ESP.
	b.apply(t, xfrm.MoveSA{ID: xfrm.SAID{Dst: there.Addr(), SPI: 0x2001, Proto: 50}, Src: here.Addr(), Dst: there.Addr()})
	if burst := b.send(t, inner); burst.Local.Port() != 0 || burst.Remote.Port() != 0 {
		t.Errorf("%v -> %v", burst.Local, burst.Remote)
	}
}

func TestExpire(t *testing.T) {
	for name, limit := range map[string]func(*xfrm.SA){
		"packets": func(s *xfrm.SA) { s.SoftPackets, s.HardPackets = 2, 3 },
		"octets":  func(s *xfrm.SA) { s.SoftBytes, s.HardBytes = 50, 80 },
	} {
		for _, d := range []xfrm.Direction{xfrm.In, xfrm.Out} {
			b := newBench(t)
			s := testSA(d, 0x1001, back)
			limit(&s)
			b.apply(t, xfrm.AddSA{SA: s}, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x1001)})
			p := newPeer(t, 0x1001)
			var got []xfrm.Event
			for range 5 {
				if d == xfrm.In {
					b.from(t, p, udp4("10.2.0.9", "10.1.0.5", 1, 2, 0))
				} else {
					b.tun.in <- udp4("10.1.0.5", "10.2.0.9", 1, 2, 0)
				}
			}
			for range 2 {
				ev := b.event(t)
				if _, first := ev.(xfrm.FirstUse); first {
					ev = b.event(t)
				}
				got = append(got, ev)
			}
			if got[0] != (xfrm.Expire{ID: s.ID}) || got[1] != (xfrm.Expire{ID: s.ID, Hard: true}) {
				t.Errorf("%s, direction %d: %+v", name, d, got)
			}
			eventually(t, "packets after the end", 2, func() uint64 { return b.Drops().Sealing + b.Drops().Expired })
			b.quiet(t)
			if u, _ := b.Usage(context.Background(), s.ID); u.Packets != 3 {
				t.Errorf("%s, direction %d: %d packets", name, d, u.Packets)
			}
		}
	}
}

func TestApplyErrors(t *testing.T) {
	b := newBench(t)
	sa := testSA(xfrm.Out, 0x2001)
	with := func(f func(*xfrm.SA)) xfrm.SA { s := testSA(xfrm.Out, 0x2009); f(&s); return s }
	bare := outPolicy(lanToLAN, 1, 0)
	bare.Slot.Selector.Dst = netip.MustParsePrefix("10.2.0.1/16")
	transport := outPolicy(lanToLAN, 1, 0)
	transport.Template.Mode = xfrm.Transport
	b.apply(t, xfrm.AddSA{SA: sa})
	for name, op := range map[string]xfrm.Op{
		"taken":             xfrm.AddSA{SA: sa},
		"transport mode":    xfrm.AddSA{SA: with(func(s *xfrm.SA) { s.Mode = xfrm.Transport })},
		"two families":      xfrm.AddSA{SA: with(func(s *xfrm.SA) { s.Src = netip.IPv6Loopback() })},
		"AH":                xfrm.AddSA{SA: with(func(s *xfrm.SA) { s.ID.Proto = 51 })},
		"no direction":      xfrm.AddSA{SA: with(func(s *xfrm.SA) { s.Direction = 0 })},
		"reserved SPI":      xfrm.AddSA{SA: with(func(s *xfrm.SA) { s.ID.SPI = 255 })},
		"unknown cipher":    xfrm.AddSA{SA: with(func(s *xfrm.SA) { s.Suite.Encr = 3 })},
		"update of nothing": xfrm.UpdateSA{ID: testSA(xfrm.Out, 0x2008).ID},
		"move of nothing":   xfrm.MoveSA{ID: testSA(xfrm.Out, 0x2008).ID, Src: local.Addr(), Dst: remote.Addr()},
		"move to nowhere":   xfrm.MoveSA{ID: sa.ID},
		"host bits":         xfrm.PutPolicy{Policy: bare},
		"transport policy":  xfrm.PutPolicy{Policy: transport},
		"nothing":           nil,
	} {
		err := b.Apply(context.Background(), []xfrm.Op{xfrm.RemoveSA{ID: testSA(xfrm.Out, 0x2007).ID}, op})
		var oe *xfrm.OpError
		if !errors.As(err, &oe) || oe.Index != 1 || (name == "taken") != errors.Is(err, xfrm.ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A policy for which the host cannot do its part is not there.
	b.host.fail = errors.New("no room for routes")
	if err := b.Apply(context.Background(), []xfrm.Op{xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0)}}); !errors.Is(err, b.host.fail) {
		t.Errorf("%v", err)
	}
	b.host.fail = nil
	state, _ := b.Dump(context.Background())
	if len(state.Policies) != 0 || len(state.SAs) != 1 {
		t.Errorf("%d policies, %d SAs", len(state.Policies), len(state.SAs))
	}
	if k := state.SAs[0]; k.EncrKey.Len() != 0 || k.ID != sa.ID {
		t.Errorf("dump of %v holds a key of %d octets", k.ID, k.EncrKey.Len())
	}
	b.Close()
	if err := b.Apply(context.Background(), nil); err == nil {
		t.Error("applied after Close")
	}
	if _, open := <-b.Events(); open {
		t.Error("events after Close")
	}
}

func TestGap(t *testing.T) {
	e := newEvents()
	for n := range eventQueue + 10 {
		e.raise(xfrm.FirstUse{ID: xfrm.SAID{SPI: uint32(n)}})
	}
	for n := range eventQueue {
		if ev := wait(t, e.c); ev != (xfrm.FirstUse{ID: xfrm.SAID{SPI: uint32(n)}}) {
			t.Fatalf("event %d is %+v", n, ev)
		}
	}
	if ev := wait(t, e.c); ev != (xfrm.Gap{}) {
		t.Fatalf("%+v, want a gap", ev)
	}
	eventually(t, "gap", 0, func() uint64 {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.gap {
			return 1
		}
		return 0
	})
	e.raise(xfrm.Gap{})
	wait(t, e.c)
	e.close()
	e.raise(xfrm.Gap{})
	e.close()
}

func TestNoAllocation(t *testing.T) {
	b := newBench(t)
	b.config.Send = func(*xfrm.Burst) error { return nil }
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.Out, 0x2001)}, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x2001)}, xfrm.AddSA{SA: testSA(xfrm.In, 0x1001, back)})
	l, inner := newLane(b.Driver, nil), roomy(udp4("10.1.0.5", "10.2.0.9", 1, 2, 1300))
	if n := testing.AllocsPerRun(200, func() {
		for range 8 {
			l.packet(vnet{}, inner)
		}
		l.flush()
	}); n != 0 {
		t.Errorf("outbound: %v allocations", n)
	}
	p := newPeer(t, 0x1001)
	var sealed [][]byte
	for range 202 {
		sealed = append(sealed, p.seal(t, udp4("10.2.0.9", "10.1.0.5", 1, 2, 1300)))
	}
	b.tun.fail = errors.New("a device that takes nothing, so that the test does not count its copies")
	burst := xfrm.Burst{Local: local, Remote: remote, Packets: make([][]byte, 1)}
	b.Receive(&xfrm.Burst{Local: local, Remote: remote, Packets: sealed[:1]}) // raises FirstUse
	next, receive := 1, b.Receiver()
	if n := testing.AllocsPerRun(200, func() {
		burst.Packets[0] = sealed[next]
		next++
		receive(&burst)
	}); n != 0 {
		t.Errorf("inbound: %v allocations", n)
	}
}
