//go:build interop

package interop

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/test/rig"
)

// TestUserspaceSuspend: a laptop is suspended and returns, at its old address or at another, while its gateway has kept the IKE SA or given it up. SUSPEND in the environment
// says for how long; ten minutes want -parallel 8, so that the rows sleep beside each other.
func TestUserspaceSuspend(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	suspendRows(t, "userspace")
}

// TestKernelSuspend is the same on the kernel's ESP.
func TestKernelSuspend(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	need(t, "peers", rig.HaveSwan())
	suspendRows(t, "kernel")
}

// suspended is how long a laptop sleeps: longer than a gateway with quick liveness is patient.
func suspended(t *testing.T) time.Duration {
	if s := os.Getenv("SUSPEND"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil || d < 25*time.Second {
			t.Fatalf("SUSPEND=%q, wanted a time of at least 25s", s)
		}
		return d
	}
	if hurried() {
		return 25 * time.Second
	}
	return 45 * time.Second
}

// returns is how soon packets pass again after the network is there.
const returns = 15 * time.Second

// sleep is a row: who is the laptop and who its gateway, whether the gateway gives it up meanwhile, and whether the laptop returns in another network.
type sleep struct {
	laptop, gateway string
	forgets, moves  bool
	cover           bool // one of those that are enough in CI
}

func suspendRows(t *testing.T, plane string) {
	lasts := suspended(t)
	for _, c := range []sleep{
		{"cygnet", "strongSwan", false, false, false}, {"cygnet", "strongSwan", false, true, true},
		{"cygnet", "strongSwan", true, false, false}, {"cygnet", "strongSwan", true, true, true},
		{"strongSwan", "cygnet", false, true, true}, {"strongSwan", "cygnet", false, false, false}, // forgotten, strongSwan 5.9 probes its dead path for minutes
		{"cygnet", "cygnet", false, true, false}, {"cygnet", "cygnet", true, false, true},
	} {
		if hurried() && !c.cover {
			continue
		}
		peer, role := "cygnet", "both"
		switch {
		case c.laptop == "strongSwan":
			peer, role = c.laptop, "responds"
		case c.gateway == "strongSwan":
			peer, role = c.gateway, "initiates"
		}
		subject := fmt.Sprintf("asleep %v, %s, %s", lasts, map[bool]string{true: "forgotten", false: "held"}[c.forgets], map[bool]string{true: "elsewhere", false: "returns"}[c.moves])
		line{peer: peer + " " + plane, role: role, subject: subject, path: "IPv4"}.run(t, func(s *stage) string { return s.suspend(c, plane, lasts) })
	}
}

// suspend is a row.
func (s *stage) suspend(c sleep, plane string, lasts time.Duration) string {
	const impatient = "retransmit_tries = 2\n retransmit_timeout = 1.0\n retransmit_base = 1\n"
	x, y := s.roaming(rig.CBC)
	x.Swan, y.Swan = "mobike = yes\n    dpd_delay = 5s\n    local_addrs = %any", "mobike = yes"
	x.SwanChild, x.SwanDaemon = "dpd_action = restart", impatient
	if c.forgets {
		y.Swan += "\n    dpd_delay = 2s"
		y.SwanDaemon = impatient
		y.Cygnet += quick
		if c.gateway == "cygnet" {
			y.Remote = s.A.WAN4 // a peer that may come from anywhere is waited for: five minutes
		}
	} else {
		y.Cygnet += "liveness = { idle = \"15m\", tries = 8, timeout = \"15s\" }\n" // the office sends on, so that it asks after ten seconds: patient for half an hour
	}
	begin := func(who string, at rig.Site, x rig.Tunnel, o rig.CygnetOptions) (rig.Renewer, *rig.Daemon) {
		if who == "cygnet" {
			e := s.own(at, x, o)
			return e, e.Daemon
		}
		e := s.swan(at, x, plane)
		return e, e.Daemon
	}
	boot := rig.CygnetOptions{Dataplane: plane, Start: "boot"} // with it nothing ever leaves in clear
	far := boot
	if !y.Remote.IsValid() {
		far.Start = "manual" // it cannot begin
	}
	office, _ := begin(c.gateway, s.B, y, far)
	laptop, daemon := begin(c.laptop, s.A, x, boot)
	if c.laptop == "strongSwan" {
		s.must(laptop.Up())
	}
	s.want(rig.Until(patience, func() bool { return rig.Ping(s.A.Host, s.B.Host4) == nil }), "no packets pass before it")
	ends := []*gateway{{Renewer: laptop, Site: s.A, kernel: plane == "kernel", showsIKE: true}, {Renewer: office, Site: s.B, kernel: plane == "kernel", showsIKE: true}}
	s.onePair(ends...)
	before, err := office.Shown()
	s.must(err)
	capture, err := s.Capture()
	s.must(err)
	stop, err := rig.Flood(s.B.Host, s.A.Host, s.A.Host4) // the office goes on
	s.must(err)
	defer stop()

	s.link("set wan down")
	thaw, err := daemon.Freeze()
	defer thaw()
	s.must(err)
	time.Sleep(lasts) // the sleep itself
	during, err := office.Shown()
	s.must(err)
	held := slices.Contains(during.IKE, before.IKE[0])
	s.want(held != c.forgets, "the gateway has %v, it had %v; forgotten is wanted: %v", during.IKE, before.IKE, c.forgets)

	woken := time.Now()
	thaw()
	if c.moves {
		_, err := s.WAN.Output("ip", "addr", "add", "203.0.113.254/24", "dev", "wan-a")
		s.must(err)
		s.link("addr del "+s.A.WAN4.String()+"/24 dev wan", "addr add 203.0.113.33/24 dev wan", "set wan up")
		s.link("route replace default via 203.0.113.254")
	} else {
		s.link("set wan up")
		s.link("route replace default via 192.0.2.254")
	}
	s.want(rig.Until(returns, func() bool { return rig.Ping(s.A.Host, s.B.Host4) == nil }), "no packets pass %v after it woke", returns)
	took := time.Since(woken)
	s.must(rig.Ping(s.B.Host, s.A.Host4))
	said, err := stop()
	lost := (*rig.Lost)(nil)
	if err != nil && !errors.As(err, &lost) {
		s.must(err)
	}
	if lost != nil {
		said += fmt.Sprintf(", %d lost", lost.Number)
	}
	s.onePair(ends...)
	after, err := office.Shown()
	s.must(err)
	kept := map[bool]string{true: "the same IKE SA", false: "another IKE SA"}[after.IKE[0] == before.IKE[0]]
	s.want(!held || after.IKE[0] == before.IKE[0], "the gateway held %v, and now it is %v", before.IKE, after.IKE)
	seen, ours := capture.Stop(), s.A.LAN4
	if c.gateway == "cygnet" {
		ours = s.B.LAN4
	}
	clear, theirs := s.clearOf(seen, ours)
	s.want(len(clear) == 0 && (theirs == "" || c.laptop != c.gateway), "%d packets in clear%s, first: %v", len(clear), theirs, clear[:min(len(clear), 3)])
	s.must(laptop.Down())
	s.must(rig.Gone(office))
	return fmt.Sprintf("pings %.1f s after it woke, %s; %s; %d packets on the WAN, none of ours in clear%s", took.Seconds(), kept, said, len(seen), strings.TrimSpace(theirs))
}

// link changes the network of gateway A.
func (s *stage) link(commands ...string) {
	for _, c := range commands {
		words := strings.Fields(c)
		if words[0] == "set" {
			words = append([]string{"link"}, words...)
		}
		_, err := s.A.Gateway.Output("ip", words...)
		s.must(err)
	}
}
