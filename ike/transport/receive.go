package transport

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"cygnet/ike"
	"cygnet/xfrm"
)

// readPause after a failed read (no memory): do not spin.
const readPause = time.Millisecond

// loop receives what comes by one socket. Of what one read brings, IKE messages are handed on first: ESP is work.
type loop struct {
	t        *Transport
	batch    *batch
	classify func([]byte) (kind, []byte)
	port     uint16 // 0: a raw socket
	deliver  func(*xfrm.Burst)
	zones    zones

	packets [][]byte     // ESP of one read
	bursts  []xfrm.Burst // which of them are whose
	held    bool         // the receiver of bursts was told that more follows
	end     xfrm.Burst   // without packets: that none does
}

func (t *Transport) newLoop(conn syscall.RawConn, buffers int, port uint16, classify func([]byte) (kind, []byte)) *loop {
	return &loop{t: t, batch: newBatch(conn, buffers), classify: classify, port: port, deliver: t.receiver()}
}

// run ends when the socket is closed.
func (l *loop) run() {
	for l.step() {
	}
}

// step is one read. It is false when the socket is closed.
func (l *loop) step() bool {
	first, n, err := l.batch.read(!l.held)
	if err != nil {
		l.release()
		return !l.t.ended(err)
	}
	l.sort(first, n)
	last := n == 0 || l.batch.full()
	l.hand(!last)
	if last || !l.held {
		l.release()
	}
	return true
}

// sort hands on the IKE messages among the datagrams from first on and collects the ESP packets.
func (l *loop) sort(first, n int) {
	l.packets, l.bursts = l.packets[:0], l.bursts[:0]
	for i := first; i < first+n; i++ {
		remote := l.batch.from(i, &l.zones)
		if l.port == 0 {
			remote = netip.AddrPortFrom(remote.Addr(), 0)
		}
		a := parseControl(l.batch.control(i), remote.Addr().Zone())
		path := ike.Path{Local: netip.AddrPortFrom(a.local, l.port), Remote: remote}
		before := len(l.packets)
		// Each datagram of a merged one may be anything: an IKE message or a keepalive may come last (it is shorter).
		for data := l.batch.data(i); ; {
			one := data
			if a.segment > 0 && a.segment < len(data) {
				one = data[:a.segment:a.segment]
			}
			l.one(path, one)
			if data = data[len(one):]; len(data) == 0 {
				break
			}
		}
		l.book(path, a.tos, before)
	}
}

// one datagram.
func (l *loop) one(path ike.Path, data []byte) {
	switch k, body := l.classify(data); {
	case k == kindNone, k == kindESP && !path.Local.Addr().IsValid():
		l.t.dropped.short.Add(1)
	case k == kindIKE:
		l.t.config.IKE(ike.Packet{Path: path, Data: bytes.Clone(body)})
	case k == kindESP:
		l.packets = append(l.packets, body)
	}
}

// book puts the packets from number first on into the last burst, if they came the same way, else into a new one.
func (l *loop) book(path ike.Path, tos uint8, first int) {
	if first == len(l.packets) {
		return
	}
	if n := len(l.bursts); n > 0 {
		if b := &l.bursts[n-1]; b.Local == path.Local && b.Remote == path.Remote && b.TOS == tos {
			b.Packets = l.packets[first-len(b.Packets):]
			return
		}
	}
	l.bursts = append(l.bursts, xfrm.Burst{Local: path.Local, Remote: path.Remote, TOS: tos, Packets: l.packets[first:]})
}

// hand on the bursts; more: another read follows at once.
func (l *loop) hand(more bool) {
	for i := range l.bursts {
		b := &l.bursts[i]
		b.More = more || i+1 < len(l.bursts)
		l.held = b.More
		l.deliver(b)
	}
}

// release the buffers; the receiver of bursts waits no longer for what shares them.
func (l *loop) release() {
	if l.held {
		l.held = false
		l.deliver(&l.end)
	}
	l.batch.release()
}

// classify datagrams of a UDP socket.
func (s *udpSocket) classify(b []byte) (kind, []byte) { return classify(s.natt, b) }

// receiver of ESP for one loop.
func (t *Transport) receiver() func(*xfrm.Burst) {
	if t.config.ESP == nil {
		return func(b *xfrm.Burst) { t.dropped.esp.Add(uint64(len(b.Packets))) }
	}
	return t.config.ESP()
}

// ended reports whether a read failed because the socket is closed. Any other failure passes.
func (t *Transport) ended(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return true
	}
	t.dropped.errors.Add(1)
	time.Sleep(readPause)
	return false
}
