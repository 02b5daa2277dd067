package userspace

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cygnet/ike"
	"cygnet/ike/transport"
	"cygnet/xfrm"
)

// startFast is start with the sockets of the daemon.
func (g *gateway) startFast(t *testing.T, plainTUN, runs bool) {
	t.Helper()
	var err error
	var sockets *transport.Transport
	g.do(func() {
		g.driver, err = New(Config{Rand: rand.Reader, plainTUN: plainTUN, Send: func(b *xfrm.Burst) error {
			g.longest.Store(max(g.longest.Load(), int64(len(b.Packets)))) // one lane sends
			if !runs {
				single := *b
				single.Run = false
				b = &single
			}
			return sockets.SendESP(b)
		}})
		if err == nil {
			sockets, err = transport.Open(transport.Config{Port: 500, NATTPort: 4500, IKE: func(ike.Packet) {}, ESP: g.driver.Receiver})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sockets.Close(); g.driver.Close() })
}

// Whole streams, of both families, forwarded and from the gateway itself, both ways at the same time, arrive as they were sent whatever the TUN and the
// sockets do in one. UDP with UDP_SEGMENT likewise. No host sees a bad checksum.
func TestStreams(t *testing.T) {
	for _, c := range []struct {
		name           string
		plainTUN, runs bool
	}{{"offloads and runs", false, true}, {"offloads, single datagrams", false, false}, {"no offloads, runs", true, true}, {"nothing", true, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.a.startFast(t, c.plainTUN, c.runs)
			s.b.startFast(t, c.plainTUN, c.runs)
			s.a.apply(t, child(&s.a, &s.b, 0x1001, 0x2001, "10.1.0.0/16", "10.2.0.0/16")...)
			s.b.apply(t, child(&s.b, &s.a, 0x2001, 0x1001, "10.2.0.0/16", "10.1.0.0/16")...)
			s.a.apply(t, child(&s.a, &s.b, 0x1002, 0x2002, "fd01::/64", "fd02::/64")...)
			s.b.apply(t, child(&s.b, &s.a, 0x2002, 0x1002, "fd02::/64", "fd01::/64")...)
			for _, to := range []string{"10.2.0.1", "fd02::1"} {
				stream(t, s.host, s.b.netns, to)
				datagrams(t, s.host, s.b.netns, to)
			}
			stream(t, s.a.netns, s.b.netns, "10.2.0.1")
			for _, n := range []*netns{s.host, s.a.netns, s.b.netns} {
				out, err := n.run("nstat -asz TcpInCsumErrors UdpInCsumErrors Udp6InCsumErrors Ip6InHdrErrors IpInHdrErrors")
				if err != nil {
					t.Log(out, err)
				}
				for _, line := range strings.Split(out, "\n") {
					if f := strings.Fields(line); len(f) > 1 && !strings.HasPrefix(line, "#") && f[1] != "0" {
						t.Errorf("%s: %s", n.name, line)
					}
				}
			}
			for _, g := range []*gateway{&s.a, &s.b} {
				if n := g.longest.Load(); n < 8 {
					t.Errorf("%s: at most %d packets in a burst", g.name, n)
				}
				if d := g.driver.Drops(); d.Offload+d.Sealing+d.Sending+d.Selectors+d.Writing != 0 {
					t.Errorf("%+v", d)
				}
			}
		})
	}
}

const streamLen = 6 << 20

// stream sends as many octets each way and compares their hashes.
func stream(t *testing.T, from, to *netns, addr string) {
	t.Helper()
	var l *net.TCPListener
	var c net.Conn
	var err error
	at := netip.AddrPortFrom(netip.MustParseAddr(addr), 7007)
	to.do(func() { l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at)) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.SetDeadline(time.Now().Add(deadline))
	from.do(func() { c, err = net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(at)) })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var all sync.WaitGroup
	sent, got := make([][32]byte, 2), make([][32]byte, 2)
	for k, pair := range [][2]net.Conn{{c, d}, {d, c}} {
		for _, end := range pair {
			end.SetDeadline(time.Now().Add(60 * time.Second))
		}
		all.Go(func() { sent[k] = pour(t, pair[0], uint64(k)) })
		all.Go(func() {
			h := sha256.New()
			if n, err := io.CopyN(h, pair[1], streamLen); err != nil {
				t.Errorf("%s: after %d octets: %v", addr, n, err)
			}
			got[k] = [32]byte(h.Sum(nil))
		})
	}
	all.Wait()
	if sent[0] != got[0] || sent[1] != got[1] {
		t.Errorf("%s: what arrived is not what was sent", addr)
	}
}

// pour writes random octets, in writes of odd lengths.
func pour(t *testing.T, c net.Conn, seed uint64) [32]byte {
	octets, r, h := mathrand.NewChaCha8([32]byte{byte(seed)}), mathrand.New(mathrand.NewPCG(seed, 1)), sha256.New()
	buf := make([]byte, 200_000)
	for left := streamLen; left > 0; {
		n := min(left, 1+r.IntN(len(buf)))
		octets.Read(buf[:n])
		h.Write(buf[:n])
		if _, err := c.Write(buf[:n]); err != nil {
			t.Error(err)
			break
		}
		left -= n
	}
	return [32]byte(h.Sum(nil))
}

// datagrams sends several with one system call, of one length but for the last.
func datagrams(t *testing.T, from, to *netns, addr string) {
	t.Helper()
	var l, c *net.UDPConn
	var err error
	at := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(addr), 7008))
	to.do(func() { l, err = net.ListenUDP("udp", at) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	from.do(func() { c, err = net.DialUDP("udp", nil, at) })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, _ := c.SyscallConn()
	const size, count = 997, 30
	raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, size) })
	if err != nil {
		unable(t, fmt.Errorf("UDP_SEGMENT: %w", err))
	}
	all := make([]byte, size*count-300)
	rand.Read(all)
	if _, err := c.Write(all); err != nil {
		t.Fatal(err)
	}
	l.SetReadDeadline(time.Now().Add(deadline))
	buf := make([]byte, 65536)
	for k := range count {
		n, err := l.Read(buf)
		if err != nil {
			t.Fatalf("%s: datagram %d: %v", addr, k, err)
		}
		if want := all[k*size : min((k+1)*size, len(all))]; !bytes.Equal(buf[:n], want) {
			t.Fatalf("%s: datagram %d differs: %d octets", addr, k, n)
		}
	}
}
