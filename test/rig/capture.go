package rig

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// Packet is what a capture remembers of one packet on the WAN.
type Packet struct {
	Src, Dst netip.Addr
	Proto    uint8 // IP protocol
	SPort    uint16
	DPort    uint16
	SPI      uint32 // ESP, plain or in UDP
	IKESA    string // IKE: "initiator's SPI/responder's SPI" as IKESA() has it
	SKF      bool   // IKE: a fragment of a message (RFC 7383)
	Piece    bool   // a fragment of an IP datagram
	Size     int
}

// ESP reports whether the packet is ESP, plain or UDP-encapsulated.
func (p Packet) ESP() bool { return p.SPI != 0 }

// IKE reports whether the packet is an IKE message or a NAT keepalive.
func (p Packet) IKE() bool {
	return p.Proto == unix.IPPROTO_UDP && !p.ESP() && (isIKE(p.SPort) || isIKE(p.DPort))
}

// Keepalive reports whether the packet has the form of a NAT keepalive: one octet to port 4500 (RFC 3948 section 2.3).
func (p Packet) Keepalive() bool {
	header := 20
	if p.Src.Is6() {
		header = 40
	}
	return p.Proto == unix.IPPROTO_UDP && p.DPort == 4500 && p.Size == header+8+1
}

func isIKE(port uint16) bool { return port == 500 || port == 4500 }

func (p Packet) String() string {
	if p.ESP() {
		return fmt.Sprintf("%s > %s ESP spi %08x len %d", p.Src, p.Dst, p.SPI, p.Size)
	}
	return fmt.Sprintf("%s:%d > %s:%d proto %d len %d", p.Src, p.SPort, p.Dst, p.DPort, p.Proto, p.Size)
}

// Capture records every IP packet that enters an interface of the WAN: each packet between the sites is seen once.
type Capture struct {
	fd      int
	mu      sync.Mutex
	seen    []Packet
	stop    chan struct{}
	stopped chan struct{}
}

// Capture starts a capture on the WAN. It is running when Capture returns.
func (t *Topology) Capture() (*Capture, error) {
	c := &Capture{stop: make(chan struct{}), stopped: make(chan struct{})}
	err := t.WAN.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_ALL)))
		if err != nil {
			return fmt.Errorf("capture: %w", err)
		}
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50000})
		c.fd = fd
		return nil
	})
	if err != nil {
		return nil, err
	}
	go c.read()
	return c, nil
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func (c *Capture) read() {
	defer close(c.stopped)
	defer unix.Close(c.fd)
	b := make([]byte, 65536)
	flags := 0 // wait for a packet, for the time set on the socket
	for {
		select {
		case <-c.stop:
			flags = unix.MSG_DONTWAIT // what is in the queue now, and no more: traffic may go on for ever
		default:
		}
		n, from, err := unix.Recvfrom(c.fd, b, flags)
		if err != nil { // the queue is empty
			if flags != 0 {
				return
			}
			continue
		}
		ll, ok := from.(*unix.SockaddrLinklayer)
		if !ok || ll.Pkttype == unix.PACKET_OUTGOING || ll.Ifindex == 1 {
			continue
		}
		if p, ok := parse(b[:n]); ok {
			c.mu.Lock()
			c.seen = append(c.seen, p)
			c.mu.Unlock()
		}
	}
}

// parse reads addresses, ports and SPI; fragments after the first have no ports.
func parse(b []byte) (Packet, bool) {
	p := Packet{Size: len(b)}
	var rest []byte
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		p.Proto = b[9]
		p.Src, _ = netip.AddrFromSlice(b[12:16])
		p.Dst, _ = netip.AddrFromSlice(b[16:20])
		if rest = b[min(len(b), int(b[0]&15)*4):]; binary.BigEndian.Uint16(b[6:])&0x1fff != 0 {
			rest = nil
		}
		p.Piece = binary.BigEndian.Uint16(b[6:])&0x3fff != 0
	case len(b) >= 40 && b[0]>>4 == 6:
		p.Proto = b[6]
		p.Src, _ = netip.AddrFromSlice(b[8:24])
		p.Dst, _ = netip.AddrFromSlice(b[24:40])
		rest = b[40:]
		if p.Proto == unix.IPPROTO_FRAGMENT && len(rest) >= 8 { // RFC 8200 section 4.5
			p.Piece, p.Proto = true, rest[0]
			if binary.BigEndian.Uint16(rest[2:])&^7 != 0 {
				rest = nil
			} else {
				rest = rest[8:]
			}
		}
	default:
		return p, false
	}
	switch {
	case p.Proto == 50 && len(rest) >= 8:
		p.SPI = binary.BigEndian.Uint32(rest)
	case p.Proto == unix.IPPROTO_UDP && len(rest) >= 8:
		p.SPort, p.DPort = binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
		data := rest[8:]
		if (p.SPort == 4500 || p.DPort == 4500) && len(data) >= 8 {
			p.SPI = binary.BigEndian.Uint32(data)
			data = data[4:] // after the non-ESP marker, when it was one
		}
		if p.IKE() && len(data) >= 28 {
			p.IKESA = fmt.Sprintf("%x/%x", data[:8], data[8:16])
			p.SKF = data[16] == 53
		}
	case p.Proto == unix.IPPROTO_TCP && len(rest) >= 4:
		p.SPort, p.DPort = binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
	}
	return p, true
}

// Seen returns what has been captured so far.
func (c *Capture) Seen() []Packet {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Packet(nil), c.seen...)
}

// Clear returns the captured packets with an address of a LAN: those that should have been protected.
func (t *Topology) Clear(ps []Packet) (clear []Packet) {
	for _, p := range ps {
		for _, l := range []netip.Prefix{t.A.LAN4, t.A.LAN6, t.B.LAN4, t.B.LAN6} {
			if l.Contains(p.Src) || l.Contains(p.Dst) {
				clear = append(clear, p)
				break
			}
		}
	}
	return clear
}

// SPIs counts the captured ESP packets by SPI.
func SPIs(ps []Packet) map[uint32]int {
	m := map[uint32]int{}
	for _, p := range ps {
		if p.ESP() {
			m[p.SPI]++
		}
	}
	return m
}

// Stop ends the capture once its queue is empty and returns everything seen.
func (c *Capture) Stop() []Packet {
	close(c.stop)
	<-c.stopped
	return c.Seen()
}
