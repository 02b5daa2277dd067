package userspace

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"testing"

	"cygnet/xfrm"
	"cygnet/xfrm/esp"
)

// What of an inner packet shows on its outer one: bursts are cut where it changes.
func TestBurstsHaveTheClassOfTheirPackets(t *testing.T) {
	for _, hide := range []bool{false, true} {
		b := newBench(t)
		var classes []uint8
		b.config.Send = func(x *xfrm.Burst) error {
			for range x.Packets {
				classes = append(classes, x.TOS)
			}
			return nil
		}
		s := testSA(xfrm.Out, 0x2001)
		s.HideDSCP = hide
		b.apply(t, xfrm.AddSA{SA: s}, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x2001)})
		l := newLane(b.Driver, b.tun)
		want := []uint8{46<<2 | ect0, 46<<2 | ect0, 46<<2 | ce, 0, 10<<2 | notECT}
		for n, class := range want {
			l.packet(vnet{}, roomy(withClass(false, class)))
			if hide {
				want[n] = class & ecnMask
			}
		}
		l.flush()
		if !bytes.Equal(classes, want) {
			t.Errorf("classes %x, want %x", classes, want)
		}
	}
}

// tooLarge is an IPv4 packet that may not be fragmented.
func tooLarge(payload int) []byte {
	p := udp4("10.1.0.5", "10.2.0.9", 7, 53, payload)
	p[6] = 0x40
	return p
}

func TestTooBigForThePath(t *testing.T) {
	b := newBench(t)
	sent := 0
	b.config.Send = func(x *xfrm.Burst) error { sent += len(x.Packets); return nil }
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.Out, 0x2001)}, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x2001)})
	l := newLane(b.Driver, b.tun)
	l.packet(vnet{}, roomy(tooLarge(1372))) // of a path nothing is known
	b.contents.sas[testSA(xfrm.Out, 0x2001).ID].limit.Store(1300)
	big := tooLarge(1372)
	l.packet(vnet{}, roomy(big))
	l.packet(vnet{}, roomy(tooLarge(1272))) // 1300 octets
	free := udp4("10.1.0.5", "10.2.0.9", 7, 53, 1372)
	l.packet(vnet{}, roomy(free)) // fragmented outside
	l.flush()
	if d := b.Drops(); sent != 3 || d.TooBig != 1 {
		t.Errorf("%d sent, %+v", sent, d)
	}
	m := wait(t, b.tun.out)
	checkTooBig(t, m, big, 1300)
	// Segments count, not what the kernel left together.
	super, at := tcpPacket(false, 0x10)
	super = append(super, make([]byte, 6000)...)
	binary.BigEndian.PutUint16(super[2:], uint16(len(super)))
	super[6] = 0x40
	h := vnet{flags: vnetNeedsCsum, gsoType: gsoTCPv4, gsoSize: 1260, csumStart: uint16(at), csumOffset: 16}
	l.packet(h, roomy(super))
	h.gsoSize = 1261
	l.packet(h, roomy(super))
	l.flush()
	if d := b.Drops(); sent != 3+5 || d.TooBig != 1+5 {
		t.Errorf("%d sent, %+v", sent, d)
	}
	wait(t, b.tun.out)
	for range 3 * tooBigRate { // no flood
		l.packet(vnet{}, roomy(tooLarge(1372)))
		for len(b.tun.out) > 0 {
			<-b.tun.out
			sent++
		}
	}
	if sent-8 > tooBigRate {
		t.Errorf("%d errors in a second", sent-8)
	}
}

// A SYN leaves, and arrives, with a segment size that fits into the tunnel.
func TestSYNIsClamped(t *testing.T) {
	b := newBench(t)
	var sealed []byte
	b.config.Send = func(x *xfrm.Burst) error { sealed = bytes.Clone(x.Packets[0]); return nil }
	out, in := testSA(xfrm.Out, 0x2001), testSA(xfrm.In, 0x1001, back)
	b.apply(t, xfrm.AddSA{SA: out}, xfrm.AddSA{SA: in}, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x2001)})
	b.contents.sas[in.ID].limit.Store(1300)
	peer, err := esp.NewInbound(out)
	if err != nil {
		t.Fatal(err)
	}
	mss := func(p []byte, at int) uint16 { return binary.BigEndian.Uint16(p[at+22:]) }
	p, at := tcpPacket(false, tcpSYN, 2, 4, 0x05, 0xb4)
	l := newLane(b.Driver, b.tun)
	// The kernel leaves the checksum to the device.
	h := vnet{flags: vnetNeedsCsum, csumStart: uint16(at), csumOffset: 16}
	binary.BigEndian.PutUint16(p[at+16:], uint16(pseudo(p[12:20], protoTCP, len(p)-at)))
	l.packet(h, roomy(p))
	l.flush()
	data, _, reason := peer.Open(sealed)
	if reason != esp.Accepted || mss(data, at) != DefaultMTU-40 || tcpSum(data, at) != 0xffff {
		t.Errorf("left as %v, %x", reason, data)
	}
	p, _ = tcpPacket(false, tcpSYN|0x10, 2, 4, 0x05, 0xb4)
	copy(p[12:20], []byte{10, 2, 0, 9, 10, 1, 0, 5})
	if !b.arrived(b.contents.sas[in.ID], p, 0) || mss(p, at) != 1260 || tcpSum(p, at) != 0xffff {
		t.Errorf("arrived as %x", p)
	}
}

// Congestion that was marked on the way reaches the receiver, or costs the packet.
func TestArrivedWithCongestion(t *testing.T) {
	b := newBench(t)
	s := &sa{direction: xfrm.In}
	p := withClass(false, ect0)
	if !b.arrived(s, p, ce) || trafficClass(p) != ce {
		t.Errorf("class %x", trafficClass(p))
	}
	if b.arrived(s, withClass(false, notECT), ce) || !b.arrived(s, withClass(true, ect1), ect0) {
		t.Error("the wrong ones are dropped")
	}
	if c := b.Counters(); c["dropped-in-ecn"] != 1 || c["odd-in-ecn"] != 1 {
		t.Errorf("%v", c)
	}
}

// RFC 4303 section 3.3.3: the number after the last is not sent, and the owner hears at once.
func TestTrap_4303_2_TheLaneStopsBeforeTheSequenceEnds(t *testing.T) {
	for _, esn := range []bool{false, true} {
		b := newBench(t)
		sent := 0
		b.config.Send = func(x *xfrm.Burst) error { sent += len(x.Packets); return nil }
		s := testSA(xfrm.Out, 0x2001)
		s.Suite.ESN = esn
		b.apply(t, xfrm.AddSA{SA: s}, xfrm.PutPolicy{Policy: outPolicy(lanToLAN, 1, 0x2001)})
		last := uint64(math.MaxUint32)
		if esn {
			last = math.MaxUint64
		}
		number := reflect.ValueOf(b.contents.sas[s.ID].out).Elem().FieldByName("seq")
		*(*uint64)(number.Addr().UnsafePointer()) = last - 2
		l := newLane(b.Driver, b.tun)
		for range 5 {
			l.packet(vnet{}, roomy(udp4("10.1.0.5", "10.2.0.9", 1, 2, 0)))
		}
		l.flush()
		if ev := b.event(t); ev != (xfrm.Expire{ID: s.ID, Hard: true}) {
			t.Errorf("event %+v", ev)
		}
		b.quiet(t) // once
		if d := b.Drops(); sent != 2 || d.Sealing != 3 {
			t.Errorf("ESN %v: %d sent, %d dropped", esn, sent, d.Sealing)
		}
	}
}

// What arrives in a packet that met congestion tells so, and what must not carry the mark goes nowhere.
func TestReceiverDuties(t *testing.T) {
	b := newBench(t)
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.In, 0x1001, back)})
	p := newPeer(t, 0x1001)
	capable := udp4("10.2.0.9", "10.1.0.5", 1, 2, 10)
	capable[1] = ect0
	b.Receive(&xfrm.Burst{Local: local, Remote: remote, TOS: ce, Packets: [][]byte{p.seal(t, udp4("10.2.0.9", "10.1.0.5", 1, 2, 10)), p.seal(t, capable)}})
	if got := wait(t, b.tun.out); trafficClass(got) != ce {
		t.Errorf("traffic class %d, want congestion experienced", trafficClass(got))
	}
	if len(b.tun.out) != 0 || b.drops.ecn.Load() != 1 {
		t.Errorf("%d more packets, %d dropped, want 0 and 1", len(b.tun.out), b.drops.ecn.Load())
	}
}
