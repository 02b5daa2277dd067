//go:build interop

package interop

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"cygnet/test/rig"
)

// quick makes a gateway notice within 7 s that its peer has gone: CI has no time for the two minutes of the defaults.
const quick = "liveness = { idle = \"1s\", tries = 4, timeout = \"500ms\" }\n"

// until is how long a connection with start = "boot" may need to be up again, with the liveness given: to notice, to try, and to wait in between.
func until(liveness string) time.Duration {
	if liveness == "" {
		return 4 * time.Minute
	}
	return time.Minute
}

// hurried says that this is CI, where waits are short and configured so.
func hurried() bool { return os.Getenv("CI") != "" }

// young is an IKE SA that we have begun and of which a peer that says INITIAL_CONTACT may not know yet: both may have begun at once.
const young = 11 * time.Second

// liveness of a row: the defaults when a person runs it.
func liveness() string {
	if hurried() {
		return quick
	}
	return ""
}

func TestUserspaceStayingUp(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	stayingUpRows(t, "strongSwan", "userspace")
}

func TestKernelStayingUp(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	need(t, "peers", rig.HaveSwan())
	stayingUpRows(t, "strongSwan", "kernel")
	stayingUpRows(t, "Libreswan", "kernel")
}

// stayingUpRows: a connection with start = "boot" is up again by itself, with one IKE SA and one pair of SAs at both ends.
func stayingUpRows(t *testing.T, peer, plane string) {
	for _, initiate := range []bool{true, false} {
		for _, anew := range []bool{true, false} {
			subject := "peer killed, then " + map[bool]string{true: "starts anew", false: "only responds"}[anew]
			line{peer: peer + " " + plane, role: role(initiate), subject: subject, path: "IPv4"}.run(t, func(s *stage) string {
				return s.killed(peer, plane, initiate, anew)
			})
		}
	}
	full, short := time.Minute, time.Minute
	if hurried() {
		full, short = 12*time.Second, 8*time.Second
	}
	for _, o := range []outage{{short, "", true}, {full, quick, true}, {full, quick, false}} {
		subject := fmt.Sprintf("unreachable for %v, %s", o.lasts, map[bool]string{true: "survives it", false: "notices within 7 s"}[o.liveness == ""])
		line{peer: peer + " " + plane, role: role(o.initiate), subject: subject, path: "IPv4"}.run(t, func(s *stage) string {
			return s.unreachable(peer, plane, o)
		})
	}
}

// boot is the tunnel x with a connection of ours that is to be up for ever. Where the peer is to initiate, our own requests do not leave the WAN until it has.
func (s *stage) boot(peer, plane string, x rig.Tunnel, initiate bool) (own *rig.CygnetEnd, us, other *gateway, child, ike string) {
	if !initiate {
		const initRequest = "udp dport 500 @th,208,8 34 @th,216,8 & 0x20 == 0" // IKE_SA_INIT without the flag of a response
		s.nft(fmt.Sprintf("add rule inet cut forward ip saddr %v %s drop", s.B.WAN4, initRequest), "accept")
	}
	own, us, other = s.two(peer, x, initiate, rig.CygnetOptions{Dataplane: plane, Start: "boot"})
	if !initiate {
		s.must(other.Up())
	}
	child, ike = s.agree(patience, us, other, nil, nil)
	s.uncut()
	return own, us, other, child, ike
}

// nft sets what the WAN does with packets between the sites: rules, and what holds for the others.
func (s *stage) nft(rules, policy string) {
	_, err := s.WAN.Output("nft", "add table inet cut; add chain inet cut forward { type filter hook forward priority 0; policy "+policy+"; }; "+rules)
	s.must(err)
}

// uncut lets everything pass again.
func (s *stage) uncut() {
	_, err := s.WAN.Output("nft", "add table inet cut; delete table inet cut")
	s.must(err)
}

// killed is a row: SIGKILL of the peer. One that starts anew says INITIAL_CONTACT; of one that only responds an idle tunnel shows nothing, so that liveness must ask.
func (s *stage) killed(peer, plane string, initiate, anew bool) (evidence string) {
	x := tunnel(s.Topology, rig.CBC, false, false)
	switch {
	case !anew: // else its own start must be what ends the old IKE SA, however slow it is
		x.Cygnet = liveness()
	case peer == "Libreswan": // it does not say INITIAL_CONTACT by default, so that liveness must find the old one dead; not before its start
		x.Cygnet = "liveness = { idle = \"6s\", tries = 3, timeout = \"1s\" }\n"
	}
	own, us, other, child, ike := s.boot(peer, plane, x, initiate)
	if anew && initiate {
		time.Sleep(young) // else INITIAL_CONTACT does not count
	}
	s.must(other.crash())
	begun := time.Now()
	other.start()
	if anew {
		s.must(other.Up())
	}
	up := time.Now()
	s.agree(until(x.Cygnet), us, other, []string{child}, []string{ike})
	evidence = fmt.Sprintf("again up %.1f s after it was killed, %.1f s after its start", time.Since(begun).Seconds(), time.Since(up).Seconds())
	s.onePair(us, other)
	s.must(rig.Ping(s.A.Host, s.B.Host4))
	s.must(rig.Ping(s.B.Host, s.A.Host4))
	if anew && peer != "Libreswan" { // Libreswan does not say it by default: of the two IKE SAs that both ends then have the older goes later
		s.want(strings.Contains(own.Log.String(), "began anew (INITIAL_CONTACT)"), "cygnet does not say that the peer began anew")
	}
	if !anew {
		s.want(strings.Contains(own.Log.String(), "code=no-answer"), "cygnet does not say that the peer is silent")
	}
	return evidence
}

// crash kills the end, and empties its kernel of what a boot would not bring back.
func (g *gateway) crash() error {
	if err := g.Renewer.(interface{ Signal(syscall.Signal) error }).Signal(syscall.SIGKILL); err != nil {
		return err
	}
	for _, what := range []string{"state", "policy"} {
		if _, err := g.Gateway.Output("ip", "xfrm", what, "flush"); err != nil {
			return err
		}
	}
	return nil
}

// outage of the WAN, for a connection with the liveness given.
type outage struct {
	lasts    time.Duration
	liveness string
	initiate bool
}

// unreachable is a row: nothing crosses the WAN for some time, while both hosts keep sending.
func (s *stage) unreachable(peer, plane string, o outage) (evidence string) {
	x := tunnel(s.Topology, rig.CBC, false, false)
	x.Cygnet = o.liveness
	_, us, other, child, ike := s.boot(peer, plane, x, o.initiate)
	capture, err := s.Capture()
	s.must(err)
	for _, from := range []rig.Site{s.A, s.B} {
		to := s.B.Host4
		if from.Host == s.B.Host {
			to = s.A.Host4
		}
		stop, err := rig.Traffic(from.Host, to)
		s.must(err)
		defer stop()
	}
	s.nft("", "drop")
	time.Sleep(o.lasts) // the outage itself
	s.uncut()
	begun := time.Now()
	if o.liveness != "" {
		child, ike = s.agree(until(o.liveness), us, other, []string{child}, []string{ike})
	}
	s.want(rig.Until(until(o.liveness), func() bool { return rig.Ping(s.A.Host, s.B.Host4) == nil }), "no ping %v after the outage", until(o.liveness))
	took := time.Since(begun)
	s.must(rig.Ping(s.B.Host, s.A.Host4))
	s.onePair(us, other)
	seen := capture.Stop()
	ours := s.A.LAN4
	if !o.initiate {
		ours = s.B.LAN4
	}
	clear, theirs := s.clearOf(seen, ours)
	s.want(len(clear) == 0, "%d packets in clear, first: %v", len(clear), clear)
	now, nowIKE := s.agree(patience, us, other, nil, nil)
	s.want(now == child && nowIKE == ike, "the IKE SA %s has become %s, the child %s %s", ike, nowIKE, child, now)
	return fmt.Sprintf("pings pass %.1f s after it; %d packets on the WAN, none of ours in clear%s", took.Seconds(), len(seen), theirs)
}

// clearOf are the packets that crossed the WAN in clear from the network behind cygnet. What the peer lets out while it has no SA is its own affair, and is said.
func (s *stage) clearOf(seen []rig.Packet, ours netip.Prefix) (clear []rig.Packet, theirs string) {
	n := 0
	for _, p := range s.Clear(seen) {
		if ours.Contains(p.Src) {
			clear = append(clear, p)
		} else {
			n++
		}
	}
	if n > 0 {
		theirs = fmt.Sprintf(", %d of the peer's", n)
	}
	return clear, theirs
}
