package transport

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cygnet/ike"
	"cygnet/xfrm"
)

// run is one of n packets, the last of which is shorter.
func run(a netip.Addr, from, to *node, n, size int) *xfrm.Burst {
	b := &xfrm.Burst{Local: netip.AddrPortFrom(a, from.Transport.config.NATTPort), Remote: netip.AddrPortFrom(a, to.Transport.config.NATTPort), Run: true}
	arena := make([]byte, 0, n*size)
	for k := range n {
		start := len(arena)
		arena = append(arena, message(byte(k%255+1), size)...)
		if k == n-1 {
			arena = arena[:len(arena)-size/2]
		}
		b.Packets = append(b.Packets, arena[start:])
	}
	return b
}

func (n *node) expect(t *testing.T, b *xfrm.Burst) {
	t.Helper()
	for k, p := range b.Packets {
		got := wait(t, n.esp)
		if !bytes.Equal(got.Packets[0], p) || got.Local != b.Remote || got.Remote != b.Local || got.TOS != b.TOS {
			t.Fatalf("packet %d of %d: %d octets, %v <- %v, class %x", k, len(b.Packets), len(got.Packets[0]), got.Local, got.Remote, got.TOS)
		}
	}
}

// All lengths of runs arrive whole and in order: within one message of the kernel's, and beyond.
func TestSendRun(t *testing.T) {
	a, b := open(t), open(t)
	for _, addr := range loopbacks(t) {
		for _, c := range []struct{ n, size int }{{1, 100}, {2, 1436}, {64, 40}, {65, 40}, {128, 40}, {129, 40}, {45, 1436}, {60, 1436}, {3, 40000}, {300, 17}} {
			x := run(addr, a, b, c.n, c.size)
			x.TOS = 0xb8 | 2
			var all sync.WaitGroup
			all.Go(func() {
				if err := a.SendESP(x); err != nil {
					t.Errorf("%d packets of %d octets: %v", c.n, c.size, err)
				}
			})
			b.expect(t, x)
			all.Wait()
		}
	}
	for _, s := range a.udp {
		if s.out.refused.some.Load() {
			t.Error("more was given to the kernel as one than it takes")
		}
	}
}

// What is not the run that it says is sent as what it is.
func TestSendNoRun(t *testing.T) {
	a, b := open(t), open(t)
	lo := loopbacks(t)[0]
	apart, swapped, longer, empty := run(lo, a, b, 3, 60), run(lo, a, b, 3, 60), run(lo, a, b, 3, 60), run(lo, a, b, 3, 60)
	apart.Packets[1] = bytes.Clone(apart.Packets[1])
	swapped.Packets[0], swapped.Packets[1] = swapped.Packets[1], swapped.Packets[0]
	longer.Packets[1], longer.Packets[2] = longer.Packets[1][:50], longer.Packets[1][50:60]
	empty.Packets = [][]byte{empty.Packets[0], empty.Packets[1][:0], empty.Packets[1]}
	for name, x := range map[string]*xfrm.Burst{"apart": apart, "swapped": swapped, "longer": longer} {
		if joined(x.Packets) {
			t.Errorf("%s: taken for a run", name)
		}
		if err := a.SendESP(x); err != nil {
			t.Fatal(err)
		}
		b.expect(t, x)
	}
	if joined(empty.Packets) {
		t.Error("a run with an empty packet")
	}
}

func TestSendersAtTheSameTime(t *testing.T) {
	a, b := open(t), open(t)
	var all sync.WaitGroup
	const senders, rounds, packets = 4, 8, 8
	for range senders {
		all.Go(func() {
			x := run(loopbacks(t)[0], a, b, packets, 400)
			for range rounds {
				if err := a.SendESP(x); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range senders * rounds * packets {
		got := wait(t, b.esp).Packets[0]
		if !bytes.Equal(got, message(got[0], len(got))) {
			t.Fatalf("mixed: %x", got)
		}
	}
	all.Wait()
}

func TestSendESPAllocatesNothing(t *testing.T) {
	a, b := open(t), open(t)
	b.Close() // nobody reads
	x := run(loopbacks(t)[0], a, b, 20, 100)
	for _, isRun := range []bool{true, false} {
		x.Run = isRun
		if n := testing.AllocsPerRun(100, func() { a.SendESP(x) }); n != 0 {
			t.Errorf("run %v: %v allocations", x.Run, n)
		}
	}
}

// The kernel refuses a run whose packets are longer than the path carries: nothing is lost, and single datagrams, which may be fragmented, are sent for
// a while.
func TestRunLongerThanThePath(t *testing.T) {
	name := fmt.Sprintf("cyg-transport-%d", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		if strings.Contains(os.Getenv("REQUIRE"), "root") {
			t.Fatalf("REQUIRE has root, but: %v: %s", err, out)
		}
		t.Skipf("ip netns add: %v: %s", err, out)
	}
	defer exec.Command("ip", "netns", "del", name).Run()
	if out, err := exec.Command("ip", "-n", name, "link", "set", "lo", "mtu", "1300", "up").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	a, b := openIn(t, name)
	lo := netip.MustParseAddr("127.0.0.1")
	for range 2 {
		x := run(lo, a, b, 30, 1400)
		if err := a.SendESP(x); err != nil {
			t.Fatal(err)
		}
		b.expect(t, x)
	}
	s, err := a.socketFor(ikePath(run(lo, a, b, 1, 9)))
	if err != nil || !s.out.refused.has(lo) || s.out.refused.has(netip.MustParseAddr("127.0.0.2")) {
		t.Errorf("not remembered: %v", err)
	}
	other := netip.MustParseAddr("127.0.0.2") // another path is still sent runs
	x := run(other, a, b, 30, 1200)
	if err := a.SendESP(x); err != nil {
		t.Fatal(err)
	}
	b.expect(t, x)
	if s.out.refused.has(other) {
		t.Error("refused though it fits")
	}
}

// openIn opens two nodes in a network namespace. Sockets stay where they were opened; the thread goes back.
func openIn(t *testing.T, namespace string) (a, b *node) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	into := func(path string) (enter func()) {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
				t.Fatal(err)
			}
			unix.Close(fd)
		}
	}
	defer into("/proc/thread-self/ns/net")()
	into("/var/run/netns/" + namespace)()
	return open(t), open(t)
}

func TestRefusals(t *testing.T) {
	var r refusals
	now := time.Now()
	at := func(k int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(k)}) }
	r.add(at(1), now.Add(-refusalStands))
	if r.has(at(1)) || r.has(netip.Addr{}) {
		t.Error("a refusal stands for ever")
	}
	for k := range 40 {
		r.add(at(k), now)
	}
	for k := range 40 {
		if r.has(at(k)) != (k >= 40-len(r.list)) {
			t.Errorf("%d: %v", k, r.has(at(k)))
		}
	}
}

// The system call goes on after a message that the kernel refuses.
func TestSendGoesOn(t *testing.T) {
	a, b := open(t), open(t)
	x := run(loopbacks(t)[0], a, b, 3, 100)
	x.Run = false
	x.Packets[1] = make([]byte, 70000) // no datagram holds it
	if err := a.SendESP(x); err == nil || !strings.Contains(err.Error(), "70000 octets") {
		t.Errorf("error %v", err)
	}
	x.Packets = [][]byte{x.Packets[0], x.Packets[2]}
	b.expect(t, x)
	a.Close()
	if err := a.SendESP(x); !strings.Contains(fmt.Sprint(err), net.ErrClosed.Error()) {
		t.Errorf("after Close: %v", err)
	}
}

func BenchmarkSendRun(b *testing.B) {
	from, to := open(b), open(b)
	to.Close()
	for _, isRun := range []bool{true, false} {
		b.Run(fmt.Sprint(isRun), func(b *testing.B) {
			x := run(netip.MustParseAddr("127.0.0.1"), from, to, 44, 1436)
			x.Run = isRun
			b.SetBytes(44 * 1436)
			b.ReportAllocs()
			for b.Loop() {
				from.SendESP(x)
			}
		})
	}
}

func ikePath(b *xfrm.Burst) ike.Path { return ike.Path{Local: b.Local, Remote: b.Remote} }
