package userspace

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// segmentSlowly is what the segmenter must equal: it copies, and computes each checksum over what is there.
func segmentSlowly(h vnet, p []byte, upper, header int) [][]byte {
	var out [][]byte
	payload, id, seq := p[header:], binary.BigEndian.Uint16(p[4:]), uint32(0)
	tcp := h.gsoType != gsoUDP
	if tcp {
		seq = binary.BigEndian.Uint32(p[upper+4:])
	}
	for k := 0; k == 0 || len(payload) > 0; k++ {
		n := min(len(payload), int(h.gsoSize))
		s := append(bytes.Clone(p[:header]), payload[:n]...)
		payload = payload[n:]
		addresses, proto := s[8:min(40, len(s))], byte(17)
		if s[0]>>4 == 4 {
			binary.BigEndian.PutUint16(s[2:], uint16(len(s)))
			binary.BigEndian.PutUint16(s[4:], id+uint16(k))
			s[10], s[11] = 0, 0
			binary.BigEndian.PutUint16(s[10:], ^slowSum(s[:int(s[0]&15)*4]))
			addresses = s[12:20]
		} else {
			binary.BigEndian.PutUint16(s[4:], uint16(len(s)-40))
		}
		at := upper + 6
		if tcp {
			proto, at = 6, upper+16
			binary.BigEndian.PutUint32(s[upper+4:], seq)
			seq += uint32(n)
			if len(payload) > 0 {
				s[upper+13] &^= 0x09
			}
			if k > 0 {
				s[upper+13] &^= 0x80
			}
		} else {
			binary.BigEndian.PutUint16(s[upper+4:], uint16(len(s)-upper))
		}
		s[at], s[at+1] = 0, 0
		whole := binary.BigEndian.AppendUint32(bytes.Clone(addresses), uint32(len(s)-upper))
		whole = append(append(whole, 0, 0, 0, proto), s[upper:]...)
		c := ^slowSum(whole)
		if c == 0 && !tcp {
			c = 0xffff
		}
		binary.BigEndian.PutUint16(s[at:], c)
		out = append(out, s)
	}
	return out
}

// superPacket is a random one as the kernel hands it out: lengths and checksums are not to be believed.
func superPacket(r *rand.Rand, tcp, v6 bool) (h vnet, p []byte, upper, header int) {
	ip := []byte{0x45, 3, 0, 0, 0xff, 0xfe, 0x40, 0, 64, 17, 1, 2, 10, 1, 0, 5, 10, 2, 0, 9}
	if v6 {
		ip = make([]byte, 40, 48)
		ip[0], ip[6], ip[7] = 0x60, 17, 64
		for k := range ip[8:40] {
			ip[8+k] = byte(r.Uint32())
		}
	}
	proto := byte(17)
	if tcp {
		proto = 6
	}
	switch extra := r.IntN(3); {
	case v6 && extra == 0: // destination options
		ip[6] = protoDestOpts
		ip = append(ip, proto, 0, 1, 4, 0, 0, 0, 0)
	case v6:
		ip[6] = proto
	case extra == 0: // no operation four times
		ip[0] = 0x46
		ip = append(ip, 1, 1, 1, 1)
		fallthrough
	default:
		ip[9] = proto
	}
	upper = len(ip)
	transport := make([]byte, 8)
	h = vnet{flags: vnetNeedsCsum, gsoType: gsoUDP, csumStart: uint16(upper), csumOffset: 6}
	if tcp {
		transport = make([]byte, 20+4*r.IntN(11))
		h.gsoType, h.csumOffset = gsoTCPv4, 16
		if v6 {
			h.gsoType = gsoTCPv6
		}
	}
	for k := range transport {
		transport[k] = byte(r.Uint32())
	}
	if tcp {
		transport[12] = byte(len(transport)/4)<<4 | transport[12]&15
	}
	p = append(ip, transport...)
	header = len(p)
	h.hdrLen, h.gsoSize = uint16(r.Uint32()), uint16(1+r.IntN(1500))
	n := r.IntN(min(maxPacket-len(p), 100*int(h.gsoSize)) + 1)
	for range n {
		p = append(p, byte(r.Uint32()))
	}
	if v6 && upper != 40 {
		binary.BigEndian.PutUint16(p[upper+int(h.csumOffset):], uint16(pseudo(p[8:40], proto, len(p)-upper)))
	}
	return h, p, upper, header
}

// A segmenter that writes where the packet lies equals one that copies. A segment is destroyed as soon as it was seen, as sealing may.
func TestSegmenter(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	var g segmenter
	for round := range 600 {
		tcp, v6 := round&1 == 0, round&2 == 0
		h, p, upper, header := superPacket(r, tcp, v6)
		want := segmentSlowly(h, p, upper, header)
		f, ok := parse(p)
		if !ok || !g.load(h, p, &f) {
			t.Fatalf("round %d: refused", round)
		}
		if g.count() != len(want) {
			t.Fatalf("round %d: %d segments, want %d", round, g.count(), len(want))
		}
		for k, w := range want {
			s := g.next()
			if !bytes.Equal(s, w) {
				t.Fatalf("round %d, TCP %v, IPv6 %v: segment %d of %d:\n%x\n%x", round, tcp, v6, k, len(want), s, w)
			}
			clear(s)
		}
		if g.next() != nil {
			t.Fatal("one more segment")
		}
	}
}

func TestSegmenterRefusesLies(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	h, p, upper, header := superPacket(r, true, false)
	for name, change := range map[string]func(h *vnet, p []byte) []byte{
		"no size":                 func(h *vnet, p []byte) []byte { h.gsoSize = 0; return p },
		"other family":            func(h *vnet, p []byte) []byte { h.gsoType = gsoTCPv6; return p },
		"other protocol":          func(h *vnet, p []byte) []byte { h.gsoType = gsoUDP; return p },
		"fragments of UDP":        func(h *vnet, p []byte) []byte { h.gsoType = 3; return p },
		"nothing known":           func(h *vnet, p []byte) []byte { h.gsoType = 77; return p },
		"a fragment":              func(h *vnet, p []byte) []byte { p[6] = 0x20; return p },
		"a later fragment":        func(h *vnet, p []byte) []byte { p[7] = 1; return p },
		"TCP header not whole":    func(h *vnet, p []byte) []byte { return p[:upper+19] },
		"TCP options not whole":   func(h *vnet, p []byte) []byte { p[upper+12] = 0xf0; return p[:upper+59] },
		"TCP header of 16 octets": func(h *vnet, p []byte) []byte { p[upper+12] = 0x40; return p },
	} {
		h, p := h, bytes.Clone(p)
		p = change(&h, p)
		f, ok := parse(p)
		if !ok {
			t.Fatalf("%s: not parsed", name)
		}
		if new(segmenter).load(h, p, &f) {
			t.Errorf("%s: accepted", name)
		}
	}
	_ = header
	udp := udp4("10.1.0.5", "10.2.0.9", 1, 2, 100)
	for _, h := range []vnet{
		{flags: vnetNeedsCsum},
		{flags: vnetNeedsCsum, csumStart: 20, csumOffset: 107},
		{flags: vnetNeedsCsum, csumStart: 0xffff, csumOffset: 0xffff},
	} {
		if complete(h, bytes.Clone(udp)) {
			t.Errorf("%+v: accepted", h)
		}
	}
}

// The checksum of a single packet: the kernel has put the pseudo-header's sum where it belongs.
func TestComplete(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for n := range 64 {
		p := udp4("10.1.0.5", "10.2.0.9", uint16(r.Uint32()), 2, n)
		for k := range p[28:] {
			p[28+k] = byte(r.Uint32())
		}
		binary.BigEndian.PutUint16(p[24:], uint16(8+n))
		want := bytes.Clone(p)
		part := uint16(pseudo(p[12:20], 17, 8+n))
		binary.BigEndian.PutUint16(want[26:], sum(part).add(p[20:]).checksum())
		binary.BigEndian.PutUint16(p[26:], part)
		if !complete(vnet{flags: vnetNeedsCsum, csumStart: 20, csumOffset: 6}, p) || !bytes.Equal(p, want) {
			t.Errorf("%x, want %x", p, want)
		}
		if complete(vnet{flags: vnetDataValid}, p); !bytes.Equal(p, want) {
			t.Error("a complete checksum was changed")
		}
	}
	zero := udp4("10.1.0.5", "10.2.0.9", 0, 0, 0) // all that is summed is ffff: the checksum would be 0
	zero[20], zero[21] = 0xff, 0xff
	if complete(vnet{flags: vnetNeedsCsum, csumStart: 20, csumOffset: 6}, zero); zero[26] != 0xff || zero[27] != 0xff {
		t.Errorf("checksum %x", zero[26:28])
	}
}

func BenchmarkSegmenter(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	h, p, _, _ := superPacket(r, true, false)
	for len(p) < 60000 {
		p = append(p, byte(r.Uint32()))
	}
	h.gsoSize = 1348
	f, _ := parse(p)
	var g segmenter
	saved := bytes.Clone(p[:128])
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		copy(p, saved)
		g.load(h, p, &f)
		for g.next() != nil {
		}
	}
}
