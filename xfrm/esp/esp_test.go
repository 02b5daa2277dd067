package esp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// suites are all that are implemented, with and without ESN.
func suites() []xfrm.Suite {
	var all []xfrm.Suite
	for _, c := range alg.Ciphers() {
		for _, bits := range c.KeyBits {
			for _, esn := range []bool{false, true} {
				if c.AEAD() {
					all = append(all, xfrm.Suite{Encr: c.ID, KeyBits: bits, ESN: esn})
					continue
				}
				for _, m := range alg.MACs() {
					all = append(all, xfrm.Suite{Encr: c.ID, KeyBits: bits, Integ: m.ID, ESN: esn})
				}
			}
		}
	}
	return all
}

func name(s xfrm.Suite) string {
	n := alg.Describe(s.Encr, s.KeyBits)
	if s.Integ != alg.IntegNone {
		n += "+" + alg.DescribeMAC(s.Integ)
	}
	if s.ESN {
		n += "+ESN"
	}
	return n
}

func each(t *testing.T, f func(*testing.T, xfrm.SA)) {
	for _, s := range suites() {
		t.Run(name(s), func(t *testing.T) { f(t, newSA(t, s)) })
	}
}

func newSA(t testing.TB, s xfrm.Suite) xfrm.SA {
	t.Helper()
	encr, integ, err := alg.KeyLens(s.Encr, s.KeyBits, s.Integ)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{1})
	key := make([]byte, encr+integ)
	random.Read(key)
	return xfrm.SA{
		ID:      xfrm.SAID{SPI: 0xc0ffee01, Proto: xfrm.ProtoESP},
		Suite:   s,
		EncrKey: secret(key[:encr]), IntegKey: secret(key[encr:]),
	}
}

func pair(t testing.TB, sa xfrm.SA) (*Outbound, *Inbound) {
	t.Helper()
	out, err := NewOutbound(sa, rand.NewChaCha8([32]byte{2}))
	if err != nil {
		t.Fatal(err)
	}
	in, err := NewInbound(sa)
	if err != nil {
		t.Fatal(err)
	}
	return out, in
}

func seal(t testing.TB, o *Outbound, inner []byte, next uint8) []byte {
	t.Helper()
	p, err := o.Seal(nil, roomy(inner), next)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// roomy is a copy of an inner packet with room for the trailer behind it.
func roomy(inner []byte) []byte { return append(make([]byte, 0, len(inner)+TrailerRoom), inner...) }

func TestSealOpen(t *testing.T) {
	each(t, func(t *testing.T, sa xfrm.SA) {
		out, in := pair(t, sa)
		for n := range 100 {
			inner := bytes.Repeat([]byte{byte(n)}, n*7)
			prefix := []byte{1, 2, 3}
			room := append(bytes.Clone(inner), bytes.Repeat([]byte{0xee}, TrailerRoom)...)
			before := bytes.Clone(room)
			p, err := out.Seal(prefix, room[:len(inner)], NextIPv6)
			if !bytes.Equal(room, before) {
				t.Fatalf("%d octets: what was there is changed: %x", len(inner), room)
			}
			if err != nil || !bytes.HasPrefix(p, prefix) {
				t.Fatal(err)
			}
			p = p[len(prefix):]
			if len(p) != out.Len(len(inner)) {
				t.Fatalf("%d octets, Len says %d", len(p), out.Len(len(inner)))
			}
			if bytes.Contains(p, inner) && n > 1 {
				t.Fatal("clear text in the packet")
			}
			data, next, r := in.Open(p)
			if r != Accepted || next != NextIPv6 || !bytes.Equal(data, inner) {
				t.Fatalf("%d octets: %v, next header %d, %x", len(inner), r, next, data)
			}
			if out.Sequence() != uint64(n+1) || in.Sequence() != uint64(n+1) {
				t.Fatalf("sequence numbers %d and %d, want %d", out.Sequence(), in.Sequence(), n+1)
			}
		}
	})
}

// Any changed octet, SPI and IV included, and any other length is refused, changes nothing, and the genuine packet still passes.
func TestForgeries(t *testing.T) {
	each(t, func(t *testing.T, sa xfrm.SA) {
		out, in := pair(t, sa)
		p := seal(t, out, []byte("an inner packet of no great length"), NextIPv4)
		for k := range p {
			forged := bytes.Clone(p)
			forged[k] ^= 0x40
			if data, _, r := in.Open(forged); r == Accepted || data != nil {
				t.Fatalf("octet %d changed: %v", k, r)
			}
		}
		for n := range len(p) {
			if data, _, r := in.Open(bytes.Clone(p[:n])); r == Accepted || data != nil {
				t.Fatalf("first %d octets: %v", n, r)
			}
		}
		for n := 1; n < 40; n++ {
			if _, _, r := in.Open(append(bytes.Clone(p), make([]byte, n)...)); r == Accepted {
				t.Fatalf("%d more octets: %v", n, r)
			}
		}
		if in.Sequence() != 0 {
			t.Fatalf("a forgery moved the window to %d", in.Sequence())
		}
		if _, _, r := in.Open(p); r != Accepted {
			t.Fatalf("the genuine packet: %v", r)
		}
	})
}

func TestNoAllocation(t *testing.T) {
	each(t, func(t *testing.T, sa xfrm.SA) {
		out, in := pair(t, sa)
		inner := make([]byte, 1400, 1400+TrailerRoom)
		buf := make([]byte, 0, 2048)
		var failed error
		if n := testing.AllocsPerRun(100, func() {
			p, err := out.Seal(buf, inner, NextIPv4)
			if err != nil {
				failed = err
			}
			if _, _, r := in.Open(p); r != Accepted {
				failed = errors.New(r.String())
			}
			if _, _, r := in.Open(p); r != Replayed {
				failed = errors.New(r.String())
			}
		}); n != 0 || failed != nil {
			t.Errorf("%v allocations a packet, error %v", n, failed)
		}
	})
}

func TestTrap_4303_1_SPI(t *testing.T) {
	for _, spi := range []uint32{0, 1, 255} {
		sa := newSA(t, suites()[0])
		sa.ID.SPI = spi
		if _, err := NewOutbound(sa, nil); err == nil {
			t.Errorf("SPI %d can be sent", spi)
		}
	}
	sa := newSA(t, suites()[0])
	sa.ID.SPI = 256
	if _, err := NewOutbound(sa, nil); err != nil {
		t.Errorf("SPI 256: %v", err)
	}
}

func TestTrap_4303_2_SequenceNeverCycles(t *testing.T) {
	each(t, func(t *testing.T, sa xfrm.SA) {
		out, in := pair(t, sa)
		if p := seal(t, out, nil, NextIPv4); binary.BigEndian.Uint32(p[4:]) != 1 {
			t.Errorf("first number is %x", p[4:8])
		}
		last := uint64(math.MaxUint32)
		if sa.Suite.ESN {
			last = math.MaxUint64
		}
		out.seq, in.window.top = last-1, last-1
		if _, _, r := in.Open(seal(t, out, nil, NextIPv4)); r != Accepted {
			t.Errorf("the last packet: %v", r)
		}
		buf := []byte{1}
		for range 3 {
			if p, err := out.Seal(buf, roomy(nil), NextIPv4); !errors.Is(err, ErrSequence) || len(p) != 1 {
				t.Fatalf("past the last number: %v", err)
			}
		}
		// What would be number 0, with a good ICV.
		fresh := receiver(t, sa, 1)
		plain := make([]byte, out.block)
		putTrailer(plain, NextIPv4)
		if _, _, r := fresh.Open(sealWith(t, sa, 0, make([]byte, out.iv), plain)); r != Replayed {
			t.Errorf("number 0: %v", r)
		}
	})
}

func TestTrap_4303_3_WindowMovesAfterICV(t *testing.T) {
	sa := newSA(t, suites()[0])
	out, in := pair(t, sa)
	first := seal(t, out, nil, NextIPv4)
	forged := bytes.Clone(first)
	binary.BigEndian.PutUint32(forged[4:], 1<<30)
	if _, _, r := in.Open(forged); r != Integrity || in.Sequence() != 0 {
		t.Fatalf("%v, window at %d", r, in.Sequence())
	}
	if _, _, r := in.Open(bytes.Clone(first)); r != Accepted {
		t.Fatal(r)
	}
	if _, _, r := in.Open(bytes.Clone(first)); r != Replayed {
		t.Fatalf("second time: %v", r)
	}
	for _, c := range []struct{ replay, want uint32 }{{0, 64}, {32, 64}, {64, 64}, {100, 100}, {4096, 4096}, {math.MaxUint32, 4096}} {
		sa.Replay = c.replay
		if _, in := pair(t, sa); in.window.size != uint64(c.want) {
			t.Errorf("window %d for %d", in.window.size, c.replay)
		}
	}
}

func TestTrap_4303_4_ESN(t *testing.T) {
	each(t, func(t *testing.T, sa xfrm.SA) {
		if !sa.Suite.ESN {
			return
		}
		out, in := pair(t, sa)
		wrap := uint64(7)<<32 - 3 // the packets cross a subspace
		out.seq, in.window.top = wrap-1, wrap-1
		var packets [][]byte
		for range 6 {
			packets = append(packets, seal(t, out, []byte("inner"), NextIPv4))
		}
		for _, k := range []int{2, 3, 0, 5, 1, 4} { // case A, case B, late ones on both sides
			if _, _, r := in.Open(packets[k]); r != Accepted {
				t.Errorf("packet %x after %x: %v", wrap+uint64(k), in.Sequence(), r)
			}
		}
		// The high half is authenticated: a receiver that is one subspace behind refuses.
		late := receiver(t, sa, 6<<32-2)
		if _, _, r := late.Open(seal(t, out, []byte("inner"), NextIPv4)); r != Integrity {
			t.Errorf("other high half: %v", r)
		}
	})
}

func TestTrap_4303_5_Padding(t *testing.T) {
	each(t, func(t *testing.T, sa xfrm.SA) {
		out, _ := pair(t, sa)
		iv := bytes.Repeat([]byte{3}, out.iv)
		block := func(tail ...byte) []byte { return append(make([]byte, 16-len(tail)), tail...) }
		for _, c := range []struct {
			name string
			data []byte
			want Reason
			left int
		}{
			{"1, 2, 3", block(1, 2, 3, 3, NextIPv4), Accepted, 11},
			{"none", block(0, NextIPv4), Accepted, 14},
			{"all", block(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 14, NextIPv4), Accepted, 0},
			{"zeros", block(0, 0, 0, 3, NextIPv4), Padding, 0},
			{"last octet differs", block(1, 2, 4, 3, NextIPv4), Padding, 0},
			{"longer than the data", block(15, NextIPv4), Padding, 0},
			{"255", block(255, NextIPv4), Padding, 0},
		} {
			in := receiver(t, sa, 1)
			data, _, r := in.Open(sealWith(t, sa, 1, iv, c.data))
			if r != c.want || len(data) != c.left {
				t.Errorf("%s: %v, %d octets", c.name, r, len(data))
			}
			if in.Sequence() != 1 {
				t.Errorf("%s: an authenticated packet does not count for the window", c.name)
			}
		}
		for n := range 40 {
			p := seal(t, out, make([]byte, n), NextIPv4)
			if (len(p)-out.icv)%4 != 0 || (len(p)-out.icv-headerLen-out.iv)%out.block != 0 {
				t.Errorf("%d octets of data: packet of %d octets is not aligned", n, len(p))
			}
		}
	})
}

func TestTrap_4303_6_Dummy(t *testing.T) {
	out, in := pair(t, newSA(t, suites()[0]))
	if data, _, r := in.Open(seal(t, out, []byte("random octets"), NextDummy)); r != Dummy || data != nil || in.Sequence() != 1 {
		t.Errorf("%v, %x, window at %d", r, data, in.Sequence())
	}
}

func TestTrap_4303_7_TFC(t *testing.T) {
	v4 := append([]byte{0x45, 0, 0, 24}, make([]byte, 20)...)
	v6 := append([]byte{0x60, 0, 0, 0, 0, 8}, make([]byte, 42)...)
	for _, c := range []struct {
		name string
		data []byte
		next uint8
		want int // octets; -1: refused
	}{
		{"IPv4", v4, NextIPv4, 24},
		{"IPv4 header alone", append([]byte{0x45, 0, 0, 20}, make([]byte, 16)...), NextIPv4, 20},
		{"IPv4 with TFC padding", append(bytes.Clone(v4), 9, 9, 9), NextIPv4, 24},
		{"IPv4 cut short", v4[:23], NextIPv4, -1},
		{"IPv4 as IPv6", v4, NextIPv6, -1},
		{"IPv6", v6, NextIPv6, 48},
		{"IPv6 with TFC padding", append(bytes.Clone(v6), 9), NextIPv6, 48},
		{"IPv6 cut short", v6[:47], NextIPv6, -1},
		{"IPv6 as IPv4", v6, NextIPv4, -1},
		{"header beyond the total", append([]byte{0x4f, 0, 0, 24}, make([]byte, 56)...), NextIPv4, -1},
		{"short header", append([]byte{0x44, 0, 0, 24}, make([]byte, 20)...), NextIPv4, -1},
		{"nothing", nil, NextIPv4, -1},
		{"UDP", v4, 17, -1},
	} {
		d, r := Datagram(c.data, c.next)
		if ok := r == Accepted; ok != (c.want >= 0) || ok && len(d) != c.want {
			t.Errorf("%s: %v, %d octets", c.name, r, len(d))
		}
	}
}

func TestTrap_4303_8_NoProtection(t *testing.T) {
	key := make([]byte, 64)
	for _, s := range []xfrm.Suite{
		{},                                   // no cipher at all
		{Encr: alg.EncrAESCBC, KeyBits: 256}, // no integrity
		{Encr: alg.EncrAESGCM16, KeyBits: 256, Integ: alg.IntegSHA256_128},          // two
		{Encr: 11 /* NULL */, Integ: alg.IntegNone},                                 // nothing
		{Encr: alg.EncrAESCBC, KeyBits: 255, Integ: alg.IntegSHA256_128},            // no such key length
		{Encr: alg.EncrAESCBC, KeyBits: 256, Integ: alg.Integ(5) /* AES-XCBC-96 */}, // not implemented
	} {
		for n := range key {
			sa := xfrm.SA{ID: xfrm.SAID{SPI: 999}, Suite: s, EncrKey: secret(key[:n]), IntegKey: secret(key[:32])}
			if _, err := NewOutbound(sa, rand.NewChaCha8([32]byte{})); err == nil {
				t.Errorf("%+v: sender", s)
			}
			if _, err := NewInbound(sa); err == nil {
				t.Errorf("%+v: receiver", s)
			}
		}
	}
	for _, s := range suites() { // wrong key lengths
		for _, d := range []int{-1, 1} {
			sa := newSA(t, s)
			sa.EncrKey = secret(make([]byte, sa.EncrKey.Len()+d))
			if _, err := NewInbound(sa); err == nil {
				t.Errorf("%s: key of %d octets", name(s), sa.EncrKey.Len())
			}
			sa = newSA(t, s)
			sa.IntegKey = secret(make([]byte, max(0, sa.IntegKey.Len()+d)))
			if _, err := NewInbound(sa); err == nil && sa.IntegKey.Len() > 0 {
				t.Errorf("%s: integrity key of %d octets", name(s), sa.IntegKey.Len())
			}
		}
	}
}

func TestTrap_4303_10_IVsNeverRepeat(t *testing.T) {
	each(t, func(t *testing.T, sa xfrm.SA) {
		out, _ := pair(t, sa)
		seen := map[string]bool{}
		for range 1000 {
			p := seal(t, out, nil, NextIPv4)
			iv := string(p[headerLen : headerLen+out.iv])
			if seen[iv] {
				t.Fatalf("IV %x twice", iv)
			}
			seen[iv] = true
		}
	})
}

func TestTrap_4303_11_CBCIVsAreUnpredictable(t *testing.T) {
	sa := cbc(make([]byte, 32))
	var first [2][]byte
	for k := range first {
		out, err := NewOutbound(sa, rand.NewChaCha8([32]byte{byte(k)}))
		if err != nil {
			t.Fatal(err)
		}
		first[k] = seal(t, out, nil, NextIPv4)[headerLen : headerLen+16]
	}
	if bytes.Equal(first[0], first[1]) || bytes.Equal(first[0], make([]byte, 16)) {
		t.Errorf("IVs %x", first)
	}
	if _, err := NewOutbound(sa, bytes.NewReader(make([]byte, 47))); err == nil {
		t.Error("made without a whole seed")
	}
}

func TestTrap_4303_14_Short(t *testing.T) {
	each(t, func(t *testing.T, sa xfrm.SA) {
		out, in := pair(t, sa)
		least := out.Len(0)
		for n := range least {
			if _, _, r := in.Open(make([]byte, n)); r != Malformed {
				t.Errorf("%d octets: %v", n, r)
			}
		}
		for n := 1; n < out.block; n++ {
			if _, _, r := in.Open(bytes.Repeat([]byte{1}, least+n)); r != Malformed {
				t.Errorf("%d octets, not aligned: %v", least+n, r)
			}
		}
		if _, _, r := in.Open(bytes.Repeat([]byte{1}, least)); r != Integrity && r != Replayed {
			t.Errorf("%d octets: %v", least, r)
		}
	})
}

func TestWipe(t *testing.T) {
	out, in := pair(t, newSA(t, suites()[0]))
	p := seal(t, out, nil, NextIPv4)
	out.Wipe()
	in.Wipe()
	if q, err := out.Seal(nil, nil, NextIPv4); !errors.Is(err, ErrWiped) || q != nil {
		t.Errorf("sealed after Wipe: %v", err)
	}
	if _, _, r := in.Open(p); r != Wiped {
		t.Errorf("opened after Wipe: %v", r)
	}
}

// The table of inner sizes for an outer MTU of 1500: IPv4 and IPv6, ESP in UDP and plain.
func TestMaxInner(t *testing.T) {
	gcm := xfrm.Suite{Encr: alg.EncrAESGCM16, KeyBits: 256}
	with := func(i alg.Integ) xfrm.Suite { return xfrm.Suite{Encr: alg.EncrAESCBC, KeyBits: 256, Integ: i} }
	for _, c := range []struct {
		suite                       xfrm.Suite
		v4, v4udp, v6, v6udp, pppoe int
	}{
		{gcm, 1446, 1438, 1426, 1418, 1430},
		{with(alg.IntegSHA256_128), 1438, 1422, 1406, 1406, 1422},
		{with(alg.IntegSHA384_192), 1422, 1422, 1406, 1390, 1406},
		{with(alg.IntegSHA512_256), 1422, 1406, 1390, 1390, 1406},
	} {
		for room, want := range map[int]int{1480: c.v4, 1472: c.v4udp, 1460: c.v6, 1452: c.v6udp, 1464: c.pppoe} {
			if got, ok := MaxInner(c.suite, room); !ok || got != want {
				t.Errorf("%s in %d: %d, want %d", name(c.suite), room, got, want)
			}
		}
	}
	for _, s := range suites() {
		for room := range 1600 {
			n, ok := MaxInner(s, room)
			if !ok {
				continue
			}
			if fits, _ := Overhead(s, n); fits > room {
				t.Fatalf("%s: %d octets make %d, room %d", name(s), n, fits, room)
			}
			if more, _ := Overhead(s, n+1); more <= room {
				t.Fatalf("%s: %d octets would fit %d too", name(s), n+1, room)
			}
		}
	}
}

func TestReasonNames(t *testing.T) {
	var names []string
	for r := range Reasons + 1 {
		names = append(names, r.String())
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != int(Reasons)+1 || names[0] == "" {
		t.Errorf("%q", names)
	}
}

func FuzzOpen(f *testing.F) {
	list := suites()
	for k, s := range list {
		out, _ := pair(f, newSA(f, s))
		f.Add(uint8(k), uint64(0), seal(f, out, []byte("inner"), NextIPv4))
		f.Add(uint8(k), uint64(1)<<33, seal(f, out, nil, NextDummy))
	}
	f.Add(uint8(0), uint64(math.MaxUint64), make([]byte, 64))
	f.Fuzz(func(t *testing.T, which uint8, top uint64, packet []byte) {
		sa := newSA(t, list[int(which)%len(list)])
		in, err := NewInbound(sa)
		if err != nil {
			t.Fatal(err)
		}
		if !sa.Suite.ESN {
			top &= math.MaxUint32
		}
		in.window.top = top
		before := bytes.Clone(packet)
		data, _, r := in.Open(packet)
		switch r {
		case Accepted:
			if len(data) > len(packet) {
				t.Fatal("more data than packet")
			}
		case Malformed, Replayed:
			if !bytes.Equal(before, packet) {
				t.Fatal("a refused packet was changed")
			}
		}
		if r == Accepted || r == Dummy || r == Padding {
			if _, _, again := in.Open(before); again != Replayed {
				t.Fatalf("second time: %v", again)
			}
		} else if in.Sequence() != top || data != nil {
			t.Fatalf("%v moved the window or gave data", r)
		}
	})
}

func BenchmarkSeal(b *testing.B) { benchmark(b, false) }
func BenchmarkOpen(b *testing.B) { benchmark(b, true) }

func benchmark(b *testing.B, open bool) {
	for _, s := range suites() {
		if s.ESN || s.KeyBits != 256 {
			continue
		}
		for _, size := range []int{64, 576, 1400, 9000} {
			b.Run(fmt.Sprintf("%s/%d", name(s), size), func(b *testing.B) {
				out, in := pair(b, newSA(b, s))
				buf, inner := make([]byte, 0, size+128), roomy(make([]byte, size))
				p := seal(b, out, inner, NextIPv4)
				scratch := bytes.Clone(p)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					if !open {
						buf, _ = out.Seal(buf[:0], inner, NextIPv4)
						continue
					}
					copy(scratch, p)
					in.window = window{size: in.window.size, ring: in.window.ring}
					clear(in.window.ring)
					if _, _, r := in.Open(scratch); r != Accepted {
						b.Fatal(r)
					}
				}
			})
		}
	}
}

func TestThisBuildEncrypts(t *testing.T) {
	if NullCrypto || newNull() != nil {
		t.Error("a build without the benchmark's tag has its transform")
	}
}
