package userspace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
	"cygnet/xfrm/esp"
)

var (
	everything4 = selector("0.0.0.0/0", "0.0.0.0/0")
	everything6 = selector("::/0", "::/0")
)

// cbcSA is testSA with AES-CBC and HMAC-SHA2-256.
func cbcSA(d xfrm.Direction, spi uint32) xfrm.SA {
	s := testSA(d, spi)
	s.Suite = xfrm.Suite{Encr: alg.EncrAESCBC, KeyBits: 256, Integ: alg.IntegSHA256_128}
	s.EncrKey, s.IntegKey = alg.NewSecret(make([]byte, 32)), alg.NewSecret(make([]byte, 32))
	return s
}

// newSender is a lane for everything into one SA. What it sends is checked to be a Run and opened.
func newSender(t testing.TB, sa xfrm.SA) (b *bench, l *lane, opened *[][]byte) {
	b = newBench(t)
	in, err := esp.NewInbound(sa)
	if err != nil {
		t.Fatal(err)
	}
	opened = new([][]byte)
	b.config.Send = func(x *xfrm.Burst) error {
		at := x.Packets[0][:cap(x.Packets[0])]
		for k, p := range x.Packets {
			switch last := k == len(x.Packets)-1; {
			case &p[0] != &at[0]:
				t.Errorf("packet %d does not follow the one before it", k)
			case len(p) != len(x.Packets[0]) && (!last || len(p) > len(x.Packets[0])):
				t.Errorf("packet %d of %d has %d octets, the first %d", k, len(x.Packets), len(p), len(x.Packets[0]))
			}
			at = at[len(p):]
		}
		total := cap(x.Packets[0]) - len(at)
		if !x.Run || len(x.Packets) > burstPackets || len(x.Packets) > 1 && total > burstOctets || x.Local != local || x.Remote != remote {
			t.Errorf("burst %v -> %v of %d packets, %d octets, run %v", x.Local, x.Remote, len(x.Packets), total, x.Run)
		}
		for k, p := range x.Packets {
			data, _, r := in.Open(bytes.Clone(p))
			if r != esp.Accepted {
				t.Fatalf("packet %d: %v", k, r)
			}
			*opened = append(*opened, data)
		}
		return nil
	}
	b.apply(t, xfrm.AddSA{SA: sa}, xfrm.PutPolicy{Policy: outPolicy(everything4, 1, sa.ID.SPI)}, xfrm.PutPolicy{Policy: outPolicy(everything6, 1, sa.ID.SPI)})
	return b, newLane(b.Driver, nil), opened
}

// What leaves is what the slow segmentation makes, whole and in order, whatever else is in the burst.
func TestSuperPackets(t *testing.T) {
	for name, sa := range map[string]xfrm.SA{"GCM": testSA(xfrm.Out, 0x2001), "CBC": cbcSA(xfrm.Out, 0x2001)} {
		t.Run(name, func(t *testing.T) {
			_, l, opened := newSender(t, sa)
			r := rand.New(rand.NewPCG(11, 1))
			var want [][]byte
			for round := range 120 {
				h, p, upper, header := superPacket(r, round&1 == 0, round&2 == 0)
				want = append(want, segmentSlowly(h, p, upper, header)...)
				l.packet(h, roomy(p))
				if round%5 == 0 {
					single := udp4("10.1.0.5", "10.2.0.9", 1, 2, r.IntN(1300))
					want = append(want, single)
					l.packet(vnet{}, roomy(single))
				}
				if round%3 == 0 { // one whose checksum is left to the device
					single := udp4("10.1.0.5", "10.2.0.9", 1, 2, 9)
					part := bytes.Clone(single)
					c := sum(0).add(single[20:]).checksum()
					single[26], single[27] = byte(c>>8), byte(c)
					want = append(want, single)
					l.packet(vnet{flags: vnetNeedsCsum, csumStart: 20, csumOffset: 6}, roomy(part))
				}
				if round == 60 { // many small ones
					for range 300 {
						single := udp4("10.1.0.5", "10.2.0.9", 1, 2, 9)
						want = append(want, single)
						l.packet(vnet{}, roomy(single))
					}
				}
				if round%7 == 0 {
					l.flush()
				}
			}
			l.flush()
			if len(*opened) != len(want) {
				t.Fatalf("%d packets left, want %d", len(*opened), len(want))
			}
			for k := range want {
				if !bytes.Equal((*opened)[k], want[k]) {
					t.Fatalf("packet %d:\n%x\n%x", k, (*opened)[k], want[k])
				}
			}
		})
	}
}

// upload is a TCP super-packet of some segments with 1000 octets each.
func upload(segments int) (vnet, []byte) {
	p := udp4("10.1.0.5", "10.2.0.9", 1, 2, 12+1000*segments)
	p[9], p[32] = protoTCP, 0x50
	return vnet{flags: vnetNeedsCsum, gsoType: gsoTCPv4, gsoSize: 1000, csumStart: 20, csumOffset: 16}, roomy(p)
}

// Lifetimes are of single packets, in a super-packet too.
func TestSuperPacketAcrossTheHardLimit(t *testing.T) {
	for name, limit := range map[string]func(*xfrm.SA){
		"packets": func(s *xfrm.SA) { s.SoftPackets, s.HardPackets = 5, 13 },
		"octets":  func(s *xfrm.SA) { s.SoftBytes, s.HardBytes = 5*1040, 13*1040 },
	} {
		sa := testSA(xfrm.Out, 0x2001)
		limit(&sa)
		b, l, opened := newSender(t, sa)
		h, p := upload(20)
		l.packet(h, p)
		l.packet(h, p)
		l.flush()
		if len(*opened) != 13 || b.Drops().Sealing != 27 {
			t.Errorf("%s: %d packets left, %d dropped; want 13 and 27", name, len(*opened), b.Drops().Sealing)
		}
		if ev := b.event(t); ev != (xfrm.Expire{ID: sa.ID}) {
			t.Errorf("%s: %+v", name, ev)
		}
		if ev := b.event(t); ev != (xfrm.Expire{ID: sa.ID, Hard: true}) {
			t.Errorf("%s: %+v", name, ev)
		}
		b.quiet(t)
	}
}

func TestSuperPacketWithoutSA(t *testing.T) {
	b, l, opened := newSender(t, testSA(xfrm.Out, 0x2001))
	b.apply(t, xfrm.RemoveSA{ID: testSA(xfrm.Out, 0x2001).ID})
	h, p := upload(20)
	l.packet(h, p)
	l.flush()
	if d := b.Drops(); d.NoSA != 20 || len(*opened) != 0 {
		t.Errorf("%+v, %d left", d, len(*opened))
	}
	h.gsoSize = 0
	if l.packet(h, p); b.Drops().Offload != 1 {
		t.Errorf("%+v", b.Drops())
	}
}

// endless is a device that always has one more packet, which no policy covers.
type endless struct {
	device
	first []byte
	turns int
}

func (e *endless) readAll(take func(vnet, []byte) bool) error {
	if e.turns++; e.turns > 3 {
		return errClosed
	}
	take(vnet{}, roomy(e.first))
	for range 1 << 20 {
		if !take(vnet{}, []byte{0}) {
			return nil
		}
	}
	return errors.New("the lane never looked up")
}

// Packets that go nowhere keep neither the clock nor what is sealed from going on.
func TestLaneLooksUp(t *testing.T) {
	b, _, opened := newSender(t, testSA(xfrm.Out, 0x2001))
	dev := &endless{first: udp4("10.1.0.5", "10.2.0.9", 1, 2, 9)}
	newLane(b.Driver, dev).run()
	if dev.turns != 4 || len(*opened) != 3 {
		t.Errorf("%d packets left in %d turns", len(*opened), dev.turns)
	}
}

func TestNoAllocationOfSuperPackets(t *testing.T) {
	b, l, _ := newSender(t, testSA(xfrm.Out, 0x2001))
	b.config.Send = func(*xfrm.Burst) error { return nil }
	h, p := upload(60)
	before := bytes.Clone(p[:40])
	if n := testing.AllocsPerRun(50, func() {
		copy(p, before)
		l.packet(h, p)
		l.flush()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if b.Drops() != (Drops{}) {
		t.Errorf("%+v", b.Drops())
	}
}

// Whatever the TUN says: no panic, nothing but whole IP packets that the policy covers, and no octet more than came.
func FuzzSuperPacket(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 9))
	var b [vnetLen]byte
	for k := range 4 {
		h, p, _, _ := superPacket(r, k&1 == 0, k&2 == 0)
		h.put(&b)
		f.Add(b[:], p)
	}
	f.Add([]byte{vnetNeedsCsum, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, udp4("10.1.0.5", "10.2.0.9", 1, 2, 9))
	f.Add([]byte{vnetNeedsCsum, 0, 0, 0, 0, 0, 12, 0, 4, 0}, udp4("10.1.0.5", "10.2.0.9", 1, 2, 9)) // would change the destination
	bench, l, opened := newSender(f, testSA(xfrm.Out, 0x2001))
	lan := outPolicy(lanToLAN, 1, 0x2001)
	bench.apply(f, xfrm.RemovePolicy{Slot: outPolicy(everything4, 1, 0).Slot}, xfrm.RemovePolicy{Slot: outPolicy(everything6, 1, 0).Slot}, xfrm.PutPolicy{Policy: lan})
	f.Fuzz(func(t *testing.T, header, p []byte) {
		if len(header) < vnetLen || len(p) > 4096 {
			return
		}
		*opened = nil
		h := parseVnet((*[vnetLen]byte)(header))
		l.packet(h, roomy(p))
		l.flush()
		payload := 0
		for _, q := range *opened {
			g, ok := parse(q)
			if !ok || !matches(&lan.Slot.Selector, &g) {
				t.Fatalf("left: %x", q)
			}
			if h.gsoType != gsoNone {
				if len(q) > l.segments.size+len(l.segments.header) || int(binary.BigEndian.Uint16(q[2:])) != len(q) {
					t.Fatalf("segment of %d octets: %x", len(q), q)
				}
				payload += len(q) - len(l.segments.header)
			}
		}
		if len(*opened) > 0 && h.gsoType != gsoNone && payload != len(p)-len(l.segments.header) {
			t.Fatalf("%d octets of payload left of %d", payload, len(p)-len(l.segments.header))
		}
	})
}

// What a lane does with a packet, alone or one of 48 in one, by the thread's own time, which load does not change.
func BenchmarkOutbound(b *testing.B) {
	for _, c := range []struct {
		name     string
		sa       xfrm.SA
		payload  int
		segments int
	}{
		{"GCM, 64 octets", testSA(xfrm.Out, 0x2001), 64, 0}, {"GCM, 1400 octets", testSA(xfrm.Out, 0x2001), 1372, 0},
		{"GCM, 48 in one", testSA(xfrm.Out, 0x2001), 12 + 48*1348, 48}, {"CBC, 48 in one", cbcSA(xfrm.Out, 0x2001), 12 + 48*1348, 48},
	} {
		b.Run(c.name, func(b *testing.B) {
			d, l, _ := newSender(b, c.sa)
			d.config.Send = func(*xfrm.Burst) error { return nil }
			p, h := roomy(udp4("10.1.0.5", "10.2.0.9", 1, 2, c.payload)), vnet{}
			if c.segments > 0 {
				p[9], p[32] = protoTCP, 0x50
				h = vnet{flags: vnetNeedsCsum, gsoType: gsoTCPv4, gsoSize: 1348, csumStart: 20, csumOffset: 16}
			}
			before := bytes.Clone(p[:40])
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			begun, packets := threadTime(b), 0
			for b.Loop() {
				copy(p, before)
				l.packet(h, p)
				packets += max(1, c.segments)
			}
			b.ReportMetric(float64(threadTime(b)-begun)/float64(packets), "cpu-ns/packet")
		})
	}
}
