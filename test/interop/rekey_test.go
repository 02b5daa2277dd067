//go:build interop

package interop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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
	for _, by := range []string{"us", "peer"} {
		for _, initiate := range []bool{true, false} {
			suite := map[bool]rig.Suite{true: rig.GCM, false: rig.CBC}[initiate == (by == "us")]
			subject := fmt.Sprintf("rekeys by %s, %s", by, suite.Name)
			line{peer: peer + " " + plane, role: role(initiate), subject: subject, path: "IPv4"}.run(t, func(s *stage) string {
				return s.rekeys(peer, plane, suite, initiate, by)
			})
		}
	}
}

// gateway is an end, where it stands, and what else differs.
type gateway struct {
	rig.Renewer
	rig.Site
	kernel   bool // its ESP is the kernel's
	showsIKE bool // Libreswan does not tell the SPIs of IKE SAs
}

// two starts cygnet and a peer of either kind, the initiator at A; x is what A is told.
func (s *stage) two(peer string, x rig.Tunnel, initiate bool, o rig.CygnetOptions) (own *rig.CygnetEnd, us, other gateway) {
	us, other = gateway{Site: s.A, kernel: o.Dataplane == "kernel", showsIKE: true}, gateway{Site: s.B, kernel: o.Dataplane == "kernel", showsIKE: peer != "Libreswan"}
	ours, theirs := x, tunnelB(s.Topology, x)
	if !initiate {
		us.Site, other.Site = other.Site, us.Site
		ours, theirs = theirs, ours
	}
	start := func() { own = s.own(us.Site, ours, o) }
	if !initiate {
		start()
	}
	if peer == "Libreswan" {
		l, err := rig.StartLibreswan(other.Gateway, s.folder(), peersRoot(), theirs)
		s.must(err)
		s.keep(l)
		other.Renewer = l
	} else {
		other.Renewer = s.swan(other.Site, theirs, o.Dataplane)
	}
	if initiate {
		start()
	}
	us.Renewer = own
	return own, us, other
}

// rekeys is a row of rekeyRows.
func (s *stage) rekeys(peer, plane string, suite rig.Suite, initiate bool, by string) (evidence string) {
	own, us, other := s.two(peer, tunnel(s.Topology, suite, false, false), initiate, rig.CygnetOptions{Dataplane: plane})
	first, actor := us, us
	if !initiate {
		first = other
	}
	if by == "peer" {
		actor = other
	}
	s.must(first.Up())
	child, ike := s.agree(us, other, nil, nil)
	children, ikes := []string{child}, []string{ike}
	capture, err := s.Capture()
	s.must(err)
	stop, err := rig.Flood(s.A.Host, s.B.Host, s.B.Host4)
	s.must(err)
	defer stop()
	for i := range childRekeys {
		s.must(actor.Rekey())
		child, _ = s.agree(us, other, children, nil)
		children = append(children, child)
		s.inUse(capture, other, child, ike)
		if i%betweenTheIKEs == betweenTheIKEs-1 {
			s.must(actor.RekeyIKE())
			_, ike = s.agree(us, other, nil, ikes)
			ikes = append(ikes, ike)
		}
	}
	said, err := stop()
	s.must(err)
	clear := s.Clear(capture.Stop())
	s.want(len(clear) == 0, "%d packets in clear, first: %v", len(clear), clear)
	s.want(!strings.Contains(own.Log.String(), "code=child-down"), "the child went down in between")
	s.onePair(us, other)
	s.must(first.Down())
	s.must(rig.Gone(us))
	s.must(rig.Gone(other))
	return fmt.Sprintf("%d of the child, %d of the IKE SA; %s", len(children)-1, len(ikes)-1, said)
}

// agree waits until both ends show a child and an IKE SA, the same ones, that are not among those of before, and both kernels have the child's SPIs. Others may still
// be fading away: strongSwan keeps what was replaced for 5 s.
func (s *stage) agree(us, other gateway, children, ikes []string) (child, ike string) {
	var x, y rig.Shown
	var err error
	ok := rig.Until(patience, func() bool {
		var errX, errY error
		x, errX = us.Shown()
		y, errY = other.Shown()
		if !other.showsIKE {
			y.IKE = x.IKE
		}
		child, ike = newest(x.Children, y.Mirror().Children, children), newest(x.IKE, y.IKE, ikes)
		if err = errors.Join(errX, errY); err != nil || child == "" || ike == "" {
			return false
		}
		err = errors.Join(us.kernelHas(child), other.kernelHas(child))
		return err == nil
	})
	s.want(ok, "no agreement on other SAs than %v and %v: we show %v, the peer %v: %v", children, ikes, x, y, err)
	return child, ike
}

// inUse waits until the WAN has carried both SAs of a child, and an answer of the peer under an IKE SA.
func (s *stage) inUse(capture *rig.Capture, peer gateway, child, ike string) {
	var answered bool
	packets := map[string]int{}
	ok := rig.Until(patience, func() bool {
		for _, p := range capture.Seen() {
			answered = answered || p.Src == peer.WAN4 && p.IKESA == ike
			packets[fmt.Sprintf("%08x", p.SPI)]++
		}
		in, out, _ := strings.Cut(child, "/")
		return answered && packets[in] > 0 && packets[out] > 0
	})
	s.want(ok, "child %s and IKE SA %s: packets on the WAN by SPI %v, an answer under the IKE SA %v", child, ike, packets, answered)
}

// newest is what both ends list and shares no SPI with those of before.
func newest(ours, theirs, before []string) string {
	all := strings.Join(before, " ")
	for _, sa := range ours {
		a, b, _ := strings.Cut(sa, "/")
		if slices.Contains(theirs, sa) && !strings.Contains(all, a) && !strings.Contains(all, b) {
			return sa
		}
	}
	return ""
}

// kernelHas says which of a child's SPIs the gateway's kernel lacks.
func (g gateway) kernelHas(child string) error {
	if !g.kernel {
		return nil
	}
	list, err := rig.KernelSPIs(g.Gateway)
	for _, spi := range strings.Split(child, "/") {
		if err == nil && !slices.Contains(list, spi) {
			err = fmt.Errorf("the kernel of %s has no SA %s, but %v", g.Gateway, spi, list)
		}
	}
	return err
}

// onePair waits until each end has one pair of SAs and not one more, in the daemon and in the kernel.
func (s *stage) onePair(ends ...gateway) {
	for _, g := range ends {
		var shown rig.Shown
		var kernel []string
		ok := rig.Until(patience, func() bool {
			shown, _ = g.Shown()
			kernel, _ = rig.KernelSPIs(g.Gateway)
			return len(shown.Children) == 1 && (!g.showsIKE || len(shown.IKE) == 1) && (!g.kernel || len(kernel) == 2)
		})
		s.want(ok, "in %s the daemon shows %v, the kernel has %v", g.Gateway, shown, kernel)
	}
}
