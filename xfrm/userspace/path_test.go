package userspace

import (
	"errors"
	"net/netip"
	"testing"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// The longest inner packets in an outer MTU of 1500: IPv4 plain, IPv4 in UDP, IPv6 plain, IPv6 in UDP.
func TestInnerMTU(t *testing.T) {
	four, six := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	for name, c := range map[string]struct {
		suite xfrm.Suite
		want  [4]int
	}{
		"AES-GCM":                 {xfrm.Suite{Encr: alg.EncrAESGCM16, KeyBits: 256}, [4]int{1446, 1438, 1426, 1418}},
		"ChaCha20-Poly1305":       {xfrm.Suite{Encr: alg.EncrChaCha20Poly1305, KeyBits: 256}, [4]int{1446, 1438, 1426, 1418}},
		"AES-CBC and SHA2-256":    {xfrm.Suite{Encr: alg.EncrAESCBC, KeyBits: 256, Integ: alg.IntegSHA256_128}, [4]int{1438, 1422, 1406, 1406}},
		"AES-CBC and SHA2-384":    {xfrm.Suite{Encr: alg.EncrAESCBC, KeyBits: 256, Integ: alg.IntegSHA384_192}, [4]int{1422, 1422, 1406, 1390}},
		"AES-CBC and SHA2-512":    {xfrm.Suite{Encr: alg.EncrAESCBC, KeyBits: 256, Integ: alg.IntegSHA512_256}, [4]int{1422, 1406, 1390, 1390}},
		"a suite that is not one": {xfrm.Suite{Encr: 3}, [4]int{}},
	} {
		for n, want := range c.want {
			s := xfrm.SA{Src: four, Suite: c.suite}
			if n >= 2 {
				s.Src = six
			}
			if n%2 == 1 {
				s.Encap = &xfrm.Encap{}
			}
			if got := innerMTU(&s, 1500); got != want {
				t.Errorf("%s: %d octets in case %d, want %d", name, got, n, want)
			}
		}
	}
}

func TestLearnPaths(t *testing.T) {
	b := newBench(t)
	mtu, failure, asked := 1500, error(nil), 0
	b.config.MTU = 9000
	b.config.PathMTU = func(l, r netip.Addr) (int, error) {
		asked++
		if l != local.Addr() || r == local.Addr() {
			t.Errorf("asked for the path from %v to %v", l, r)
		}
		return mtu, failure
	}
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.Out, 0x2001)}, xfrm.AddSA{SA: testSA(xfrm.In, 0x1001)})
	out, in := b.contents.sas[testSA(xfrm.Out, 0x2001).ID], b.contents.sas[testSA(xfrm.In, 0x1001).ID]
	expect := func(now int64, times, limit int) {
		t.Helper()
		asked = 0
		b.learnPaths(now)
		if asked != times || b.limitOf(out) != limit || b.limitOf(in) != limit {
			t.Errorf("at %d: asked %d times, limits %d and %d; want %d times, %d", now, asked, b.limitOf(out), b.limitOf(in), times, limit)
		}
	}
	if b.limitOf(out) != 9000 {
		t.Errorf("limit %d before anything is known", b.limitOf(out))
	}
	expect(1000, 1, 1438) // both SAs have one path
	mtu = 1400
	expect(1001, 0, 1438)
	expect(1000+pathAge, 1, 1338)
	mtu = 65535
	expect(1000+2*pathAge, 1, 9000) // wider than the TUN
	mtu = 30
	expect(1000+3*pathAge, 1, 1) // nothing fits: fits() has the floor
	failure = errors.New("no route")
	expect(1000+4*pathAge, 1, 9000)
	// A new path is asked for at once.
	failure, mtu = nil, 1500
	b.apply(t, xfrm.MoveSA{ID: testSA(xfrm.Out, 0x2001).ID, Src: local.Addr(), Dst: netip.MustParseAddr("198.51.100.8")})
	asked = 0
	if b.learnPaths(1001 + 4*pathAge); asked != 1 || b.limitOf(out) != 1446 {
		t.Errorf("after a move: asked %d times, limit %d", asked, b.limitOf(out))
	}
}

// What the host says of the path that an SA had does not stand for the path that it has got meanwhile.
func TestPathOfAnSAThatMoves(t *testing.T) {
	b := newBench(t)
	b.config.MTU = 9000
	id, elsewhere := testSA(xfrm.Out, 0x2001).ID, netip.MustParseAddr("198.51.100.8")
	b.config.PathMTU = func(_, r netip.Addr) (int, error) {
		if r == elsewhere {
			return 1400, nil
		}
		b.apply(t, xfrm.MoveSA{ID: id, Src: local.Addr(), Dst: elsewhere})
		return 1500, nil
	}
	b.apply(t, xfrm.AddSA{SA: testSA(xfrm.Out, 0x2001)})
	s := b.contents.sas[id]
	b.learnPaths(1000)
	if b.learnPaths(1001); b.limitOf(s) != 1346 {
		t.Errorf("limit %d", b.limitOf(s))
	}
}
