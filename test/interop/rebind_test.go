//go:build interop

package interop

import (
	"fmt"
	"strings"
	"testing"

	"cygnet/test/rig"
)

// TestUserspaceRebind: the NAT before the initiator gives it another port, and then another address, in the middle of a flood.
func TestUserspaceRebind(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	rebindRows(t, "userspace")
}

// TestKernelRebind is the same on the kernel's ESP.
func TestKernelRebind(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	rebindRows(t, "kernel")
}

func rebindRows(t *testing.T, plane string) {
	for _, mobike := range []bool{true, false} {
		subject := "NAT rebinds, MOBIKE"
		if !mobike {
			subject = "NAT rebinds, no MOBIKE"
		}
		line{peer: "cygnet " + plane, role: "both", subject: subject, path: "NAT", nat: true}.run(t, func(s *stage) string {
			x, y := s.roaming(rig.GCM)
			if !mobike {
				x.Cygnet, y.Cygnet = "mobike = false", "mobike = false"
			}
			s.own(s.B, y, rig.CygnetOptions{Dataplane: plane})
			near := s.own(s.A, x, rig.CygnetOptions{Dataplane: plane})
			s.must(near.Up())
			return s.rebinds(near, false)
		})
	}
	for _, initiate := range []bool{true, false} {
		line{peer: "strongSwan " + plane, role: role(initiate), subject: "NAT rebinds", path: "NAT", nat: true}.run(t, func(s *stage) string {
			need(t, "peers", rig.HaveSwan())
			x, y := s.roaming(rig.CBC)
			if initiate {
				x.Cygnet = quick // libipsec does not see that our ESP comes from elsewhere: it is by silence that we notice, within half a minute by default
			}
			own, swan := s.versus(x, y, initiate, rig.CygnetOptions{Dataplane: plane})
			near := rig.End(swan)
			if initiate {
				near = own
			}
			s.must(near.Up())
			return s.rebinds(near, initiate && plane == "userspace")
		})
	}
}

// rebinds has the NAT choose another port and then another address, and counts what is lost until the first datagram passes again. rekeyed: the peer cannot
// move its SAs, and makes a new child instead.
func (s *stage) rebinds(near rig.End, rekeyed bool) (evidence string) {
	before, err := near.SA()
	s.must(err)
	s.must(rig.Ping(s.A.Host, s.B.Host4))
	for _, what := range []string{"port", "address"} {
		evidence += fmt.Sprintf("another %s: %s; ", what, s.interrupted("the NAT has chosen another "+what, func() { s.rebind(what) }))
	}
	after, err := near.SA()
	s.must(err)
	s.want(rekeyed || after.SPIIn == before.SPIIn && after.SPIOut == before.SPIOut, "it is another child: %+v, was %+v", after, before)
	return strings.TrimSuffix(evidence, "; ")
}

// rebind makes the NAT forget what it has, and take another port or address for what comes now.
func (s *stage) rebind(what string) {
	to := "masquerade to :30000-30999"
	if what == "address" {
		to = "snat to 198.51.100.253"
		_, err := s.WAN.Output("ip", "addr", "add", "198.51.100.253/24", "dev", "wan-b")
		s.must(err)
	}
	rule := "flush chain inet nat post; add rule inet nat post oifname wan-b meta nfproto ipv4 ip protocol udp " + to
	if what == "port" {
		rule = "flush chain inet nat post; add rule inet nat post oifname wan-b ip protocol udp " + to
	}
	_, err := s.WAN.Output("nft", rule)
	s.must(err)
	s.must(forget(s.WAN))
}

// forget empties the table of connections of a namespace: masqueraded ones go with their device.
func forget(ns rig.NS) error {
	for _, c := range []string{"link set wan-b down", "link set wan-b up"} {
		if _, err := ns.Output("ip", strings.Fields(c)...); err != nil {
			return err
		}
	}
	return nil
}

// TestUserspaceTwoClients: two clients behind one NAT address. With inner addresses of their own each gets its own packets and no others; with the same one
// the second is refused, and the first goes on.
func TestUserspaceTwoClients(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	twoClients(t, "userspace")
}

// TestKernelTwoClients is the same on the kernel's ESP.
func TestKernelTwoClients(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	twoClients(t, "kernel")
}

func twoClients(t *testing.T, plane string) {
	for _, same := range []bool{false, true} {
		subject := map[bool]string{false: "two clients, inner addresses of their own", true: "two clients, one inner address"}[same]
		line{peer: "cygnet " + plane, role: "both", subject: subject, path: "NAT", nat: true}.run(t, func(s *stage) string {
			third, err := s.Third()
			s.must(err)
			inner := map[bool][2]string{false: {"10.1.0.10/31", "10.3.0.10/31"}, true: {"10.1.0.10/31", "10.1.0.10/31"}}[same]
			if same {
				_, err := third.Gateway.Output("ip", "addr", "add", "10.1.0.10/32", "dev", "lo")
				s.must(err)
			}
			x, y := s.roaming(rig.GCM)
			ca, err := rig.NewCA("Clients", "P-256", nil)
			s.must(err)
			proof := func(name string) *rig.Proof {
				key, err := rig.NewKey("P-256")
				s.must(err)
				p, err := ca.Issue(rig.Leaf{CN: name, Names: []string{name}, Key: key})
				s.must(err)
				return p
			}
			y.LocalProof = proof(y.LocalID)
			x.RemoteProof, y.RemoteProof = y.LocalProof, y.LocalProof
			y.RemoteID, y.RemoteTS = "*.clients.example", []string{"10.1.0.0/16", "10.3.0.0/16"}
			far := s.own(s.B, y, rig.CygnetOptions{Dataplane: plane})
			x.LocalID, x.LocalTS = "one.clients.example", inner[:1]
			x.LocalProof = proof(x.LocalID)
			one := s.own(s.A, x, rig.CygnetOptions{Dataplane: plane})
			x.LocalID, x.LocalTS = "two.clients.example", inner[1:]
			x.LocalProof = proof(x.LocalID)
			two := s.own(third, x, rig.CygnetOptions{Dataplane: plane})
			s.must(one.Up())
			s.must(rig.Ping(s.B.Host, s.A.Host4))
			err = two.Up()
			if same {
				s.want(err != nil && strings.Contains(far.Log.String(), "two peers cannot have one inner address"), "the second is not refused: %v", err)
			} else {
				s.must(err)
				s.must(rig.Ping(s.B.Host, third.Host4))
			}
			hash, err := rig.SendHashed(s.B.Host, s.A.Host, s.A.Host4, 1<<20)
			s.must(err)
			evidence := "a megabyte to the first, hash " + hash[:8]
			if !same {
				hash, err := rig.SendHashed(s.B.Host, third.Host, third.Host4, 1<<20)
				s.must(err)
				evidence += ", to the second " + hash[:8]
				a, err := one.SA()
				s.must(err)
				b, err := two.SA()
				s.must(err)
				s.want(a.BytesIn > 1<<20 && a.BytesIn < 2<<20 && b.BytesIn > 1<<20 && b.BytesIn < 2<<20, "the first has received %d octets, the second %d", a.BytesIn, b.BytesIn)
				evidence += fmt.Sprintf("; received %d and %d octets", a.BytesIn, b.BytesIn)
			} else {
				evidence += "; the second is told TS_UNACCEPTABLE"
			}
			return evidence
		})
	}
}
