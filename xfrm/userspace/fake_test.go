package userspace

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
	"cygnet/xfrm/netcfg"
)

const deadline = 5 * time.Second

// fakeTUN is a device whose other end is the test.
type fakeTUN struct {
	in     chan []byte // to the driver; room is added behind
	out    chan []byte // from the driver
	closed chan struct{}
	fail   error // of write
}

func newFakeTUN() *fakeTUN {
	return &fakeTUN{in: make(chan []byte, 256), out: make(chan []byte, 256), closed: make(chan struct{})}
}

func (f *fakeTUN) readAll(take func(vnet, []byte) bool) error {
	select {
	case <-f.closed:
		return errors.New("closed")
	case p := <-f.in:
		for take(vnet{}, roomy(p)) {
			select {
			case p = <-f.in:
			default:
				return nil
			}
		}
		return nil
	}
}

// roomy is p with the room behind it that a device gives.
func roomy(p []byte) []byte { return append(make([]byte, 0, len(p)+tailroom), p...) }

func (f *fakeTUN) write(_ vnet, parts [][]byte) error {
	if f.fail != nil {
		return f.fail
	}
	f.out <- bytes.Join(parts, nil)
	return nil
}

func (f *fakeTUN) offloads() offloads { return offloads{} }

func (f *fakeTUN) Close() error { close(f.closed); return nil }

// fakeHost holds what the driver wants of the host.
type fakeHost struct {
	mu        sync.Mutex
	addresses []netip.Addr
	routes    map[string][]netcfg.Route
	fail      error
	rules     fakeSet[rule]
	guards    fakeGuards
}

func (h *fakeHost) Set(_ context.Context, owner string, d netcfg.Desired) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fail != nil {
		return h.fail
	}
	h.routes[owner] = d.Routes
	if d.Routes == nil {
		delete(h.routes, owner)
	}
	return nil
}

func (h *fakeHost) AddressIn(_ context.Context, p netip.Prefix) (netip.Addr, bool, error) {
	for _, a := range h.addresses {
		if p.Contains(a) {
			return a, true, nil
		}
	}
	return netip.Addr{}, false, nil
}

func (h *fakeHost) Addresses(context.Context) ([]netip.Addr, error) { return h.addresses, nil }

func (h *fakeHost) Sweep(context.Context, []netcfg.Route) error { return nil }

type fakeSet[T comparable] struct{ have []T }

func (f *fakeSet[T]) add(x T) error { f.have = append(f.have, x); return nil }
func (f *fakeSet[T]) remove(x T) error {
	f.have = slices.DeleteFunc(f.have, func(y T) bool { return x == y })
	return nil
}
func (f *fakeSet[T]) list() ([]T, error) { return f.have, nil }

// fakeGuards has slots, as the kernel has.
type fakeGuards struct{ have []guard }

func (f *fakeGuards) add(g guard) error {
	f.remove(g)
	f.have = append(f.have, g)
	return nil
}

func (f *fakeGuards) remove(g guard) error {
	f.have = slices.DeleteFunc(f.have, func(h guard) bool { return h.slot() == g.slot() })
	return nil
}

func (f *fakeGuards) list() ([]guard, error) { return f.have, nil }

// bench is a driver between a fake TUN and bursts that the test sees.
type bench struct {
	*Driver
	tun     *fakeTUN
	host    *fakeHost
	sent    chan xfrm.Burst
	Receive func(*xfrm.Burst) // one receive loop
}

func newBench(t testing.TB) *bench {
	b := &bench{tun: newFakeTUN(), host: &fakeHost{routes: map[string][]netcfg.Route{}}, sent: make(chan xfrm.Burst, 1024)}
	c := Config{TUN: "cygnet0", MTU: DefaultMTU, Rand: rand.NewChaCha8([32]byte{1}), PlainESP: true, Send: func(x *xfrm.Burst) error {
		c := xfrm.Burst{Local: x.Local, Remote: x.Remote}
		for _, p := range x.Packets {
			c.Packets = append(c.Packets, bytes.Clone(p))
		}
		b.sent <- c
		return nil
	}}
	b.Driver = newDriver(c, b.tun, &steering{
		net: b.host, rules: &b.host.rules, guards: &b.host.guards, marked: true, ports: [2]uint16{500, 4500},
		routes: map[netip.Prefix][]netcfg.Route{}, link: netcfg.Link{Name: c.TUN, Up: true},
	})
	b.Receive = b.Receiver()
	t.Cleanup(func() { b.Close() })
	return b
}

func (b *bench) apply(t testing.TB, ops ...xfrm.Op) {
	t.Helper()
	if err := b.Apply(context.Background(), ops); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) event(t testing.TB) xfrm.Event {
	t.Helper()
	return wait(t, b.Events())
}

func (b *bench) quiet(t testing.TB) {
	t.Helper()
	select {
	case ev := <-b.Events():
		t.Errorf("event %+v", ev)
	default:
	}
}

// send puts packets into the TUN and returns the first burst that leaves.
func (b *bench) send(t testing.TB, packets ...[]byte) xfrm.Burst {
	t.Helper()
	for _, p := range packets {
		b.tun.in <- p
	}
	return wait(t, b.sent)
}

// eventually waits until a counter has come to n.
func eventually(t testing.TB, what string, n uint64, read func() uint64) {
	t.Helper()
	for end := time.Now().Add(deadline); read() != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: %d, want %d", what, read(), n)
		}
	}
}

func wait[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(deadline):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// udp4 is an IPv4 packet with UDP ports.
func udp4(src, dst string, sport, dport uint16, payload int) []byte {
	p := make([]byte, 28+payload)
	p[0], p[8], p[9] = 0x45, 64, 17
	p[2], p[3] = byte(len(p)>>8), byte(len(p))
	s, d := netip.MustParseAddr(src).As4(), netip.MustParseAddr(dst).As4()
	copy(p[12:], s[:])
	copy(p[16:], d[:])
	p[20], p[21], p[22], p[23] = byte(sport>>8), byte(sport), byte(dport>>8), byte(dport)
	return p
}

// udp6 likewise.
func udp6(src, dst string, sport, dport uint16, payload int) []byte {
	p := make([]byte, 48+payload)
	p[0], p[6], p[7] = 0x60, 17, 64
	p[4], p[5] = byte((len(p)-40)>>8), byte(len(p)-40)
	s, d := netip.MustParseAddr(src).As16(), netip.MustParseAddr(dst).As16()
	copy(p[8:], s[:])
	copy(p[24:], d[:])
	p[40], p[41], p[42], p[43] = byte(sport>>8), byte(sport), byte(dport>>8), byte(dport)
	return p
}

func selector(src, dst string) xfrm.Selector {
	return xfrm.Selector{Src: netip.MustParsePrefix(src), Dst: netip.MustParsePrefix(dst)}
}

func outPolicy(s xfrm.Selector, priority uint32, spi uint32) xfrm.Policy {
	return xfrm.Policy{
		Slot: xfrm.Slot{Direction: xfrm.Out, Selector: s}, Priority: priorityFirst + priority,
		Template: xfrm.Template{Src: local.Addr(), Dst: remote.Addr(), ReqID: testReqID, SPI: spi},
	}
}

var (
	local  = netip.MustParseAddrPort("192.0.2.1:4500")
	remote = netip.MustParseAddrPort("198.51.100.7:4500")
)

// testSA in a direction as seen by the gateway at local; the same SPI has the same key.
func testSA(d xfrm.Direction, spi uint32, selectors ...xfrm.Selector) xfrm.SA {
	key := make([]byte, 36)
	key[0] = byte(spi)
	s := xfrm.SA{
		ID: xfrm.SAID{Dst: remote.Addr(), SPI: spi, Proto: 50}, Src: local.Addr(), Direction: d, ReqID: testReqID,
		Suite: xfrm.Suite{Encr: alg.EncrAESGCM16, KeyBits: 256}, EncrKey: alg.NewSecret(key),
		Encap: &xfrm.Encap{SrcPort: local.Port(), DstPort: remote.Port()}, Selectors: selectors,
	}
	if d == xfrm.In {
		s.ID.Dst, s.Src = s.Src, s.ID.Dst
		s.Encap = &xfrm.Encap{SrcPort: remote.Port(), DstPort: local.Port()}
	}
	return s
}

// peer seals packets as the other gateway would.
func (b *bench) from(t testing.TB, p *peerSA, packets ...[]byte) {
	t.Helper()
	burst := xfrm.Burst{Local: local, Remote: p.at}
	for _, inner := range packets {
		burst.Packets = append(burst.Packets, p.seal(t, inner))
	}
	b.Receive(&burst)
}
