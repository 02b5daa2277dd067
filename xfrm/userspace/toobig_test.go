package userspace

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

// RFC 4301 section 8.2.1: who is told that a packet is too big, and who is not.
func TestTrap_4301_7_TooBig(t *testing.T) {
	df := func(p []byte) []byte { p[6] |= 0x40; return p }
	four, six := df(udp4("10.1.0.5", "10.2.0.9", 7, 53, 1372)), udp6("fd01::5", "fd02::9", 7, 53, 1352)
	free := udp4("10.1.0.5", "10.2.0.9", 7, 53, 1372)
	for _, c := range []struct {
		name  string
		p     []byte
		limit int
		fits  bool
		mtu   int
	}{
		{"IPv4", four, 1399, false, 1399},
		{"IPv4 that fits", four, 1400, true, 0},
		{"IPv4 without DF", free, 1000, true, 0},
		{"IPv4, and a forged path", four, 68, false, leastMTU4},
		{"IPv6", six, 1399, false, 1399},
		{"IPv6 that fits", six, 1400, true, 0},
		{"IPv6, and a forged path", six, 68, false, leastMTU6},
		{"small IPv6, and a forged path", six[:1280], 68, true, 0},
		{"small IPv4, and a forged path", four[:576], 68, true, 0},
	} {
		if got := fits(c.p, len(c.p), c.limit); got != c.fits {
			t.Errorf("%s: fits %v", c.name, got)
		}
		if c.fits {
			continue
		}
		f, _ := parse(c.p)
		m := tooBig(make([]byte, tooBigMost6), c.p, &f, c.limit)
		checkTooBig(t, m, c.p, c.mtu)
	}
}

// checkTooBig holds an error against the packet that it answers.
func checkTooBig(t *testing.T, m, p []byte, mtu int) {
	t.Helper()
	e, ok := parse(m)
	f, _ := parse(p)
	if !ok || e.src != f.dst || e.dst != f.src {
		t.Fatalf("%v -> %v about %v -> %v", e.src, e.dst, f.src, f.dst)
	}
	quote := m[e.upper+icmpHeaderLen:]
	if !bytes.HasPrefix(p, quote) || len(quote) < min(len(p), 548) {
		t.Errorf("%d octets are quoted, of %d", len(quote), len(p))
	}
	if f.dst.Is4() {
		if len(m) > tooBigMost4 || int(binary.BigEndian.Uint16(m[2:])) != len(m) || !goodHeader(m) {
			t.Errorf("%d octets, header %x", len(m), m[:20])
		}
		icmp := m[20:]
		if icmp[0] != 3 || icmp[1] != 4 || int(binary.BigEndian.Uint16(icmp[6:])) != mtu || icmp[4]|icmp[5] != 0 || sum(0).add(icmp) != 0xffff {
			t.Errorf("ICMP %x, want MTU %d", icmp[:8], mtu)
		}
	} else {
		if len(m) > tooBigMost6 || 40+int(binary.BigEndian.Uint16(m[4:])) != len(m) {
			t.Errorf("%d octets, header %x", len(m), m[:40])
		}
		icmp := m[40:]
		if icmp[0] != 2 || icmp[1] != 0 || int(binary.BigEndian.Uint32(icmp[4:])) != mtu || pseudo(m[8:40], protoICMPv6, len(icmp)).add(icmp) != 0xffff {
			t.Errorf("ICMP %x, want MTU %d", icmp[:8], mtu)
		}
	}
	// The kernel must be able to find the sender's socket by it, and the receiver's SA by what is quoted (RFC 4301 section 6.2). Extension headers can be
	// longer than what is quoted.
	if q, ok := quoted(m, &e); f.upper > 0 && f.upper <= len(quote) && (!ok || q.src != f.src || q.dst != f.dst || q.proto != f.proto) {
		t.Errorf("quotes %+v, want %+v", q, f)
	}
}

func TestTooBigIsNotSaidAboutErrorsAndGroups(t *testing.T) {
	change := func(p []byte, f func([]byte)) []byte { f(p); return p }
	icmp := func(kind byte) []byte {
		return change(udp4("10.1.0.5", "10.2.0.9", 0, 0, 1000), func(p []byte) { p[9], p[20] = protoICMP, kind })
	}
	icmp6 := func(kind byte) []byte {
		return change(udp6("fd01::5", "fd02::9", 0, 0, 1400), func(p []byte) { p[6], p[40] = protoICMPv6, kind })
	}
	for name, c := range map[string]struct {
		p    []byte
		said bool
	}{
		"echo":                  {icmp(8), true},
		"unreachable":           {icmp(3), false},
		"source quench":         {icmp(4), false},
		"redirect":              {icmp(5), false},
		"time exceeded":         {icmp(11), false},
		"parameter problem":     {icmp(12), false},
		"first fragment":        {change(icmp(8), func(p []byte) { p[6] = 0x20 }), true},
		"later fragment":        {change(icmp(8), func(p []byte) { p[7] = 1 }), false},
		"to a group":            {udp4("10.1.0.5", "224.0.0.9", 7, 8, 1000), false},
		"to all":                {udp4("10.1.0.5", "255.255.255.255", 7, 8, 1000), false},
		"from nobody":           {udp4("0.0.0.0", "10.2.0.9", 7, 8, 1000), false},
		"from loopback":         {udp4("127.0.0.1", "10.2.0.9", 7, 8, 1000), false},
		"IPv6 echo":             {icmp6(128), true},
		"IPv6 error":            {icmp6(1), false},
		"IPv6 packet too big":   {icmp6(2), false},
		"IPv6 redirect":         {icmp6(137), false},
		"IPv6 from nobody":      {udp6("::", "fd02::9", 7, 8, 1400), false},
		"IPv6 to a group":       {udp6("fd01::5", "ff05::1", 7, 8, 1400), false},
		"IPv6, anything else":   {udp6("fd01::5", "fd02::9", 7, 8, 1400), true},
		"IPv4, anything else":   {udp4("10.1.0.5", "10.2.0.9", 7, 8, 1400), true},
		"ICMP too short to say": {icmp(8)[:21], false},
	} {
		f, ok := parse(c.p)
		if !ok {
			t.Fatalf("%s: not parsed", name)
		}
		if got := tooBig(make([]byte, tooBigMost6), c.p, &f, 900) != nil; got != c.said {
			t.Errorf("%s: said %v", name, got)
		}
	}
}

func TestRate(t *testing.T) {
	var r rate
	for n := range 5 {
		if r.pass(7, 3) != (n < 3) {
			t.Errorf("the one of number %d", n)
		}
	}
	if !r.pass(8, 3) {
		t.Error("none in the next second")
	}
}

func FuzzTooBig(f *testing.F) {
	f.Add(udp4("10.1.0.5", "10.2.0.9", 7, 53, 1372), 1300)
	f.Add(udp6("fd01::5", "fd02::9", 7, 53, 1372), 1300)
	f.Add([]byte{}, 0)
	long := udp6("fd01::5", "fd02::9", 7, 53, 1800)
	long[6], long[40], long[41] = protoDestOpts, protoUDP, 215 // extension headers that no error can quote
	f.Add(long, 1344)
	f.Fuzz(func(t *testing.T, p []byte, limit int) {
		fl, ok := parse(p)
		if !ok || len(p) > maxPacket {
			return
		}
		limit = min(max(limit, 0), maxPacket)
		m := tooBig(make([]byte, tooBigMost6), p, &fl, limit)
		if m == nil {
			return
		}
		least := leastMTU6
		if fl.dst.Is4() {
			least = leastMTU4
		}
		checkTooBig(t, m, p, max(limit, least))
		if e, _ := parse(m); answerable(&e, m) {
			t.Fatal("an error about this error would be sent")
		}
		if e := netip.AddrFrom4([4]byte{}); fl.src == e {
			t.Fatal("sent to nobody")
		}
	})
}
