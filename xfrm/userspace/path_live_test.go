package userspace

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Whoever sends more than a path carries, a host behind the gateway or the gateway itself, is told so and believes it; TCP is told at once.
func TestPathsAreTold(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.a.startFast(t, false, true)
	s.b.startFast(t, false, true)
	s.a.apply(t, child(&s.a, &s.b, 0x1001, 0x2001, "10.1.0.0/16", "10.2.0.0/16")...)
	s.b.apply(t, child(&s.b, &s.a, 0x2001, 0x1001, "10.2.0.0/16", "10.1.0.0/16")...)
	s.a.apply(t, child(&s.a, &s.b, 0x1002, 0x2002, "fd01::/64", "fd02::/64")...)
	s.b.apply(t, child(&s.b, &s.a, 0x2002, 0x1002, "fd02::/64", "fd01::/64")...)
	const limit = 1290
	for _, sa := range s.a.driver.unsorted() {
		sa.limit.Store(limit)
	}
	for _, to := range []string{"10.2.0.1", "fd02::1"} {
		headers := 40
		if strings.Contains(to, ":") {
			headers = 60
		}
		// Before the kernel has learnt of the path. The peer's announcement is clamped on its way in, ours on its way out.
		if got := announced(t, s.host, s.b.netns, to); got[0] > limit-headers || got[1] > limit-headers || got[0] < 1000 {
			t.Errorf("segments of %d octets to %s and %d back: more than fits into %d", got[0], to, got[1], limit)
		}
		for _, from := range []*netns{s.host, s.a.netns} {
			if got := pathFrom(t, from, to); got != limit {
				t.Errorf("%s to %s: the kernel believes in %d octets, want %d", from.name, to, got, limit)
			}
		}
		stream(t, s.host, s.b.netns, to)
	}
}

// pathFrom sends too much until the kernel knows better.
func pathFrom(t *testing.T, from *netns, to string) (mtu int) {
	t.Helper()
	var c *net.UDPConn
	var err error
	from.do(func() {
		c, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(to), 9)))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, _ := c.SyscallConn()
	level, discover, do, option := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO, unix.IP_MTU
	if strings.Contains(to, ":") {
		level, discover, do, option = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO, unix.IPV6_MTU
	}
	raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, discover, do) })
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(deadline); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		c.Write(make([]byte, 1320)) // errors are the point
		raw.Control(func(fd uintptr) { mtu, err = unix.GetsockoptInt(int(fd), level, option) })
		if err == nil && mtu < 1348 {
			return mtu
		}
	}
	return mtu
}

// announced are the segment sizes of a connection at both ends.
func announced(t *testing.T, from, to *netns, addr string) (mss [2]int) {
	t.Helper()
	var l *net.TCPListener
	var ends [2]net.Conn
	var err error
	at := net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 7009))
	to.do(func() { l, err = net.ListenTCP("tcp", at) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.SetDeadline(time.Now().Add(deadline))
	from.do(func() { ends[0], err = net.DialTCP("tcp", nil, at) })
	if err == nil {
		ends[1], err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	for n, c := range ends {
		defer c.Close()
		raw, _ := c.(*net.TCPConn).SyscallConn()
		raw.Control(func(fd uintptr) { mss[n], err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
		if err != nil {
			t.Fatal(err)
		}
	}
	return mss
}
