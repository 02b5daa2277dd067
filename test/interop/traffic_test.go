//go:build interop

package interop

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"cygnet/test/rig"
)

func TestUserspaceTraffic(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	trafficRows(t, "userspace")
}

func TestKernelTraffic(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	trafficRows(t, "kernel")
}

// trafficRows: a connection that traffic brings up comes up soon after a restart, also when the process before has been asked for it and has
// not got an answer; the kernel's note of that, a larval SA, would keep it silent for half a minute.
func trafficRows(t *testing.T, plane string) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		name := map[syscall.Signal]string{syscall.SIGTERM: "SIGTERM", syscall.SIGKILL: "SIGKILL"}[signal]
		line{peer: "cygnet " + plane, role: "both", subject: "start = traffic after " + name, path: "IPv4"}.run(t, func(s *stage) string {
			x := tunnel(s.Topology, rig.CBC, false, false)
			a := s.own(s.A, x, rig.CygnetOptions{Dataplane: plane, Start: "traffic"})
			stop, err := rig.Traffic(s.A.Host, s.B.Host4)
			s.must(err)
			defer stop()
			s.want(rig.Until(patience, func() bool { return strings.Contains(a.Log.String(), "IKE_SA_INIT sent") }), "traffic does not raise the connection")
			s.want(plane != "kernel" || larval(s) == 1, "the kernel has no larval SA, so this row shows nothing")
			s.must(a.Signal(signal))
			s.want(signal != syscall.SIGTERM || larval(s) == 0, "a clean stop left a larval SA")

			s.own(s.B, tunnelB(s.Topology, x), rig.CygnetOptions{Dataplane: plane})
			c, err := rig.StartCygnet(s.A.Gateway, bin, a.Dir)
			s.must(err)
			again, begun := &rig.CygnetEnd{Cygnet: c}, time.Now()
			s.keep(again)
			s.want(rig.Until(5*time.Second, func() bool { _, err := again.SA(); return err == nil }), "not up within 5 s of the restart")
			took := time.Since(begun)
			s.must(rig.Ping(s.A.Host, s.B.Host4))
			stop()
			s.must(again.Signal(syscall.SIGTERM))
			s.want(larval(s) == 0, "a clean stop left a larval SA")
			return fmt.Sprintf("up %.1f s after the restart, no larval SA at the end", took.Seconds())
		})
	}
}

// larval counts the SAs of A's kernel that wait for a daemon: those of SPI 0.
func larval(s *stage) int {
	out, err := s.A.Gateway.Output("ip", "xfrm", "state")
	s.must(err)
	return strings.Count(out, "spi 0x00000000")
}
