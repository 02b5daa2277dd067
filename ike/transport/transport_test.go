package transport

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cygnet/ike"
	"cygnet/xfrm"
)

const deadline = 5 * time.Second

// node is one Transport with what it received; bursts have one packet each.
type node struct {
	*Transport
	ike chan ike.Packet
	esp chan xfrm.Burst
}

func (n *node) config() Config {
	n.ike, n.esp = make(chan ike.Packet, 64), make(chan xfrm.Burst, 64)
	return Config{
		IKE: func(p ike.Packet) { n.ike <- p },
		ESP: func() func(*xfrm.Burst) {
			return func(b *xfrm.Burst) {
				for _, p := range b.Packets {
					n.esp <- xfrm.Burst{Local: b.Local, Remote: b.Remote, TOS: b.TOS, Packets: [][]byte{bytes.Clone(p)}}
				}
			}
		},
	}
}

// open a node on two free ports.
func open(t testing.TB) *node {
	t.Helper()
	n := new(node)
	c := n.config()
	for range 20 {
		c.Port, c.NATTPort = freePort(t), freePort(t)
		tr, err := Open(c)
		if errors.Is(err, unix.EADDRINUSE) || c.Port == c.NATTPort {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		n.Transport = tr
		t.Cleanup(func() { tr.Close() })
		return n
	}
	t.Fatal("no two free ports")
	return nil
}

func freePort(t testing.TB) uint16 {
	t.Helper()
	c, err := net.ListenUDP("udp4", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

func wait[T any](t *testing.T, c chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(deadline):
		t.Fatal("nothing received")
		panic("unreachable")
	}
}

func loopbacks(t *testing.T) []netip.Addr {
	l := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.9.8.7")}
	if c, err := net.ListenPacket("udp6", "[::1]:0"); err == nil {
		c.Close()
		return append(l, netip.IPv6Loopback())
	}
	t.Log("no IPv6 loopback here: IPv4 only")
	return l
}

func message(fill byte, n int) []byte { return bytes.Repeat([]byte{fill}, n) }

func TestSendAndReceiveIKE(t *testing.T) {
	a, b := open(t), open(t)
	for _, addr := range loopbacks(t) {
		for _, natt := range []bool{false, true} {
			from, to := a.Transport.config.Port, b.Transport.config.Port
			if natt {
				from, to = a.Transport.config.NATTPort, b.Transport.config.NATTPort
			}
			p := ike.Path{Local: netip.AddrPortFrom(addr, from), Remote: netip.AddrPortFrom(addr, to)}
			want := message(9, 1400)
			if err := a.Send(p, want); err != nil {
				t.Fatal(err)
			}
			got := wait(t, b.ike)
			if !bytes.Equal(got.Data, want) {
				t.Errorf("%v: %d octets, want %d without marker", p, len(got.Data), len(want))
			}
			if got.Local != p.Remote || got.Remote != p.Local {
				t.Errorf("path %v, want the mirror of %v", got.Path, p)
			}
			// The answer goes back the way it came: from the address that was reached.
			if err := b.Send(got.Path, want); err != nil {
				t.Fatal(err)
			}
			if back := wait(t, a.ike); back.Path != p {
				t.Errorf("answer came by %v, want %v", back.Path, p)
			}
		}
	}
}

func TestSendESP(t *testing.T) {
	a, b := open(t), open(t)
	for _, addr := range loopbacks(t) {
		burst := &xfrm.Burst{
			Local:   netip.AddrPortFrom(addr, a.Transport.config.NATTPort),
			Remote:  netip.AddrPortFrom(addr, b.Transport.config.NATTPort),
			Packets: [][]byte{message(1, 40), message(2, 1400), message(3, 60)},
		}
		if err := a.SendESP(burst); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(burst.Packets); {
			got := wait(t, b.esp)
			if got.Local != burst.Remote || got.Remote != burst.Local {
				t.Fatalf("burst %v <- %v, want the mirror of %v -> %v", got.Local, got.Remote, burst.Local, burst.Remote)
			}
			for _, p := range got.Packets {
				if !bytes.Equal(p, burst.Packets[i]) {
					t.Fatalf("packet %d differs", i)
				}
				i++
			}
		}
	}
	burst := &xfrm.Burst{Local: netip.AddrPortFrom(loopbacks(t)[0], a.Transport.config.Port), Remote: netip.MustParseAddrPort("127.0.0.1:9"), Packets: [][]byte{message(1, 40)}}
	if err := a.SendESP(burst); err == nil {
		t.Error("ESP left the IKE port")
	}
}

// RFC 3948 sections 2.1, 2.3 and 4: keepalives and crumbs go nowhere and kill nothing.
func TestTrap_3948_1_Marker(t *testing.T) {
	n := open(t)
	c, err := net.Dial("udp4", fmt.Sprintf("127.0.0.1:%d", n.Transport.config.NATTPort))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	marked := append(make([]byte, 4), message(5, 28)...)
	for _, b := range [][]byte{{}, {0xff}, {0xfe}, {0, 0}, {0, 0, 0}, {0, 0, 0, 0}, {1, 2, 3, 4, 5}, make([]byte, 31), marked} {
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if got := wait(t, n.ike); !bytes.Equal(got.Data, marked[4:]) {
		t.Fatalf("received %x", got.Data)
	}
	// IKE has a loop of its own and may be first.
	for end := time.Now().Add(deadline); n.Drops().Short != 7; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d short datagrams counted, want 7", n.Drops().Short)
		}
	}
	if len(n.ike) > 0 || len(n.esp) > 0 {
		t.Error("something else was received")
	}
}

// The peer proves what a keepalive is on the wire.
func TestKeepaliveIsOneOctet(t *testing.T) {
	n := open(t)
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p := ike.Path{Local: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), n.Transport.config.NATTPort), Remote: c.LocalAddr().(*net.UDPAddr).AddrPort()}
	if err := n.Keepalive(p); err != nil {
		t.Fatal(err)
	}
	c.SetReadDeadline(time.Now().Add(deadline))
	buf := make([]byte, 100)
	if got, from, err := c.ReadFromUDPAddrPort(buf); err != nil || got != 1 || buf[0] != 0xff || from != p.Local {
		t.Fatalf("%x from %v: %v", buf[:got], from, err)
	}
}

func TestLargestMessages(t *testing.T) {
	a, b := open(t), open(t)
	addr := netip.MustParseAddr("127.0.0.1")
	p := ike.Path{Local: netip.AddrPortFrom(addr, a.Transport.config.NATTPort), Remote: netip.AddrPortFrom(addr, b.Transport.config.NATTPort)}
	const most = 65507 - markerLen
	if err := a.Send(p, message(1, most)); err != nil {
		t.Fatal(err)
	}
	if got := wait(t, b.ike); len(got.Data) != most {
		t.Errorf("%d octets, want %d", len(got.Data), most)
	}
	if err := a.Send(p, message(1, most+1)); err == nil {
		t.Error("a message that no datagram holds was sent")
	}
}

func TestSendRefuses(t *testing.T) {
	n := open(t)
	own := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), n.Transport.config.Port)
	for name, p := range map[string]ike.Path{
		"mixed families":       {Local: own, Remote: netip.MustParseAddrPort("[::1]:500")},
		"no remote":            {Local: own},
		"port not ours":        {Local: netip.MustParseAddrPort("127.0.0.1:1"), Remote: own},
		"address not ours":     {Local: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.77"), own.Port()), Remote: own},
		"no local port at all": {Remote: own},
	} {
		if err := n.Send(p, message(1, 28)); err == nil {
			t.Errorf("%s: sent", name)
		}
	}
	plain := &xfrm.Burst{Local: netip.AddrPortFrom(own.Addr(), 0), Remote: netip.AddrPortFrom(own.Addr(), 0), Packets: [][]byte{message(1, 40)}}
	if err := n.SendESP(plain); err == nil {
		t.Error("plain ESP without a raw socket: sent")
	}
	n.Close()
	if err := n.Send(ike.Path{Local: own, Remote: own}, message(1, 28)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestPortInUse(t *testing.T) {
	for network, address := range map[string]string{"udp4": "0.0.0.0:0", "udp6": "[::]:0"} {
		c, err := net.ListenPacket(network, address)
		if err != nil {
			t.Logf("%s: %v", network, err)
			continue
		}
		port := c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
		cfg := new(node).config()
		cfg.Port, cfg.NATTPort = port, freePort(t)
		_, err = Open(cfg)
		c.Close()
		if err == nil {
			t.Fatalf("%s: opened a port in use", network)
		}
		name, _ := os.ReadFile("/proc/self/comm")
		for _, want := range []string{fmt.Sprintf("UDP port %d", port), strings.TrimSpace(string(name)), fmt.Sprintf("pid %d", os.Getpid()), "stop it, or set port"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
		// What had been opened before the failure is closed again.
		free, err := net.ListenPacket("udp4", fmt.Sprintf("0.0.0.0:%d", cfg.NATTPort))
		if err != nil {
			t.Errorf("left open: %v", err)
		} else {
			free.Close()
		}
	}
}

func TestOpenRefusesPorts(t *testing.T) {
	for _, c := range []Config{{}, {Port: 500}, {Port: 500, NATTPort: 500}, {Port: 500, NATTPort: 4500}} {
		if tr, err := Open(c); err == nil {
			tr.Close()
			t.Errorf("%d and %d: opened", c.Port, c.NATTPort)
		}
	}
}

func TestSourceFor(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "::ffff:127.0.0.1"} {
		if got, err := SourceFor(netip.MustParseAddr(a)); err != nil || got != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("%s: %v, %v", a, got, err)
		}
	}
	if got, err := SourceFor(netip.Addr{}); err == nil {
		t.Errorf("no address: %v", got)
	}
}

func TestCloseEndsTheLoops(t *testing.T) {
	n := open(t)
	done := make(chan error, 1)
	go func() { done <- n.Close() }()
	if err := wait(t, done); err != nil {
		t.Error(err)
	}
}
