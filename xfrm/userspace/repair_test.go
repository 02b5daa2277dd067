package userspace

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"cygnet/xfrm"
)

// protect applies one child for each family.
func (s *site) protect(t *testing.T, a, b *gateway, aNet, bNet, aNet6, bNet6 string, spiA, spiB uint32) {
	t.Helper()
	a.apply(t, child(a, b, spiA, spiB, aNet, bNet)...)
	a.apply(t, child(a, b, spiA+1, spiB+1, aNet6, bNet6)...)
}

func (s *site) protectBoth(t *testing.T) {
	t.Helper()
	s.protect(t, &s.a, &s.b, "10.1.0.0/16", "10.2.0.0/16", "fd01::/64", "fd02::/64", 0x1001, 0x2001)
	s.protect(t, &s.b, &s.a, "10.2.0.0/16", "10.1.0.0/16", "fd02::/64", "fd01::/64", 0x2001, 0x1001)
}

// Whatever becomes of rules and routes, what is protected does not leave in clear (RFC 4301 section 5.1), while what is not goes its way. Nobody repairs
// here: the kernel's policies stand alone.
func TestTrap_4301_3_ClearPacketsDoNotLeave(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.a.must(t, "ip route add 10.2.0.0/16 via 192.0.2.2", "ip route add fd02::/64 via 2001:db8::2")
	s.a.must(t, "ip addr add 10.9.0.1/32 dev lo")
	send := func() string {
		done := make(chan struct{}, 3)
		for _, from := range []struct {
			n  *netns
			to string
		}{{s.host, "10.2.0.1"}, {s.host, "fd02::1"}, {s.a.netns, "-I 10.1.0.1 10.2.0.1"}} {
			go func() { from.n.run("ping -q -c 1 -W 0.3 " + from.to); done <- struct{}{} }()
		}
		for range 3 {
			<-done
		}
		return s.b.received(t)
	}
	if got := send(); got != "2 1" {
		t.Fatalf("without a policy %s echo requests arrive, want 2 1", got)
	}
	for _, action := range []xfrm.PolicyAction{xfrm.Protect, xfrm.Block} {
		s.a.start(t)
		s.protect(t, &s.a, &s.b, "10.1.0.0/16", "10.2.0.0/16", "fd01::/64", "fd02::/64", 0x1001, 0x2001)
		if action == xfrm.Block {
			for _, sel := range []xfrm.Selector{selector("10.1.0.0/16", "10.2.0.0/16"), selector("fd01::/64", "fd02::/64")} {
				s.a.apply(t, xfrm.PutPolicy{Policy: blockPolicy(sel, 100)})
			}
		}
		s.a.driver.watch.stop()
		s.a.driver.watch = nil
		s.a.must(t, "ip rule del pref 17200", "ip -6 rule del pref 17200", "ip route flush table 17241", "ip -6 route flush table 17241")
		if got := send(); got != "2 1" {
			t.Errorf("action %d: with the rules gone %s echo requests have arrived, 2 1 before", action, got)
		}
		s.a.stop(t)
		if got := send(); got != "2 1" {
			t.Errorf("action %d: after Close %s echo requests have arrived, 2 1 before", action, got)
		}
	}
	s.a.must(t, "ping -q -c 1 -W 3 -I 10.9.0.1 192.0.2.1", "ping -q -c 1 -W 3 192.0.2.2", "ping -q -c 1 -W 3 2001:db8::2")
}

// Somebody else removes what is ours; it comes back, traffic flows again, and a line says what happened.
func TestRepair(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.a.start(t)
	s.b.start(t)
	s.protectBoth(t)
	s.host.pings(t, "10.2.0.1")
	for _, c := range []struct{ command, warning string }{
		{"ip rule del pref 17200", "ManageForeignRoutingPolicyRules=no"},
		{"ip -6 rule del pref 17200", "IPv6 rule 17200 lookup 17241"},
		{"ip route del unreachable 10.2.0.0/16 table 17241 metric 1048576", "removed our route unreachable 10.2.0.0/16"},
		{"ip route flush table 17241", "removed our route 10.2.0.0/16 dev cygnet0"},
		{"ip -6 route flush table 17241", "removed our route fd02::/64 dev cygnet0"},
		{"ip link set cygnet0 down", "took device cygnet0 down"},
		{"ip link set cygnet0 name other", "deleted device cygnet0"},
		{"ip xfrm policy flush", "IPsec policies"},
		{"sysctl -qw net.ipv4.conf.cygnet0.disable_xfrm=0", "disable_xfrm"},
	} {
		s.a.must(t, c.command)
		s.a.warned(t, c.command, c.warning)
		s.host.reached(t, "10.2.0.1")
		s.host.reached(t, "fd02::1")
		s.a.reached(t, "-I fd01::1 fd02::1")
	}
	// Down and up at once: the routes have gone with it.
	s.a.must(t, "ip link set cygnet0 down", "ip link set cygnet0 up")
	s.a.reached(t, "10.2.0.1")
	s.a.must(t, "ip link del cygnet0")
	s.a.reached(t, "10.2.0.1")
	s.a.reached(t, "fd02::1")
	// What is as it should be is left in peace and not told of.
	for len(s.a.warnings) > 0 {
		<-s.a.warnings
	}
	s.a.do(func() {
		if lost, err := s.a.driver.repair(context.Background()); len(lost) > 0 || err != nil {
			t.Errorf("nothing was changed, and still: %q, %v", lost, err)
		}
	})
	s.a.stop(t)
	s.b.stop(t)
}

// An address of this host that comes later may send over IPv6 too.
func TestLaterAddress(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.a.must(t, "ip addr del fd01::1/64 dev lan")
	s.a.start(t)
	s.b.start(t)
	s.protectBoth(t)
	s.a.must(t, "ip addr add fd01::1/64 dev lan nodad")
	s.a.reached(t, "-I fd01::1 fd02::1")
	s.a.stop(t)
	s.b.stop(t)
}

// warned waits for a warning with a text.
func (g *gateway) warned(t *testing.T, after, text string) {
	t.Helper()
	end := time.After(deadline)
	for {
		select {
		case err := <-g.warnings:
			if strings.Contains(err.Error(), text) {
				return
			}
			t.Logf("after %s: %v", after, err)
		case <-end:
			t.Fatalf("after %s: no warning has %q", after, text)
		}
	}
}

// reached waits until a ping is answered.
func (n *netns) reached(t *testing.T, to string) {
	t.Helper()
	for end := time.Now().Add(deadline); ; {
		out, err := n.run("ping -q -c 1 -W 0.2 " + to)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: ping %s: %s", n.name, to, out)
		}
	}
}

// A kernel data plane was here before: its policies go, those of others stay.
func TestSweepAfterAKernelDataPlane(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	policy := func(dir, from, to, rest string) {
		s.a.must(t, fmt.Sprintf("ip xfrm policy add dir %s src %s dst %s %s", dir, from, to, rest))
	}
	tunnel := func(reqID, priority int) string {
		return fmt.Sprintf("priority %d tmpl src 192.0.2.1 dst 192.0.2.2 proto esp reqid %d mode tunnel", priority, reqID)
	}
	for _, to := range []string{"10.2.0.0/16", "10.3.0.0/16"} {
		policy("out", "10.1.0.0/16", to, tunnel(testReqID, priorityFirst+100))
		policy("in", to, "10.1.0.0/16", tunnel(testReqID, priorityFirst+100))
		policy("fwd", to, "10.1.0.0/16", tunnel(testReqID, priorityFirst+100))
	}
	// A narrower one, before all that the userspace data plane puts.
	policy("out", "10.1.0.5/32", "10.2.0.1/32", tunnel(testReqID, priorityFirst+1))
	policy("fwd", "10.2.0.1/32", "10.1.0.5/32", tunnel(testReqID, priorityFirst+1))
	policy("out", "10.1.0.0/16", "10.4.0.0/16", tunnel(7, priorityFirst+100))
	policy("out", "10.1.0.0/16", "10.5.0.0/16", tunnel(7, 5))
	s.a.start(t)
	s.b.start(t)
	s.protectBoth(t)
	s.a.do(func() {
		if err := s.a.driver.Sweep(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.host.pings(t, "10.2.0.1")
	s.a.pings(t, "10.2.0.1")
	out, _ := s.a.run("ip xfrm policy")
	for text, want := range map[string]bool{"10.3.0.0": false, "10.2.0.1/32": false, fmt.Sprint(testReqID): false, "10.4.0.0": true, "10.5.0.0": true} {
		if strings.Contains(out, text) != want {
			t.Errorf("%s there: %v, want %v\n%s", text, !want, want, out)
		}
	}
	s.a.stop(t)
	s.b.stop(t)
}
