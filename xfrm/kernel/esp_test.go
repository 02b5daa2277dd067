package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"

	"golang.org/x/sys/unix"
)

// site is two gateways on one wire, each with a driver and an inner address of both families.
type site struct {
	a, b   *namespace
	da, db *Driver
}

const (
	outerA4, outerB4 = "192.0.2.1", "192.0.2.2"
	outerA6, outerB6 = "2001:db8::1", "2001:db8::2"
	innerA4, innerB4 = "10.1.0.1", "10.2.0.1"
	innerA6, innerB6 = "fd00:1::1", "fd00:2::1"
)

func newSite(t *testing.T) *site {
	t.Helper()
	needESP(t)
	s := &site{a: newNamespace(t, "gw-a"), b: newNamespace(t, "gw-b")}
	s.a.ip(t, fmt.Sprintf("link add wan type veth peer name wan netns %d", s.b.tid))
	for _, g := range []struct {
		n              *namespace
		o4, o6, i4, i6 string
	}{{s.a, outerA4, outerA6, innerA4, innerA6}, {s.b, outerB4, outerB6, innerB4, innerB6}} {
		g.n.ip(t, "link set wan up")
		g.n.ip(t, "addr add "+g.o4+"/24 dev wan")
		g.n.ip(t, "addr add "+g.o6+"/64 dev wan nodad")
		g.n.ip(t, "addr add "+g.i4+"/32 dev lo")
		g.n.ip(t, "addr add "+g.i6+"/128 dev lo nodad")
	}
	s.da, s.db = s.a.driver(t, Config{}), s.b.driver(t, Config{})
	return s
}

// child is one Child SA between the gateways, as each side's ops.
type child struct {
	suite        xfrm.Suite
	mode         xfrm.Mode
	a, b         string // outer addresses
	localA       string // prefixes
	localB       string
	proto        uint8
	encap        bool
	replay       uint32
	softPackets  uint64 // of B's inbound SA
	hardPackets  uint64
	spiAB, spiBA uint32
	reqid        uint32
}

func (c child) defaults() child {
	set := func(p *string, v string) {
		if *p == "" {
			*p = v
		}
	}
	set(&c.a, outerA4)
	set(&c.b, outerB4)
	set(&c.localA, "10.1.0.0/16")
	set(&c.localB, "10.2.0.0/16")
	if c.suite == (xfrm.Suite{}) {
		c.suite = xfrm.Suite{Encr: alg.EncrAESGCM16, KeyBits: 128}
	}
	if c.spiAB == 0 {
		c.spiAB, c.spiBA = 0xc0000001, 0xc0000002
	}
	if c.reqid == 0 {
		c.reqid = 0x43590001
	}
	if c.replay == 0 {
		c.replay = 64
	}
	return c
}

// sa is the SA from A to B (ab) or back, as its sender (Out) or receiver (In) has it.
func (c child) sa(ab bool, dir xfrm.Direction) xfrm.SA {
	encr, integ, err := alg.KeyLens(c.suite.Encr, c.suite.KeyBits, c.suite.Integ)
	if err != nil {
		panic(err)
	}
	src, dst, spi, first := c.a, c.b, c.spiAB, byte(1)
	if !ab {
		src, dst, spi, first = c.b, c.a, c.spiBA, 2
	}
	sa := xfrm.SA{
		ID: xfrm.SAID{Dst: ip(dst), SPI: spi, Proto: 50}, Src: ip(src), Direction: dir, Mode: c.mode, ReqID: c.reqid,
		Suite: c.suite, EncrKey: key(first, encr), IntegKey: key(first+2, integ),
	}
	if dir == xfrm.In {
		sa.Replay = c.replay
	}
	if ab && dir == xfrm.In {
		sa.SoftPackets, sa.HardPackets = c.softPackets, c.hardPackets
	}
	if c.encap {
		sa.Encap = &xfrm.Encap{SrcPort: 4500, DstPort: 4500}
	}
	return sa
}

func (c child) policy(ab bool, dir xfrm.Direction) xfrm.Policy {
	p := xfrm.Policy{Priority: 0x00100400}
	if ab {
		p.Slot = xfrm.Slot{Direction: dir, Selector: xfrm.Selector{Src: prefix(c.localA), Dst: prefix(c.localB)}}
		p.Template = xfrm.Template{Src: ip(c.a), Dst: ip(c.b), Mode: c.mode, ReqID: c.reqid}
	} else {
		p.Slot = xfrm.Slot{Direction: dir, Selector: xfrm.Selector{Src: prefix(c.localB), Dst: prefix(c.localA)}}
		p.Template = xfrm.Template{Src: ip(c.b), Dst: ip(c.a), Mode: c.mode, ReqID: c.reqid}
	}
	p.Slot.Selector.Proto = c.proto
	return p
}

// up installs c on both gateways.
func (s *site) up(t *testing.T, c child) {
	t.Helper()
	apply(t, s.da,
		xfrm.AddSA{SA: c.sa(false, xfrm.In)}, xfrm.AddSA{SA: c.sa(true, xfrm.Out)},
		xfrm.PutPolicy{Policy: c.policy(false, xfrm.In)}, xfrm.PutPolicy{Policy: c.policy(true, xfrm.Out)})
	apply(t, s.db,
		xfrm.AddSA{SA: c.sa(true, xfrm.In)}, xfrm.AddSA{SA: c.sa(false, xfrm.Out)},
		xfrm.PutPolicy{Policy: c.policy(true, xfrm.In)}, xfrm.PutPolicy{Policy: c.policy(false, xfrm.Out)})
}

// down removes it.
func (s *site) down(t *testing.T, c child) {
	t.Helper()
	apply(t, s.da,
		xfrm.RemovePolicy{Slot: c.policy(false, xfrm.In).Slot}, xfrm.RemovePolicy{Slot: c.policy(true, xfrm.Out).Slot},
		xfrm.RemoveSA{ID: c.sa(false, xfrm.In).ID}, xfrm.RemoveSA{ID: c.sa(true, xfrm.Out).ID})
	apply(t, s.db,
		xfrm.RemovePolicy{Slot: c.policy(true, xfrm.In).Slot}, xfrm.RemovePolicy{Slot: c.policy(false, xfrm.Out).Slot},
		xfrm.RemoveSA{ID: c.sa(true, xfrm.In).ID}, xfrm.RemoveSA{ID: c.sa(false, xfrm.Out).ID})
}

// echo answers each datagram on the namespace's port 7 with itself, until the test ends.
func (n *namespace) echo(t *testing.T) {
	t.Helper()
	var c *net.UDPConn
	n.must(t, func() (err error) {
		c, err = net.ListenUDP("udp", &net.UDPAddr{Port: 7})
		return err
	})
	t.Cleanup(func() { c.Close() })
	go func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			c.WriteToUDPAddrPort(buf[:n], from)
		}
	}()
}

// ask sends count datagrams, one after the other, and waits for the echo of each.
func (n *namespace) ask(src, dst string, count int, within time.Duration) error {
	return n.in(func() error {
		c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip(src), 0)), net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip(dst), 7)))
		if err != nil {
			return err
		}
		defer c.Close()
		buf := make([]byte, 2048)
		for i := range count {
			c.SetDeadline(time.Now().Add(within))
			sent := fmt.Sprintf("datagram %d", i)
			if _, err := c.Write([]byte(sent)); err != nil {
				return err
			}
			if got, err := c.Read(buf); err != nil || string(buf[:got]) != sent {
				return fmt.Errorf("echo %q, %w", buf[:got], errors.Join(err, errors.New("no echo")))
			}
		}
		return nil
	})
}

func (n *namespace) mustAsk(t *testing.T, src, dst string, count int) {
	t.Helper()
	if err := n.ask(src, dst, count, patience); err != nil {
		t.Fatalf("%s: %s -> %s: %v\n%s", n.name, src, dst, err, n.command(t, "grep", "-vw", "0", "/proc/net/xfrm_stat"))
	}
}

// wire hears what leaves a namespace by its link "wan".
type wire struct {
	fd      int
	mu      sync.Mutex
	packets [][]byte // from the IP header on
	done    chan struct{}
}

func (n *namespace) listen(t *testing.T) *wire {
	t.Helper()
	w := &wire{done: make(chan struct{})}
	n.must(t, func() (err error) {
		link, err := net.InterfaceByName("wan")
		if err != nil {
			return err
		}
		all := int(htons(unix.ETH_P_ALL))
		if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
		return unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: uint16(all), Ifindex: link.Index})
	})
	stop := make(chan struct{})
	go func() {
		defer close(w.done)
		buf := make([]byte, 65536)
		for {
			n, from, err := unix.Recvfrom(w.fd, buf, 0)
			if ll, ok := from.(*unix.SockaddrLinklayer); err == nil && ok && ll.Pkttype == unix.PACKET_OUTGOING {
				w.mu.Lock()
				w.packets = append(w.packets, append([]byte(nil), buf[:n]...))
				w.mu.Unlock()
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-w.done; unix.Close(w.fd) })
	return w
}

// esp returns the ESP packets heard so far (from the SPI on) in the wanted encapsulation, and how many packets there
// were of other kinds, neighbour discovery and ARP aside.
func (w *wire) esp(encap bool) (esp [][]byte, other int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.packets {
		proto, payload := byte(0), []byte(nil)
		switch {
		case len(p) >= 20 && p[0]>>4 == 4:
			proto, payload = p[9], p[20:]
		case len(p) >= 40 && p[0]>>4 == 6:
			proto, payload = p[6], p[40:]
		default:
			continue // ARP
		}
		switch {
		case proto == unix.IPPROTO_ICMPV6 || proto == 0: // neighbour and multicast listener discovery
		case proto == 50 && !encap:
			esp = append(esp, payload)
		case proto == 17 && encap && len(payload) >= 16 && binary.BigEndian.Uint16(payload[2:]) == 4500:
			esp = append(esp, payload[8:])
		default:
			other++
		}
	}
	return esp, other
}

// await waits for count plain ESP packets.
func (w *wire) await(t *testing.T, count int) (esp [][]byte) {
	t.Helper()
	waitFor(t, fmt.Sprintf("%d ESP packets on the wire", count), func() bool {
		esp, _ = w.esp(false)
		return len(esp) >= count
	})
	return esp
}

// espInUDPSocket opens the socket that makes the kernel decapsulate: both families, port 4500.
func (n *namespace) espInUDPSocket(t *testing.T) {
	t.Helper()
	for _, network := range []string{"udp4", "udp6"} {
		n.must(t, func() error {
			c, err := net.ListenUDP(network, &net.UDPAddr{Port: 4500})
			if err != nil {
				return err
			}
			t.Cleanup(func() { c.Close() })
			raw, err := c.SyscallConn()
			if err != nil {
				return err
			}
			var set error
			err = raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_ENCAP, espInUDP) })
			return errors.Join(err, set)
		})
	}
}
