package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cygnet/test/rig"
)

// kind of numbered packets. Its inner size is that of no other traffic in the tunnel, so that its ESP packets are known by theirs, whatever the padding: TCP's
// acknowledgements have 52 octets, as timestamps are in them, and its segments are held to less than pings. Pings of the two sides differ too.
type kind struct {
	name   string
	innerA int // octets of the IP packet, when A begins
	innerB int
	pause  time.Duration
	ping   bool
	batch  int // so many are given to the host's kernel as one to be cut (UDP_SEGMENT), as QUIC does
}

var kinds = []kind{
	{"small UDP", 36, 36, 20 * time.Millisecond, false, 1},
	{"large UDP", 1380, 1380, 40 * time.Millisecond, false, 1},
	{"batched UDP", 1348, 1348, 400 * time.Millisecond, false, 8},
	{"ping", 1280, 1312, 200 * time.Millisecond, true, 1},
}

// Ways of traffic.
const (
	forward  = "A>B"
	backward = "B>A"
)

const (
	ipUDP  = 28 // octets of the headers of IPv4 and UDP, or of ICMP
	header = 8  // octets of the number and the mark in front of the pattern
	mark   = 0x636f7921
)

// flow sends numbered packets from one host to the other. Those of pings come back.
type flow struct {
	kind  kind
	way   string // "A>B" or "B>A"
	inner int    // octets of the IP packet
	tally
	out     net.PacketConn // sends, and takes the answers of pings
	in      net.PacketConn
	to      net.Addr
	id      uint16 // of pings
	twice   bool   // plant: one is sent two times
	sending sync.WaitGroup
}

// tally is what became of numbers 0, 1, 2 and so on.
type tally struct {
	mu         sync.Mutex
	sent       uint32
	refused    int    // this host did not send it
	lastErr    error  // why
	seen       []bool // by number
	got        int
	top        uint32
	overtaken  int    // arrived after one that was sent later
	latest     uint32 // the most that one was behind another
	duplicates int
	broken     int // the content was not what was sent
}

func (t *tally) take(n uint32, whole bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !whole || n >= t.sent {
		t.broken++
		return
	}
	for int(n) >= len(t.seen) {
		t.seen = append(t.seen, false)
	}
	if t.seen[n] {
		t.duplicates++
		return
	}
	t.seen[n] = true
	t.got++
	if n < t.top {
		t.overtaken++
		t.latest = max(t.latest, t.top-n)
	}
	t.top = max(t.top, n)
}

// lost is how many have not arrived.
func (t *tally) lost() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.sent) - t.got
}

// openFlow makes the sockets in the hosts.
func openFlow(k kind, way string, from, to rig.Site, id uint16) (*flow, error) {
	f := &flow{kind: k, way: way, inner: k.innerA, id: id}
	if way == backward {
		f.inner = k.innerB
	}
	network, target := "udp", net.UDPAddrFromAddrPort
	if k.ping {
		network = "ip4:icmp"
	}
	err := from.Host.Do(func() (err error) {
		f.out, err = listen(network, from.Host4)
		return err
	})
	if err == nil && k.batch > 1 {
		err = cut(f.out.(*net.UDPConn), f.inner-ipUDP)
	}
	if err != nil {
		return nil, err
	}
	if k.ping {
		f.in, f.to = f.out, &net.IPAddr{IP: to.Host4.AsSlice()}
		return f, nil
	}
	err = to.Host.Do(func() (err error) {
		f.in, err = listen(network, to.Host4)
		return err
	})
	if err != nil {
		f.out.Close()
		return nil, err
	}
	f.to = target(netip.AddrPortFrom(to.Host4, uint16(f.in.LocalAddr().(*net.UDPAddr).Port)))
	return f, nil
}

func listen(network string, at netip.Addr) (net.PacketConn, error) {
	address := at.String()
	if network == "udp" {
		address = netip.AddrPortFrom(at, 0).String()
	}
	c, err := net.ListenPacket(network, address)
	if b, ok := c.(interface{ SetReadBuffer(int) error }); ok && err == nil {
		b.SetReadBuffer(4 << 20)
	}
	return c, err
}

// start sends until quit, and receives until close.
func (f *flow) start(quit <-chan struct{}) {
	f.sending.Go(func() { f.send(quit) })
	go f.receive()
}

func (f *flow) close() {
	f.out.Close()
	f.in.Close()
}

func (f *flow) send(quit <-chan struct{}) {
	tick := time.NewTicker(f.kind.pause)
	defer tick.Stop()
	b := make([]byte, f.inner-ipUDP+header)
	var together []byte
	for {
		select {
		case <-quit:
			return
		case <-tick.C:
		}
		together = together[:0]
		for range f.kind.batch {
			together = append(together, f.packet(b, f.number())...)
		}
		f.write(together)
		if f.twice {
			f.write(together)
			f.twice = false
		}
	}
}

// number is that of the next packet, which counts as sent from now on: its answer may come before write has returned.
func (f *flow) number() uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent++
	return f.sent - 1
}

func (f *flow) write(b []byte) {
	if _, err := f.out.WriteTo(b, f.to); err != nil {
		f.mu.Lock()
		f.refused, f.lastErr = f.refused+f.kind.batch, err
		f.mu.Unlock()
	}
}

// cut has the kernel cut what is written into datagrams of a size (udp(7), UDP_SEGMENT).
func cut(c *net.UDPConn, size int) (err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT, size) }); failed != nil {
		return failed
	}
	return err
}

// packet is number n: for ping with the ICMP header of an echo request (RFC 792), whose eight octets UDP's has too.
func (f *flow) packet(room []byte, n uint32) []byte {
	data := room[header:]
	pattern(data, n)
	if !f.kind.ping {
		return data
	}
	clear(room[:header])
	room[0] = 8
	binary.BigEndian.PutUint16(room[4:], f.id)
	binary.BigEndian.PutUint16(room[6:], uint16(n))
	binary.BigEndian.PutUint16(room[2:], checksum(room))
	return room
}

// pattern fills a packet's data with its number, a mark, and octets that depend on the number and on the place.
func pattern(data []byte, n uint32) {
	binary.BigEndian.PutUint32(data, n)
	binary.BigEndian.PutUint32(data[4:], mark)
	for i := header; i < len(data); i++ {
		data[i] = byte(n>>(i%4*8)) + byte(i)
	}
}

// checksum of RFC 1071, over an even number of octets.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func (f *flow) receive() {
	b, want := make([]byte, 4096), make([]byte, f.inner-ipUDP)
	for {
		n, _, err := f.in.ReadFrom(b)
		if err != nil {
			return // closed
		}
		data := b[:n]
		if f.kind.ping {
			if n < 2*header || data[0] != 0 || binary.BigEndian.Uint16(data[4:]) != f.id { // the other side's requests come here too
				continue
			}
			data = data[header:]
		}
		if len(data) < header {
			f.take(0, false)
			continue
		}
		number := binary.BigEndian.Uint32(data)
		pattern(want, number)
		f.take(number, slices.Equal(data, want))
	}
}

func (f *flow) String() string { return fmt.Sprintf("%s %s", f.kind.name, f.way) }
