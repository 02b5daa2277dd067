//go:build interop

package interop

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cygnet/test/rig"
)

// Rekeys of a row, and after which of the child's the IKE SA is rekeyed too, so that others follow on the new one.
const (
	childRekeys    = 10
	betweenTheIKEs = 3
)

// TestUserspaceStrongSwanRekey: cygnet or its peer rekeys the child ten times and the IKE SA three times in between, while pings flood through
// the tunnel.
func TestUserspaceStrongSwanRekey(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	rekeyRows(t, "strongSwan", "userspace")
}

// TestKernelStrongSwanRekey is the same on the kernel's ESP.
func TestKernelStrongSwanRekey(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	need(t, "peers", rig.HaveSwan())
	rekeyRows(t, "strongSwan", "kernel")
}

// TestKernelLibreswanRekey is the same with Libreswan.
func TestKernelLibreswanRekey(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	rekeyRows(t, "Libreswan", "kernel")
}

func rekeyRows(t *testing.T, peer, plane string) {
	n := childRekeys
	if plane == "kernel" { // in a VM all is slow, so in CI there are fewer, yet some on each side of one of the IKE SA
		n = max(rounds(t, childRekeys), betweenTheIKEs+1)
	}
	for _, by := range []string{"us", "peer"} {
		for _, initiate := range []bool{true, false} {
			suite := map[bool]rig.Suite{true: rig.GCM, false: rig.CBC}[initiate == (by == "us")]
			subject := fmt.Sprintf("rekeys by %s, %s", by, suite.Name)
			line{peer: peer + " " + plane, role: role(initiate), subject: subject, path: "IPv4"}.run(t, func(s *stage) string {
				return s.rekeys(peer, plane, suite, initiate, by, n)
			})
		}
	}
}

// rekeys is a row of rekeyRows.
func (s *stage) rekeys(peer, plane string, suite rig.Suite, initiate bool, by string, n int) (evidence string) {
	own, us, other := s.two(peer, tunnel(s.Topology, suite, false, false), initiate, rig.CygnetOptions{Dataplane: plane})
	first, actor := us, us
	if !initiate {
		first = other
	}
	if by == "peer" {
		actor = other
	}
	s.must(first.Up())
	child, ike := s.agree(patience, us, other, nil, nil)
	children, ikes := []string{child}, []string{ike}
	capture, err := s.Capture()
	s.must(err)
	stop, err := rig.Flood(s.A.Host, s.B.Host, s.B.Host4)
	s.must(err)
	defer stop()
	for i := range n {
		if peer == "Libreswan" && by == "peer" { // its kernel may send on the older of two SAs of one second, so that we do too, until it deletes that
			second := time.Now().Unix()
			rig.Until(2*time.Second, func() bool { return time.Now().Unix() > second })
		}
		s.must(actor.Rekey())
		child, _ = s.agree(patience, us, other, children, nil)
		children = append(children, child)
		s.inUse(capture, other, child, ike)
		if i%betweenTheIKEs == betweenTheIKEs-1 {
			s.must(actor.RekeyIKE())
			_, ike = s.agree(patience, us, other, nil, ikes)
			ikes = append(ikes, ike)
		}
	}
	said, err := stop()
	seen := capture.Stop()
	if lost := (*rig.Lost)(nil); errors.As(err, &lost) && peer == "Libreswan" && by == "us" {
		said, err = s.early(us, other, seen, children, lost)
	}
	s.must(err)
	clear := s.Clear(seen)
	s.want(len(clear) == 0, "%d packets in clear, first: %v", len(clear), clear)
	s.want(!strings.Contains(own.Log.String(), "code=child-down"), "the child went down in between")
	s.onePair(us, other)
	s.must(first.Down())
	s.must(rig.Gone(us))
	s.must(rig.Gone(other))
	return fmt.Sprintf("%d of the child, %d of the IKE SA; %s", len(children)-1, len(ikes)-1, said)
}

// early excuses what is lost on a new child of our rekey because the peer sends on it before we can have its answer: Libreswan does, and RFC 7296 section 2.8
// allows it. That is no more than what the WAN has carried under each new SPI before we have sent on the child, and our kernel did not know the SPI of each lost one.
func (s *stage) early(us, other *gateway, seen []rig.Packet, children []string, lost *rig.Lost) (said string, err error) {
	early := 0
	for _, child := range children[1:] {
		in, out, _ := strings.Cut(child, "/")
		for _, p := range seen {
			spi := fmt.Sprintf("%08x", p.SPI)
			if spi == out {
				break
			}
			if spi == in {
				early++
			}
		}
	}
	unknown, err := rig.XfrmStat(us.Gateway, "XfrmInNoStates")
	s.must(err)
	unknownB, err := rig.XfrmStat(other.Gateway, "XfrmInNoStates")
	s.must(err)
	said = fmt.Sprintf("the peer sent %d packets before it could know that we had the new child, of which %d were lost", early, unknown)
	if lost.Number != unknown || unknown > early || unknownB > 0 {
		return said, fmt.Errorf("%w; %s; the peer's kernel did not know the SPI of %d", lost, said, unknownB)
	}
	return said, nil
}
