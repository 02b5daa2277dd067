//go:build interop

package interop

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cygnet/test/rig"
)

// roams is how long a move may take, pings included.
const roams = 20 * time.Second

// TestUserspaceRoam: the initiator goes to another network, and the tunnel goes along (RFC 4555).
func TestUserspaceRoam(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	roamRows(t, "userspace")
}

// TestKernelRoam is the same on the kernel's ESP.
func TestKernelRoam(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	roamRows(t, "kernel")
}

func roamRows(t *testing.T, plane string) {
	for _, suite := range []rig.Suite{rig.GCM, rig.CBC} {
		line{peer: "cygnet " + plane, role: "both", subject: "moves, " + suite.Name, path: "IPv4"}.run(t, func(s *stage) string {
			x, y := s.roaming(suite)
			far := s.own(s.B, y, rig.CygnetOptions{Dataplane: plane})
			near := s.own(s.A, x, rig.CygnetOptions{Dataplane: plane})
			s.must(near.Up())
			return s.moves(near, far, near, false)
		})
	}
	for _, initiate := range []bool{true, false} {
		line{peer: "strongSwan " + plane, role: role(initiate), subject: "the initiator moves", path: "IPv4"}.run(t, func(s *stage) string {
			need(t, "peers", rig.HaveSwan())
			x, y := s.roaming(rig.CBC)
			x.Swan, y.Swan = "mobike = yes\n    local_addrs = %any", "mobike = yes"
			own, swan := s.versus(x, y, initiate, rig.CygnetOptions{Dataplane: plane})
			near, far := rig.End(own), rig.End(swan)
			if !initiate {
				near, far = far, near
			}
			s.must(near.Up())
			return s.moves(near, far, own, plane == "userspace")
		})
	}
}

// roaming is the tunnel of an initiator at A that takes whichever address it has, and of its peer.
func (s *stage) roaming(suite rig.Suite) (x, y rig.Tunnel) {
	x = tunnel(s.Topology, suite, false, false)
	y = tunnelB(s.Topology, x)
	x.Local, y.Remote = netip.Addr{}, netip.Addr{}
	return x, y
}

// elsewhere takes gateway A to another network: the new address and its route come, and the old address goes.
func (s *stage) elsewhere() netip.Addr {
	to := netip.MustParseAddr("203.0.113.33")
	for _, c := range []string{"addr add 203.0.113.33/24 dev wan", "route replace default via 203.0.113.254", "addr del " + s.A.WAN4.String() + "/24 dev wan"} {
		if strings.HasPrefix(c, "addr add") {
			_, err := s.WAN.Output("ip", "addr", "add", "203.0.113.254/24", "dev", "wan-a")
			s.must(err)
		}
		_, err := s.A.Gateway.Output("ip", strings.Fields(c)...)
		s.must(err)
	}
	return to
}

// moves takes A elsewhere in the middle of a flood and waits until datagrams pass again, from and to the new address alone. rekeyed: the peer cannot move its
// SAs, and makes a new child instead.
func (s *stage) moves(near, far rig.End, own *rig.CygnetEnd, rekeyed bool) string {
	before, err := near.SA()
	s.must(err)
	s.must(rig.Ping(s.A.Host, s.B.Host4))
	var to netip.Addr
	said := s.interrupted("A went elsewhere", func() { to = s.elsewhere() })
	capture, err := s.Capture()
	s.must(err)
	s.must(rig.Ping(s.A.Host, s.B.Host4))
	for _, p := range capture.Stop() {
		if p.ESP() {
			s.want(p.Src == to || p.Dst == to, "ESP on the WAN is not of %v: %v", to, p)
		}
	}
	after, err := near.SA()
	s.must(err)
	s.want(rekeyed || after.SPIIn == before.SPIIn && after.SPIOut == before.SPIOut, "it is another child: %+v, was %+v", after, before)
	s.want(!strings.Contains(own.Log.String(), "code=child-down") || rekeyed, "the child went down in between")
	x, _ := s.roaming(rig.CBC)
	x.Suite.SA = before.Suite
	_, err = rig.Prove(s.Topology, near, far, x)
	s.must(err)
	s.must(near.Down())
	s.must(rig.Gone(far))
	line := ""
	for l := range strings.Lines(own.Log.String()) {
		if strings.Contains(l, "moved in") || strings.Contains(l, "children follow after") {
			line = strings.TrimSpace(l)
		}
	}
	if _, text, ok := strings.Cut(line, "msg="); ok {
		line = text
	}
	return fmt.Sprintf("%s; %s", said, line)
}

// interrupted has something happen to the path in the middle of a flood, waits until pings pass again both ways, and tells what was lost.
func (s *stage) interrupted(what string, happen func()) string {
	stop, err := rig.Flood(s.A.Host, s.B.Host, s.B.Host4)
	s.must(err)
	defer stop()
	happen()
	begun := time.Now()
	s.want(rig.Until(roams, func() bool { return rig.Ping(s.A.Host, s.B.Host4) == nil && rig.Ping(s.B.Host, s.A.Host4) == nil }), "no packets pass since %s", what)
	took := time.Since(begun)
	said, err := stop()
	lost, number := (*rig.Lost)(nil), 0
	if errors.As(err, &lost) {
		number = lost.Number
	} else {
		s.must(err)
	}
	return fmt.Sprintf("pings after %.1f s, %s, %d lost", took.Seconds(), said, number)
}
