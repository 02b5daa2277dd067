package userspace

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"

	"cygnet/xfrm"

	"golang.org/x/sys/unix"
)

// threadTime is what the thread has computed, in nanoseconds: it does not count the time of others on a busy machine.
func threadTime(b *testing.B) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return t.Nano()
}

// BenchmarkLookup finds the policies of packets among those of 1, 1000 and 10000 children, each with a remote network of its own. There are as many flows,
// drawn at random over all children, in each case, so that only the tables differ.
func BenchmarkLookup(b *testing.B) {
	const flows = 1 << 10 // a power of two
	for _, children := range []int{1, 1000, 10000} {
		b.Run(fmt.Sprintf("children=%d", children), func(b *testing.B) {
			remote := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 128 | byte(n>>8), byte(n), 0}) }
			contents := newContents()
			for n := range children {
				s := lanToLAN
				s.Dst = netip.PrefixFrom(remote(n), 24)
				p := outPolicy(s, 1, 0)
				p.Template.ReqID = uint32(n + 1)
				contents.putPolicy(&policy{Policy: p})
				contents.addSA(xfrm.SAID{Dst: remote(n), SPI: uint32(n + 256)}, &sa{direction: xfrm.Out, reqID: uint32(n + 1)})
			}
			t, random := contents.tables(), rand.New(rand.NewPCG(1, 2))
			list := make([]flow, flows)
			for i := range list {
				host := remote(random.IntN(children)).As4()
				host[3] = byte(i)
				f, ok := parse(udp4("10.1.0.5", netip.AddrFrom4(host).String(), uint16(i), 53, 64))
				if found, is := t.find(&f); !ok || !is || found.sa == nil {
					b.Fatalf("no policy or SA for %v", f)
				}
				list[i] = f
			}
			b.ReportAllocs()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			begun := threadTime(b)
			i := 0
			for b.Loop() {
				if _, ok := t.find(&list[i%flows]); !ok {
					b.Fatal("no policy")
				}
				i++
			}
			b.ReportMetric(float64(threadTime(b)-begun)/float64(i), "cpu-ns/op")
		})
	}
}
