package userspace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cygnet/xfrm"
	"cygnet/xfrm/esp"
)

// sink is a device that keeps what is written to it, taken apart again.
type sink struct {
	device
	have   offloads
	writes int
	got    [][]byte
	err    error
}

func (s *sink) offloads() offloads { return s.have }

func (s *sink) write(h vnet, parts [][]byte) error {
	s.writes++
	packets, err := apart(h, bytes.Join(parts, nil))
	if err == nil && h != (vnet{}) && len(packets) != len(parts) {
		err = fmt.Errorf("%d parts make %d packets", len(parts), len(packets))
	}
	s.err = errors.Join(s.err, err)
	s.got = append(s.got, packets...)
	return nil
}

// apart does what the kernel does with a super-packet, slowly.
func apart(h vnet, p []byte) (packets [][]byte, err error) {
	if h == (vnet{}) {
		return [][]byte{p}, nil
	}
	upper := int(h.csumStart)
	v4 := p[0]>>4 == 4
	proto, addresses := p[6], p[8:upper]
	if v4 {
		proto, addresses = p[9], p[12:20]
		if int(binary.BigEndian.Uint16(p[2:])) != len(p) || slowSum(p[:upper]) != 0xffff {
			return nil, errors.New("length or checksum of the IPv4 header")
		}
	} else if int(binary.BigEndian.Uint16(p[4:])) != len(p)-40 {
		return nil, errors.New("length of the IPv6 header")
	}
	kinds := map[[2]bool]uint8{{true, false}: gsoTCPv4, {false, false}: gsoTCPv6, {true, true}: gsoUDP, {false, true}: gsoUDP}
	if h.flags != vnetNeedsCsum || h.gsoType != kinds[[2]bool{v4, proto == 17}] || h.gsoSize == 0 {
		return nil, fmt.Errorf("header %+v of protocol %d", h, proto)
	}
	overPseudo := func(length int) []byte {
		return append(bytes.Clone(addresses), 0, proto, byte(length>>8), byte(length))
	}
	at := upper + int(h.csumOffset)
	if binary.BigEndian.Uint16(p[at:]) != slowSum(overPseudo(len(p)-upper)) {
		return nil, errors.New("the checksum is not the sum of the pseudo-header")
	}
	body := upper + 8
	if proto == 6 {
		body = upper + int(p[upper+12]>>4)*4
	}
	if int(h.hdrLen) != body {
		return nil, fmt.Errorf("header length %d, want %d", h.hdrLen, body)
	}
	for n, payload := 0, p[body:]; len(payload) > 0; n++ {
		size := min(int(h.gsoSize), len(payload))
		s := append(bytes.Clone(p[:body]), payload[:size]...)
		payload = payload[size:]
		if v4 {
			binary.BigEndian.PutUint16(s[2:], uint16(len(s)))
			binary.BigEndian.PutUint16(s[4:], binary.BigEndian.Uint16(p[4:])+uint16(n))
		} else {
			binary.BigEndian.PutUint16(s[4:], uint16(len(s)-40))
		}
		if proto == 6 {
			binary.BigEndian.PutUint32(s[upper+4:], binary.BigEndian.Uint32(p[upper+4:])+uint32(n)*uint32(h.gsoSize))
			if len(payload) > 0 {
				s[upper+13] &^= 1 | 8 // FIN, PSH
			}
		} else {
			binary.BigEndian.PutUint16(s[upper+4:], uint16(len(s)-upper))
		}
		fixSums(s, upper)
		packets = append(packets, s)
	}
	return packets, nil
}

// fixSums puts the checksums of a TCP or UDP packet right.
func fixSums(p []byte, upper int) {
	proto, addresses, at := p[6], p[8:upper], upper+16
	if p[0]>>4 == 4 {
		proto, addresses = p[9], p[12:20]
		p[10], p[11] = 0, 0
		binary.BigEndian.PutUint16(p[10:], ^slowSum(p[:upper]))
	}
	if proto == 17 {
		at = upper + 6
	}
	p[at], p[at+1] = 0, 0
	length := len(p) - upper
	c := ^slowSum(append(append(bytes.Clone(addresses), 0, proto, byte(length>>8), byte(length)), p[upper:]...))
	if c == 0 && proto == 17 {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(p[at:], c)
}

// testFlow makes the packets of one flow.
type testFlow struct {
	v6, udp bool
	host    byte
	id      uint16
	df      bool
	seq     uint32
	options int // octets of TCP options
	size    int
}

func (f *testFlow) packet(r *rand.Rand, size int, flags byte) []byte {
	upper, length := 20, 20+f.options
	if f.v6 {
		upper = 40
	}
	if f.udp {
		length = 8
	}
	p := make([]byte, upper+length+size)
	for i := upper + length; i < len(p); i++ {
		p[i] = byte(r.Uint32())
	}
	proto := byte(6)
	if f.udp {
		proto = 17
	}
	if f.v6 {
		p[0], p[6], p[7], p[23], p[39] = 0x60, proto, 64, f.host, 9
		binary.BigEndian.PutUint16(p[4:], uint16(len(p)-40))
	} else {
		p[0], p[8], p[9], p[15], p[19] = 0x45, 64, proto, f.host, 9
		if f.df {
			p[6] = 0x40
		}
		binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
		binary.BigEndian.PutUint16(p[4:], f.id)
		f.id++
	}
	t := p[upper:]
	t[1], t[3] = f.host, 80
	if f.udp {
		binary.BigEndian.PutUint16(t[4:], uint16(len(t)))
	} else {
		binary.BigEndian.PutUint32(t[4:], f.seq)
		t[12], t[13], t[14] = byte(length/4)<<4, 0x10|flags, 1
		f.seq += uint32(size)
	}
	fixSums(p, upper)
	return p
}

// damage changes what a run must not hide.
func (f *testFlow) damage(r *rand.Rand, p []byte) []byte {
	upper := 20
	if f.v6 {
		upper = 40
	}
	at := 0
	switch r.IntN(4) {
	case 0: // the payload, say: the checksum is wrong
		p[upper+r.IntN(len(p)-upper)] ^= 1 << r.IntN(8)
		return p
	case 1: // IP header: traffic class, flow label, flags, TTL
		at = []int{1, 3, 6, 7, 8}[r.IntN(5)]
		if !f.v6 && at == 3 {
			at = 1
		}
		if f.v6 && at == 6 || f.v6 && at == 8 {
			at = 7
		}
	case 2: // transport header
		at = upper + []int{0, 4, 7, 8, 11, 13, 14, 15, 18, 20}[r.IntN(10)]
	case 3:
		if f.v6 {
			at = 2
		} else {
			at = 4 + r.IntN(2) // identification
		}
	}
	p[min(at, len(p)-1)] ^= 1 << r.IntN(8)
	if p[0]>>4 == 4 && p[9] == 6 || p[0]>>4 == 6 && p[6] == 6 || f.udp {
		fixSums(p, upper)
	}
	return p
}

// traffic of several flows, mostly in order and whole.
func traffic(r *rand.Rand, packets int) (all [][]byte) {
	flows := make([]testFlow, 1+r.IntN(12))
	for i := range flows {
		flows[i] = testFlow{
			v6: r.IntN(2) == 0, udp: r.IntN(3) == 0, host: byte(i + 1), id: uint16(r.Uint32()), df: r.IntN(2) == 0,
			seq: r.Uint32(), options: r.IntN(4) * 4, size: 1 + r.IntN(1400),
		}
		if r.IntN(4) == 0 {
			flows[i].seq, flows[i].id = 0xffffff00, 0xfffe
		}
	}
	for len(all) < packets {
		f := &flows[r.IntN(len(flows))]
		for n := 1 + r.IntN(80); n > 0; n-- {
			size, flags := f.size, byte(0)
			switch r.IntN(30) {
			case 0:
				size = 1 + r.IntN(f.size)
			case 1:
				size = r.IntN(1400)
			case 2:
				flags = []byte{1, 2, 4, 8, 0x20, 0x40, 0x80}[r.IntN(7)]
			}
			p := f.packet(r, size, flags)
			switch r.IntN(30) {
			case 0:
				p = f.damage(r, p)
			case 1:
				all = append(all, bytes.Clone(p)) // twice
			case 2:
				if len(all) > 0 {
					all = append(all, p)
					p = all[len(all)-2] // overtaken
					all = slices.Delete(all, len(all)-2, len(all)-1)
				}
			case 3:
				continue // lost
			}
			all = append(all, p)
		}
	}
	return all
}

// same reports in what way the packets that came out are not those that went in. Order is asked for within a flow, and of what has no ports it is asked
// with all between its addresses.
func same(in, out [][]byte) error {
	type flowKey struct {
		addresses string
		rest      string
	}
	key := func(p []byte) (k flowKey, odd bool) {
		f, ok := parse(p)
		k.addresses = fmt.Sprint(f.src, f.dst)
		k.rest = fmt.Sprint(f.proto, f.sport, f.dport)
		return k, !ok || !f.ports || f.proto != protoTCP && f.proto != protoUDP
	}
	type record struct {
		packet []byte
		before int // of an odd one: how many between the addresses
	}
	sort := func(packets [][]byte) (map[flowKey][]record, []flowKey) {
		flows, pairs, order := map[flowKey][]record{}, map[string]int{}, []flowKey(nil)
		for _, p := range packets {
			k, odd := key(p)
			r := record{packet: p}
			if odd {
				r.before = pairs[k.addresses]
			}
			pairs[k.addresses]++
			if flows[k] == nil {
				order = append(order, k)
			}
			flows[k] = append(flows[k], r)
		}
		return flows, order
	}
	a, order := sort(in)
	b, _ := sort(out)
	if len(in) != len(out) || len(a) != len(b) {
		return fmt.Errorf("%d packets of %d flows became %d of %d", len(in), len(a), len(out), len(b))
	}
	for _, k := range order {
		if len(a[k]) != len(b[k]) {
			return fmt.Errorf("flow %v: %d packets became %d", k, len(a[k]), len(b[k]))
		}
		for i := range a[k] {
			x, y := bytes.Clone(a[k][i].packet), bytes.Clone(b[k][i].packet)
			if x[0]>>4 == 4 && x[6]&0x40 != 0 && !bytes.Equal(x[4:6], y[4:6]) { // RFC 6864 section 4.1: it means nothing
				if slowSum(x[:20]) == 0xffff != (slowSum(y[:20]) == 0xffff) {
					return fmt.Errorf("flow %v, packet %d: checksum of the IPv4 header", k, i)
				}
				clear(x[4:6])
				clear(y[4:6])
				clear(x[10:12])
				clear(y[10:12])
			}
			if !bytes.Equal(x, y) {
				return fmt.Errorf("flow %v, packet %d of %d:\n%x became\n%x", k, i, len(a[k]), x, y)
			}
			if a[k][i].before != b[k][i].before {
				return fmt.Errorf("flow %v, packet %d: behind %d packets, was behind %d", k, i, b[k][i].before, a[k][i].before)
			}
		}
	}
	return nil
}

// coalesced sends packets through a coalescer that is flushed after each of the numbers of packets.
func coalesced(packets [][]byte, have offloads, flushAfter func() int) *sink {
	s := &sink{have: have}
	c := newCoalescer(func(int) {})
	c.use(s)
	n := flushAfter()
	for _, p := range packets {
		if n--; n < 0 {
			c.flush()
			n = flushAfter()
		}
		c.add(bytes.Clone(p))
	}
	c.flush()
	return s
}

var everything = offloads{header: true, tcp4: true, tcp6: true, udp: true}

// Whatever is merged, the kernel takes it apart into the packets that came.
func TestCoalescedPacketsAreTheSame(t *testing.T) {
	writes, packets := 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		in := traffic(r, 400)
		have := []offloads{everything, everything, {header: true, tcp4: true, tcp6: true}, {header: true, udp: true}, {header: true}, {}}[r.IntN(6)]
		s := coalesced(in, have, func() int { return r.IntN(200) })
		if err := errors.Join(s.err, same(in, s.got)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if have == everything {
			writes, packets = writes+s.writes, packets+len(in)
		} else if have.header == false && s.writes != len(in) {
			t.Fatalf("seed %d: %d packets in %d writes", seed, len(in), s.writes)
		}
	}
	if writes*3 > packets {
		t.Errorf("%d packets in %d writes: hardly anything was merged", packets, writes)
	}
}

// What is merged, and where a run ends.
func TestCoalescing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	flagged := func(f testFlow, n, size int, flags byte) (all [][]byte) {
		for range n {
			all = append(all, f.packet(r, size, flags))
		}
		return all
	}
	steady := func(f testFlow, n int) [][]byte { return flagged(f, n, 1000, 0) }
	change := func(f testFlow, edit func(p []byte)) [][]byte {
		all := steady(f, 4)
		edit(all[2])
		upper := 20
		if f.v6 {
			upper = 40
		}
		fixSums(all[2], upper)
		return all
	}
	tcp4, tcp6, udp4, udp6 := testFlow{host: 1}, testFlow{host: 1, v6: true}, testFlow{host: 1, udp: true}, testFlow{host: 1, udp: true, v6: true}
	both := slices.Collect(func(yield func([]byte) bool) {
		a, b := steady(tcp4, 4), steady(udp4, 4) // of the same ports
		for i := range a {
			_ = yield(a[i]) && yield(b[i])
		}
	})
	pushed := append(steady(tcp4, 3), func() []byte { f := tcp4; f.seq, f.id = 3000, 3; return f.packet(r, 10, 8) }())
	for name, c := range map[string]struct {
		in     [][]byte
		writes int
	}{
		"TCP over IPv4":                      {steady(tcp4, 60), 1},
		"TCP over IPv6":                      {steady(tcp6, 60), 1},
		"UDP over IPv4":                      {steady(udp4, 60), 1},
		"UDP over IPv6":                      {steady(udp6, 60), 1},
		"more than a packet holds":           {flagged(tcp4, 60, 1400, 0), 2},
		"more than the kernel takes apart":   {flagged(udp4, 70, 10, 0), 2},
		"two protocols":                      {both, 2},
		"CWR in each":                        {flagged(tcp4, 3, 100, 0x80), 3},
		"RST in each":                        {flagged(tcp4, 3, 100, 4), 3},
		"SYN in each":                        {flagged(tcp6, 3, 100, 2), 3},
		"URG in each":                        {flagged(tcp6, 3, 100, 0x20), 3},
		"ECE in each":                        {flagged(tcp6, 3, 100, 0x40), 1},
		"nothing in each":                    {flagged(tcp6, 3, 0, 0), 3},
		"a last one that is short, with PSH": {pushed, 1},
		"one alone":                          {steady(tcp4, 1), 1},
		"another acknowledgement":            {change(tcp4, func(p []byte) { p[20+11]++ }), 3},
		"another window":                     {change(tcp6, func(p []byte) { p[40+15]++ }), 3},
		"another sequence number":            {change(tcp4, func(p []byte) { p[20+7]++ }), 3},
		"ECE":                                {change(tcp4, func(p []byte) { p[20+13] |= 0x40 }), 3},
		"CWR":                                {change(tcp4, func(p []byte) { p[20+13] |= 0x80 }), 3},
		"PSH on the way":                     {change(tcp4, func(p []byte) { p[20+13] |= 8 }), 2},
		"congestion experienced":             {change(tcp4, func(p []byte) { p[1] = 3 }), 3},
		"another traffic class":              {change(udp6, func(p []byte) { p[1] |= 0x30 }), 3},
		"another TTL":                        {change(udp4, func(p []byte) { p[8]-- }), 3},
		"another hop limit":                  {change(tcp6, func(p []byte) { p[7]-- }), 3},
		"another flow label":                 {change(tcp6, func(p []byte) { p[3]++ }), 3},
		"another identification":             {change(tcp4, func(p []byte) { p[4]++ }), 3},
		"a fragment":                         {change(udp4, func(p []byte) { p[6] = 0x20 }), 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := coalesced(c.in, everything, func() int { return 1000 })
			if err := errors.Join(s.err, same(c.in, s.got)); err != nil {
				t.Fatal(err)
			}
			if s.writes != c.writes {
				t.Errorf("%d writes, want %d", s.writes, c.writes)
			}
		})
	}
}

// Nobody downstream could find a corrupt packet once its checksum were made anew.
func TestCorruptionIsNotLaundered(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, f := range []testFlow{{host: 1}, {host: 1, v6: true}, {host: 1, udp: true}, {host: 1, udp: true, v6: true}} {
		for bad := range 3 {
			var in [][]byte
			g := f
			for range 3 {
				in = append(in, g.packet(r, 1000, 0))
			}
			in[bad][500] ^= 4
			s := coalesced(in, everything, func() int { return 10 })
			if err := errors.Join(s.err, same(in, s.got)); err != nil {
				t.Errorf("packet %d: %v", bad, err)
			}
		}
	}
}

// Zero has two forms in a ones' complement sum. What the kernel computes has one of them; UDP's other says that there is no checksum.
func TestTheOtherZeroStays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, f := range []testFlow{{host: 1}, {host: 1, v6: true}, {host: 1, udp: true}, {host: 1, udp: true, v6: true}} {
		upper, at, other := 20, 16, uint16(0xffff)
		if f.v6 {
			upper = 40
		}
		if f.udp {
			at, other = 6, 0
		}
		var in [][]byte
		for range 3 {
			p := f.packet(r, 1000, 0)
			clear(p[len(p)-2:])
			fixSums(p, upper)
			copy(p[len(p)-2:], p[upper+at:upper+at+2]) // so that the checksum is zero
			binary.BigEndian.PutUint16(p[upper+at:], other)
			in = append(in, p)
		}
		s := coalesced(in, everything, func() int { return 10 })
		if err := errors.Join(s.err, same(in, s.got)); err != nil || s.writes != len(in) {
			t.Errorf("%+v: %d writes, want %d; %v", f, s.writes, len(in), err)
		}
		for _, p := range in {
			fixSums(p, upper)
		}
		if s := coalesced(in, everything, func() int { return 10 }); s.writes != 1 {
			t.Errorf("%+v: the kernel's zero is not merged", f)
		}
	}
}

func FuzzCoalesce(f *testing.F) {
	join := func(packets [][]byte) (b []byte) {
		for _, p := range packets {
			b = binary.BigEndian.AppendUint16(b, uint16(len(p)))
			b = append(b, p...)
		}
		return b
	}
	for seed := range uint64(4) {
		f.Add(uint8(7), uint8(20), join(traffic(rand.New(rand.NewPCG(seed, 7)), 12)))
	}
	f.Fuzz(func(t *testing.T, kinds, every uint8, b []byte) {
		var in [][]byte
		for len(b) > 2 {
			n := min(int(binary.BigEndian.Uint16(b)), len(b)-2)
			data := b[2 : 2+n]
			b = b[2+n:]
			next := uint8(esp.NextIPv6)
			if n > 0 && data[0]>>4 == 4 {
				next = esp.NextIPv4
			}
			if p, r := esp.Datagram(data, next); r == esp.Accepted {
				in = append(in, p)
			}
		}
		have := offloads{header: kinds&8 == 0, tcp4: kinds&1 != 0, tcp6: kinds&2 != 0, udp: kinds&4 != 0}
		s := coalesced(in, have, func() int { return int(every) })
		if err := errors.Join(s.err, same(in, s.got)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestCoalescingAllocatesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var in [][]byte
	for i := range 12 {
		f := testFlow{host: byte(i), v6: i%2 == 0, udp: i%3 == 0}
		for range 20 {
			in = append(in, f.packet(r, 1000, 0))
		}
	}
	dev := &nowhere{}
	c := newCoalescer(func(int) {})
	c.use(dev)
	if n := testing.AllocsPerRun(20, func() {
		for _, p := range in {
			c.add(p)
		}
		c.flush()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// nowhere is a device that takes everything.
type nowhere struct{}

func (*nowhere) offloads() offloads                    { return everything }
func (*nowhere) write(vnet, [][]byte) error            { return nil }
func (*nowhere) Close() error                          { return nil }
func (*nowhere) readAll(func(vnet, []byte) bool) error { return errClosed }

// A receiver without the device for it delivers each packet as it is; with it, packets that More holds together are merged.
func TestMoreHoldsPackets(t *testing.T) {
	b := newBench(t)
	s := &sink{have: everything}
	var dev device = s
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.In, 0x1001, selector("0.0.0.0/0", "0.0.0.0/0"))})
	p, f, r := newPeer(t, 0x1001), testFlow{host: 1}, rand.New(rand.NewPCG(1, 1))
	real := b.dev.Swap(&dev)
	defer b.dev.Store(real)
	var in [][]byte
	for i := range 6 {
		inner := f.packet(r, 500, 0)
		in = append(in, inner)
		b.Receive(&xfrm.Burst{Local: local, Remote: remote, Packets: [][]byte{p.seal(t, inner)}, More: i < 4})
		if i == 3 && s.writes != 0 {
			t.Error("written although more was to follow")
		}
	}
	b.Receive(&xfrm.Burst{})
	if err := errors.Join(s.err, same(in, s.got)); err != nil || s.writes != 2 {
		t.Errorf("%d writes, want 2; %v", s.writes, err)
	}
	b.Receive(&xfrm.Burst{Local: local, Remote: remote, Packets: [][]byte{p.seal(t, f.packet(r, 500, 0))}, More: true})
	if b.Receive(&xfrm.Burst{}); s.writes != 3 {
		t.Error("an empty burst does not end the waiting")
	}
}

func BenchmarkCoalesce(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, size := range []int{64, 1360} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			f := testFlow{host: 1}
			var in [][]byte
			for range 44 {
				in = append(in, f.packet(r, size, 0))
			}
			head := bytes.Clone(in[0])
			c := newCoalescer(func(int) {})
			c.use(&nowhere{})
			b.SetBytes(int64(size + 40))
			for i := 0; i < b.N; i++ {
				n := i % len(in)
				if n == 0 {
					c.flush()
					copy(in[0], head)
				}
				c.add(in[n])
			}
		})
	}
}
