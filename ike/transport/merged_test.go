package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cygnet/ike"
	"cygnet/xfrm"
)

// sender is a socket of a peer that sends as the test wants.
type sender struct {
	*net.UDPConn
	to netip.AddrPort
}

func newSender(t testing.TB, n *Transport, set func(fd int) error) *sender {
	t.Helper()
	lc := net.Dialer{Control: controlled(func(fd int) error {
		if set == nil {
			return nil
		}
		return set(fd)
	})}
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), n.config.NATTPort)
	c, err := lc.Dial("udp4", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &sender{UDPConn: c.(*net.UDPConn), to: to}
}

// withoutChecksum is what RFC 3948 section 2.1 wants of IPv4.
func withoutChecksum(fd int) error {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
}

func (s *sender) send(t testing.TB, datagrams ...[]byte) {
	t.Helper()
	for _, d := range datagrams {
		if _, err := s.Write(d); err != nil {
			t.Fatal(err)
		}
	}
}

// merged sends datagrams that one system call makes of b; over loopback they arrive as they were, in one.
func (s *sender) merged(t testing.TB, segment int, datagrams ...[]byte) {
	t.Helper()
	var c controls
	c.segment(segment)
	if _, _, err := s.WriteMsgUDP(bytes.Join(datagrams, nil), c.bytes(), nil); err != nil {
		t.Fatal(err)
	}
}

// recorder writes down what its transport hands on, in order.
type recorder struct {
	*Transport
	records chan string
	over    chan struct{} // closed at the end of the test
}

// record opens a transport that calls gate before a burst is written down.
func record(t testing.TB, gate func(*xfrm.Burst)) *recorder {
	t.Helper()
	r := &recorder{records: make(chan string, 4096), over: make(chan struct{})}
	c := Config{
		IKE: func(p ike.Packet) { r.records <- fmt.Sprintf("IKE %x", p.Data[:1]) },
		ESP: func() func(*xfrm.Burst) {
			return func(b *xfrm.Burst) {
				gate(b)
				if len(b.Packets) == 0 {
					return
				}
				text := fmt.Sprintf("ESP tos %d", b.TOS)
				for _, p := range b.Packets {
					text += fmt.Sprintf(" %x*%d", p[:1], len(p))
				}
				select {
				case r.records <- text:
				case <-r.over:
				}
			}
		},
	}
	c.Port, c.NATTPort = freePort(t), freePort(t)
	tr, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(r.over); tr.Close() })
	r.Transport = tr
	return r
}

func (r *recorder) want(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := wait(t, r.records); got != w {
			t.Errorf("%q, want %q", got, w)
		}
	}
}

func marked(fill byte, n int) []byte { return append(make([]byte, markerLen), message(fill, n)...) }

// What the kernel has merged is many datagrams still: each is told for itself what it is, and IKE goes first.
func TestTrap_3948_1_MergedDatagrams(t *testing.T) {
	r := record(t, func(*xfrm.Burst) {})
	s := newSender(t, r.Transport, func(fd int) error { return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, 2) })
	s.merged(t, 100, message(1, 100), message(2, 100), message(3, 100), []byte{keepalive})
	r.want(t, "ESP tos 2 01*100 02*100 03*100")
	s.merged(t, 100, message(1, 100), message(2, 100), marked(3, 40))
	r.want(t, "IKE 03", "ESP tos 2 01*100 02*100")
	s.merged(t, 100, message(1, 100), marked(2, 96), message(3, 100), marked(4, 96), message(5, 12))
	r.want(t, "IKE 02", "IKE 04", "ESP tos 2 01*100 03*100 05*12")
	s.merged(t, 44, marked(1, 40), marked(2, 40), message(3, 20))
	r.want(t, "IKE 01", "IKE 02", "ESP tos 2 03*20")
	s.merged(t, 40, message(1, 40), message(2, 3))
	r.want(t, "ESP tos 2 01*40")
	if d := r.Drops(); d != (Drops{Short: 1}) {
		t.Errorf("%+v", d)
	}
}

// A socket whose ESP nobody takes is full. IKE still comes in.
func TestIKEComesThroughAFlood(t *testing.T) {
	release, blocked := make(chan struct{}), make(chan struct{}, 1)
	r := record(t, func(*xfrm.Burst) {
		select {
		case blocked <- struct{}{}:
		default:
		}
		<-release
	})
	defer close(release)
	for _, without := range []func(int) error{nil, withoutChecksum} {
		s := newSender(t, r.Transport, without)
		flood := make([][]byte, 40)
		for i := range flood {
			flood[i] = message(1, 1400)
		}
		for range 2 * bufferSize / (40 * 1400) {
			s.send(t, flood...)
		}
		s.send(t, marked(2, 80))
		r.want(t, "IKE 02")
	}
	wait(t, blocked)
}

// ESP that waits for room in its socket's send buffer keeps no IKE message waiting.
func TestIKELeavesThoughESPWaits(t *testing.T) {
	n, peer := open(t), open(t)
	addr := netip.MustParseAddr("127.0.0.1")
	p := ike.Path{Local: netip.AddrPortFrom(addr, n.Transport.config.NATTPort), Remote: netip.AddrPortFrom(addr, peer.Transport.config.NATTPort)}
	first, err := n.socketFor(p)
	if err != nil {
		t.Fatal(err)
	}
	waits, room := make(chan struct{}), make(chan struct{})
	defer close(room)
	go first.out.conn.Write(func(uintptr) bool {
		close(waits)
		<-room
		return true
	})
	<-waits
	sent := make(chan error, 2)
	go func() { sent <- n.Send(p, message(2, 80)); sent <- n.Keepalive(p) }()
	for range 2 {
		if err := wait(t, sent); err != nil {
			t.Error(err)
		}
	}
	if got := wait(t, peer.ike); got.Remote != p.Local {
		t.Errorf("it came from %v", got.Remote)
	}
}

// hold is what a receiver may keep: the packets of bursts until one has no More.
type hold struct {
	packets [][]byte
	copies  [][]byte
	sizes   []int // of the holds that are over
}

func (h *hold) receive(t *testing.T, b *xfrm.Burst) {
	for _, p := range b.Packets {
		h.packets, h.copies = append(h.packets, p), append(h.copies, bytes.Clone(p))
	}
	if b.More {
		return
	}
	for i := range h.packets {
		if !bytes.Equal(h.packets[i], h.copies[i]) {
			t.Errorf("packet %d of %d was overwritten while it was held", i, len(h.packets))
			break
		}
	}
	h.sizes = append(h.sizes, len(h.packets))
	h.packets, h.copies = nil, nil
}

// What comes in quick succession is held together, for a bounded time.
func TestMore(t *testing.T) {
	const packets = 500
	for name, set := range map[string]func(int) error{"checksum": nil, "no checksum": withoutChecksum} {
		t.Run(name, func(t *testing.T) {
			begin, all := make(chan struct{}), make(chan struct{})
			var h hold
			seen := 0
			r := record(t, func(b *xfrm.Burst) {
				<-begin
				h.receive(t, b)
				for _, p := range b.Packets {
					if want := byte(seen%255) + 1; p[0] != want || p[999] != want {
						t.Errorf("packet %d is number %d", seen, p[0])
					}
					seen++
				}
				if seen == packets && !b.More {
					close(all)
				}
			})
			s := newSender(t, r.Transport, set)
			for i := range packets {
				s.send(t, message(byte(i%255)+1, 1000))
			}
			close(begin)
			wait(t, all)
			for i, n := range h.sizes {
				if n > manyBuffers {
					t.Errorf("hold %d has %d packets, in %d buffers", i, n, manyBuffers)
				}
			}
			if n := len(h.sizes); n > packets/manyBuffers+3 {
				t.Errorf("%d packets in %d holds: %v", packets, n, h.sizes)
			}
		})
	}
}

// The buffers of one hold and what it takes to end it.
func TestHoldIsBounded(t *testing.T) {
	b := &batch{messages: make([]mmsghdr, manyBuffers)}
	for _, c := range []struct {
		used, reads, octets int
		full                bool
	}{{1, 1, 100, false}, {manyBuffers, 1, 100, true}, {4, holdReads, 400, true}, {9, 2, holdOctets, true}} {
		b.used, b.reads, b.octets = c.used, c.reads, c.octets
		if b.full() != c.full {
			t.Errorf("%+v: %v", c, b.full())
		}
	}
	if b.release(); b.full() {
		t.Error("full after release")
	}
}

func TestReceivingAllocatesNothing(t *testing.T) {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	controlled(func(fd int) error {
		setBuffers(fd)
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	})("", "", conn)
	got, tr := 0, &Transport{}
	tr.config.ESP = func() func(*xfrm.Burst) { return func(b *xfrm.Burst) { got += len(b.Packets) } }
	s := &udpSocket{natt: true, port: 4500}
	l := tr.newLoop(conn, 2, s.port, s.classify)
	peer, err := net.DialUDP("udp4", nil, c.LocalAddr().(*net.UDPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	for range 300 {
		peer.Write(message(1, 100))
	}
	l.step()
	if n := testing.AllocsPerRun(100, func() { l.step() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got < 200 {
		t.Errorf("%d packets", got)
	}
}

// The IKE queue's SO_REUSEPORT lets nobody else in: no second daemon, and no other user that sets it too.
func TestSecondDaemon(t *testing.T) {
	n := open(t)
	c := new(node).config()
	c.Port, c.NATTPort = freePort(t), n.Transport.config.NATTPort
	if tr, err := Open(c); err == nil {
		tr.Close()
		t.Error("two daemons have one port")
	}
	if err := Check(freePort(t), c.NATTPort); err == nil {
		t.Error("Check finds the port free")
	}
	for _, host := range []string{"0.0.0.0", "127.0.0.1", "::", "::1"} {
		if err := bindAs(12345, net.JoinHostPort(host, fmt.Sprint(c.NATTPort))); errors.Is(err, unix.EPERM) {
			t.Skip("this test cannot be another user")
		} else if err == nil {
			t.Errorf("another user has %s, too", host)
		}
	}
}

// bindAs opens a UDP socket that shares its port as another user. Its thread, which is that user to the kernel, ends with it.
func bindAs(uid int, address string) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		unix.SetfsuidRetUid(uid)
		if now, _ := unix.SetfsuidRetUid(uid); now != uid {
			result <- unix.EPERM
			return
		}
		lc := net.ListenConfig{Control: controlled(func(fd int) error {
			return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})}
		c, err := lc.ListenPacket(context.Background(), "udp", address)
		if err == nil {
			c.Close()
		}
		result <- err
	}()
	return <-result
}

func TestZones(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip(err)
	}
	var z zones
	for range 2 {
		if got := z.name(uint32(lo.Index)); got != "lo" {
			t.Errorf("link %d is %q", lo.Index, got)
		}
	}
	if got := z.name(1 << 30); got != "1073741824" {
		t.Errorf("no such link is %q", got)
	}
	z.names[uint32(lo.Index)], z.until = "before", time.Now().Add(-time.Second)
	if got := z.name(uint32(lo.Index)); got != "lo" {
		t.Errorf("a renamed link is %q", got)
	}
}
