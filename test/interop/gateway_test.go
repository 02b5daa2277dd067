//go:build interop

package interop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cygnet/test/rig"
)

// gateway is an end, where it stands, and what else differs.
type gateway struct {
	rig.Renewer
	rig.Site
	kernel   bool   // its ESP is the kernel's
	showsIKE bool   // Libreswan does not tell the SPIs of IKE SAs
	start    func() // starts the end, again once it has died
}

// two starts cygnet and a peer of either kind, the initiator at A; x is what A is told.
func (s *stage) two(peer string, x rig.Tunnel, initiate bool, o rig.CygnetOptions) (own *rig.CygnetEnd, us, other *gateway) {
	return s.twoTold(peer, x, tunnelB(s.Topology, x), initiate, o)
}

// twoTold is two where y is what B is told.
func (s *stage) twoTold(peer string, x, y rig.Tunnel, initiate bool, o rig.CygnetOptions) (own *rig.CygnetEnd, us, other *gateway) {
	kernel := o.Dataplane == "kernel"
	us, other = &gateway{Site: s.A, kernel: kernel, showsIKE: true}, &gateway{Site: s.B, kernel: kernel, showsIKE: peer != "Libreswan"}
	ours, theirs := x, y
	if !initiate {
		us.Site, other.Site = other.Site, us.Site
		ours, theirs = theirs, ours
	}
	dir := s.dir + "/peer"
	other.start = func() {
		if peer == "Libreswan" {
			l, err := rig.StartLibreswan(other.Gateway, dir, peersRoot(), theirs)
			s.must(err)
			other.Renewer = l
		} else {
			swan, err := rig.StartSwan(other.Gateway, dir, theirs, kernel)
			s.must(err)
			other.Renewer = swan
		}
		s.keep(other.Renewer)
	}
	us.start = func() {
		own = s.own(us.Site, ours, o)
		us.Renewer = own
	}
	if initiate {
		other.start()
		us.start()
	} else {
		us.start()
		other.start()
	}
	return own, us, other
}

// agree waits so long until both ends show a child and an IKE SA, the same ones, that are not among those of before, and both kernels have the child's SPIs. Others may still
// be fading away: strongSwan keeps what was replaced for 5 s.
func (s *stage) agree(within time.Duration, us, other *gateway, children, ikes []string) (child, ike string) {
	var x, y rig.Shown
	var err error
	ok := rig.Until(within, func() bool {
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
func (s *stage) inUse(capture *rig.Capture, peer *gateway, child, ike string) {
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
func (g *gateway) kernelHas(child string) error {
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

// quiet is how long what is superfluous may stay: two IKE SAs that both ends began at once, 10 s with a peer that keeps both.
const quiet = 3 * patience

// onePair waits until each end has one pair of SAs and not one more, in the daemon and in the kernel.
func (s *stage) onePair(ends ...*gateway) {
	for _, g := range ends {
		var shown rig.Shown
		var kernel []string
		ok := rig.Until(quiet, func() bool {
			shown, _ = g.Shown()
			kernel, _ = rig.KernelSPIs(g.Gateway)
			return len(shown.Children) == 1 && (!g.showsIKE || len(shown.IKE) == 1) && (!g.kernel || len(kernel) == 2)
		})
		s.want(ok, "in %s the daemon shows %v, the kernel has %v", g.Gateway, shown, kernel)
	}
}
