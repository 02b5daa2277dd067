//go:build interop

package interop

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"cygnet/test/rig"
)

func TestUserspaceFailClosed(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	failClosedRows(t, "userspace")
}

func TestKernelFailClosed(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	failClosedRows(t, "kernel")
}

// failClosedRows: while a host and the gateway itself keep sending, no packet for the other LAN crosses the WAN in clear: before there is
// a peer, when the peer takes the tunnel down, when our daemon stops, has died, starts again, and when our operator takes it down.
func failClosedRows(t *testing.T, plane string) {
	need(t, "peers", rig.HaveSwan())
	for _, start := range []string{"boot", "traffic"} {
		line{peer: "strongSwan " + plane, role: "initiates", subject: "fails closed, start = " + start, path: "IPv4"}.run(t, func(s *stage) string {
			x := tunnel(s.Topology, rig.CBC, false, false)
			capture, err := s.Capture()
			s.must(err)
			own := s.own(s.A, x, rig.CygnetOptions{Dataplane: plane, Start: start})
			stop, err := rig.Traffic(s.A.Host, s.B.Host4)
			s.must(err)
			defer stop()
			stopGateway, err := rig.Traffic(s.A.Gateway, s.B.Host4, "-I", s.A.GatewayLAN4.String())
			s.must(err)
			defer stopGateway()

			var evidence []string
			// closed wants a while's packets to have been sent and none seen in clear.
			closed := func(when string) {
				s.must(s.passWhile())
				clear, _ := s.clearOf(capture.Seen(), s.A.LAN4)
				s.want(len(clear) == 0, "%s: %d packets in clear, first: %v", when, len(clear), clear)
				evidence = append(evidence, when)
			}
			again := func() {
				c, err := rig.StartCygnet(s.A.Gateway, bin, own.Dir)
				s.must(err)
				own = &rig.CygnetEnd{Cygnet: c}
				s.keep(own)
			}
			// up wants ESP of a tunnel to be seen that was not there before.
			up := func(when string) {
				before := rig.SPIs(capture.Seen())
				s.want(rig.Until(patience, func() bool {
					sa, err := own.SA()
					return err == nil && before[sa.SPIOut] < rig.SPIs(capture.Seen())[sa.SPIOut]
				}), "%s: no ESP on the WAN", when)
				closed(when)
			}
			closed("no peer")
			peer := s.swan(s.B, tunnelB(s.Topology, x), plane)
			up("up")
			s.must(peer.Down())
			closed("down by the peer")
			s.must(own.Signal(syscall.SIGTERM))
			closed("SIGTERM")
			again()
			up("started")
			s.must(own.Signal(syscall.SIGKILL))
			closed("SIGKILL")
			again()
			up("started")
			s.must(own.Down())
			closed("down by us")
			seen := capture.Stop()
			_, theirs := s.clearOf(seen, s.A.LAN4)
			return fmt.Sprintf("%d packets on the WAN, none of ours in clear%s: %s", len(seen), theirs, strings.Join(evidence, ", "))
		})
	}
}

// passWhile lets thirty of the flood's packets be sent: it sends as many itself, and waits for them.
func (s *stage) passWhile() error {
	_, err := s.A.Host.Output("ping", "-q", "-c", "30", "-i", "0.01", "-W", "0.2", s.B.Host4.String())
	if err != nil && strings.Contains(err.Error(), "packets transmitted") {
		return nil // that no answer comes is no failure
	}
	return err
}
