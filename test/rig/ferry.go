package rig

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"cygnet/ike/wire"
)

// Ferry carries the IKE messages over the WAN (IPv4, without NAT) in the place of its kernel, and can keep them on its way, so that messages of both
// sides cross whatever the daemons' speed. ESP is none of its business and goes on.
//
// The WAN's kernel is told by nftables to drop what it would forward to UDP port 500, and to 4500 behind a non-ESP marker. The Ferry sees the same packets on a packet socket,
// before they are dropped, and sends them on by a raw socket: as packets of the WAN's own, which are not forwarded and so not dropped.
type Ferry struct {
	wan      NS
	in, out  int // packet socket, raw socket
	mu       sync.Mutex
	holding  bool
	held     [][]byte // whole packets, oldest first
	log      []Message
	ticks    int
	esp      map[netip.Addr]int // packets of each sender
	failed   error
	quit     chan struct{}
	finished chan struct{}
}

// Message is an IKE message that a Ferry has had, as far as its clear header tells (RFC 7296 section 3.1).
type Message struct {
	Src        netip.Addr
	Header     wire.Header
	Came, Left int // when, counting all that came and left; Left is 0 while it is held
	ESP        int // packets of ESP that its sender's peer had sent before it came
}

// Request reports whether the message is a request.
func (m Message) Request() bool { return m.Header.Flags&wire.FlagResponse == 0 }

// repeats reports whether two messages are one, sent twice.
func (m Message) repeats(o Message) bool {
	x, y := m.Header, o.Header
	return m.Src == o.Src && x.SPIi == y.SPIi && x.SPIr == y.SPIr && x.MessageID == y.MessageID && x.Exchange == y.Exchange && x.Flags == y.Flags
}

func (m Message) String() string {
	kind := "response"
	if m.Request() {
		kind = "request"
	}
	return fmt.Sprintf("%s %s %d from %s, IKE SA %s/%s", m.Header.Exchange, kind, m.Header.MessageID, m.Src, m.Header.SPIi, m.Header.SPIr)
}

// ferryRules keep IKE from being forwarded. The mark of IKE on port 4500 are four zero octets behind the UDP header (RFC 3948 section 2.2).
const ferryRules = `table ip ferry {
	chain forward {
		type filter hook forward priority 0;
		udp dport 500 drop
		udp sport 500 drop
		udp dport 4500 @th,64,32 0 drop
		udp sport 4500 @th,64,32 0 drop
	}
}`

// Ferry puts a Ferry into the WAN, to be called before there is IKE. It passes everything on until Hold.
func (t *Topology) Ferry() (*Ferry, error) {
	f := &Ferry{wan: t.WAN, in: -1, out: -1, esp: map[netip.Addr]int{}, quit: make(chan struct{}), finished: make(chan struct{})}
	err := t.WAN.Do(func() (err error) {
		if f.in, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_IP))); err != nil {
			return fmt.Errorf("ferry: %w", err)
		}
		unix.SetsockoptInt(f.in, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
		unix.SetsockoptTimeval(f.in, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50000})
		if f.out, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil { // which implies IP_HDRINCL
			return fmt.Errorf("ferry: %w", err)
		}
		return nil
	})
	if err == nil {
		_, err = t.WAN.Output("nft", ferryRules)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	go f.read()
	return f, nil
}

func (f *Ferry) close() {
	for _, fd := range []int{f.in, f.out} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// Stop ends it: IKE does not pass any more. An error is one that it met on the way.
func (f *Ferry) Stop() error {
	close(f.quit)
	<-f.finished
	f.close()
	return f.failed
}

func (f *Ferry) read() {
	defer close(f.finished)
	b := make([]byte, 65536)
	for {
		select {
		case <-f.quit:
			return
		default:
		}
		n, from, err := unix.Recvfrom(f.in, b, 0)
		if err != nil { // nothing within the time set on the socket
			continue
		}
		if ll, ok := from.(*unix.SockaddrLinklayer); ok && ll.Pkttype != unix.PACKET_OUTGOING && ll.Ifindex != 1 {
			f.take(b[:n])
		}
	}
}

// take keeps a copy of an IKE message, and passes it on unless it is to be held.
func (f *Ferry) take(packet []byte) {
	p, ok := parse(packet)
	if !ok || !p.Src.Is4() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.ESP() {
		f.esp[p.Src]++
	}
	if !p.IKE() || p.Keepalive() {
		return
	}
	h, err := ikeHeader(p, packet)
	if err != nil {
		f.failed = errors.Join(f.failed, fmt.Errorf("ferry: %s: %w", p, err))
		return
	}
	f.ticks++
	f.log = append(f.log, Message{Src: p.Src, Header: h, Came: f.ticks, ESP: f.esp[p.Dst]})
	f.held = append(f.held, slices.Clone(packet))
	if !f.holding {
		f.pass()
	}
}

// ikeHeader reads the header of the IKE message in an IPv4 packet.
func ikeHeader(p Packet, packet []byte) (wire.Header, error) {
	udp := packet[int(packet[0]&15)*4:]
	length := int(binary.BigEndian.Uint16(udp[4:])) // what is behind it the link has added
	if length < 8 || length > len(udp) {
		return wire.Header{}, fmt.Errorf("%d octets, of which UDP says that they are %d", len(udp), length)
	}
	message := udp[8:length]
	if p.SPort == 4500 || p.DPort == 4500 {
		message = bytes.TrimPrefix(message, []byte(wire.NonESPMarker))
	}
	return wire.ParseHeader(message)
}

// pass sends on all that is held. The caller has the lock.
func (f *Ferry) pass() {
	first := len(f.log) - len(f.held)
	for i, p := range f.held {
		// The sender's kernel leaves the UDP checksum to a network card that is not there. IPv4 can do without (RFC 768).
		udp := int(p[0]&15) * 4
		p[udp+6], p[udp+7] = 0, 0
		if err := unix.Sendto(f.out, p, 0, &unix.SockaddrInet4{Addr: [4]byte(p[16:20])}); err != nil {
			f.failed = errors.Join(f.failed, fmt.Errorf("ferry: %s: %w", f.log[first+i], err))
		}
		f.ticks++
		f.log[first+i].Left = f.ticks
	}
	f.held = nil
}

// Hold keeps all IKE messages that come from now on.
func (f *Ferry) Hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holding = true
}

// Release passes on what is held, in the order in which it came, and all that follows.
func (f *Ferry) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holding = false
	f.pass()
}

// Log returns all messages so far.
func (f *Ferry) Log() []Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// Begun finds the requests of an exchange that a side has begun since a place in the log. Repeats are left out, also those of requests before that place.
func Begun(log []Message, since int, src netip.Addr, exchange wire.ExchangeType) (list []Message) {
next:
	for i := since; i < len(log); i++ {
		m := log[i]
		if m.Src != src || m.Header.Exchange != exchange || !m.Request() {
			continue
		}
		for _, o := range log[:i] {
			if m.repeats(o) {
				continue next
			}
		}
		list = append(list, m)
	}
	return list
}

// Spoken is a side and the exchange that it begins.
type Spoken struct {
	Src      netip.Addr
	Exchange wire.ExchangeType
}

// Cross calls begin, which has both sides begin an exchange and does not wait for its end, and holds all IKE until the first request of each is under way: neither side
// has then seen the other's. With answers it holds both answers too, until both are under way: neither side has then to take one while it is still at work on the other's
// request. It returns both requests, and has let all go.
func (f *Ferry) Cross(x, y Spoken, answers bool, within time.Duration, begin func()) (a, b Message, err error) {
	f.Hold()
	defer f.Release()
	since := len(f.Log())
	begin()
	var fromX, fromY []Message
	if !Until(within, func() bool {
		log := f.Log()
		fromX, fromY = Begun(log, since, x.Src, x.Exchange), Begun(log, since, y.Src, y.Exchange)
		return len(fromX) > 0 && len(fromY) > 0
	}) {
		return a, b, fmt.Errorf("no crossing within %s: %d %s from %s, %d %s from %s; held: %s",
			within, len(fromX), x.Exchange, x.Src, len(fromY), y.Exchange, y.Src, f.Log()[since:])
	}
	a, b = fromX[0], fromY[0]
	if !answers {
		return a, b, nil
	}
	f.passHeld()
	if !Until(within, func() bool { return f.answered(a) && f.answered(b) }) {
		err = fmt.Errorf("no answers within %s to %s and %s: %s", within, a, b, f.Log()[since:])
	}
	return a, b, err
}

// passHeld passes on what is held, and holds what follows.
func (f *Ferry) passHeld() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pass()
}

// Unheard is how much ESP a side was sent between a request of its own and the next request that it began: until then nobody can know that it has had the answer.
func (f *Ferry) Unheard(request Message) int {
	log := f.Log()
	for i, m := range log {
		if m.Came > request.Came && len(Begun(log[:i+1], i, request.Src, m.Header.Exchange)) > 0 {
			return m.ESP - request.ESP
		}
	}
	return 0
}

// Waits reports whether a side's last request has no answer yet.
func (f *Ferry) Waits(src netip.Addr) bool {
	for _, m := range slices.Backward(f.Log()) {
		if m.Src == src && m.Request() {
			return !f.answered(m)
		}
	}
	return false
}

// answered reports whether there has been a response to a request.
func (f *Ferry) answered(request Message) bool {
	return slices.ContainsFunc(f.Log(), func(m Message) bool {
		x, y := m.Header, request.Header
		return !m.Request() && m.Src != request.Src && x.MessageID == y.MessageID && x.SPIi == y.SPIi && x.SPIr == y.SPIr
	})
}

// Crossed reports whether each of two messages came before the other had left.
func (f *Ferry) Crossed(a, b Message) bool {
	at := func(m Message) Message {
		for _, o := range f.Log() {
			if o.Came == m.Came {
				return o
			}
		}
		return Message{}
	}
	a, b = at(a), at(b)
	return a.Came != 0 && b.Came != 0 && a.Left != 0 && b.Left != 0 && a.Came < b.Left && b.Came < a.Left
}
