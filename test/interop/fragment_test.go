//go:build interop

package interop

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"cygnet/ike/control"
	"cygnet/test/rig"
)

// Links that do not let all datagrams through, as rules of the WAN. IKE alone is told apart by its port or its non-ESP marker.
const (
	noFragments = "ip frag-off & 0x3fff != 0 drop; add rule inet lossy f exthdr frag exists drop" // carrier-grade NATs, firewalls
	noLarge     = "ip length > 600 udp dport 500 drop; add rule inet lossy f ip length > 600 udp dport 4500 @th,64,32 0 drop"
)

// lossy makes the WAN drop what matches.
func (s *stage) lossy(rule string) {
	_, err := s.WAN.Output("nft", "add table inet lossy; add chain inet lossy f { type filter hook forward priority 0; }; add rule inet lossy f "+rule)
	s.must(err)
}

// bulky is a tunnel whose IKE_AUTH messages are larger than any datagram, both ways: two long names, and many selectors, which are networks behind cygnet.
func bulky(s *stage, v6, initiate bool) rig.Tunnel {
	x := tunnel(s.Topology, rig.CBC, v6, false)
	name := strings.Repeat(strings.Repeat("x", 60)+".", 3)
	x.LocalID, x.RemoteID = name+x.LocalID, name+x.RemoteID
	behind := &x.LocalTS
	if !initiate {
		behind = &x.RemoteTS
	}
	for i := range 63 {
		*behind = append(*behind, fmt.Sprintf("172.16.%d.0/24", i))
	}
	return x
}

// fragmented wants the daemon to say that fragments were used, and returns their size.
func fragmented(s *stage, own *rig.CygnetEnd) int {
	var st control.Status
	s.must(own.Status(&st))
	for _, c := range st.Connections {
		for _, sa := range c.IKE {
			s.want(sa.Fragmentation == "used", "status says of fragmentation %q", sa.Fragmentation)
			return sa.FragmentSize
		}
	}
	s.want(false, "there is no IKE SA")
	return 0
}

// told is a line of a peer's log without its beginning.
func told(line string) string {
	_, text, _ := strings.Cut(line, "] ") // strongSwan
	if _, libre, ok := strings.Cut(line, `"s2s" #`); ok {
		_, text, _ = strings.Cut(libre, ": ")
	}
	return text
}

func TestUserspaceFragments(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	fragmentRows(t, "userspace")
}

func TestKernelFragments(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	fragmentRows(t, "kernel")
}

// fragmentRows: large IKE messages pass links on which fragments of IP, or large datagrams at all, vanish.
func fragmentRows(t *testing.T, plane string) {
	need(t, "peers", rig.HaveSwan())
	for _, c := range []struct {
		subject, link       string
		swan, charon, lines string
		v6                  bool
		size                int
	}{
		{"IKE fragments, IP fragments dropped", noFragments, "yes", "fragment_size = 1280", "", false, 1280},
		{"IKE fragments, IP fragments dropped", noFragments, "yes", "fragment_size = 1280", "", true, 1280},
		{"IKE fragments, 600 octets and more dropped", noLarge, "yes", "fragment_size = 576", "", false, 576},
		{"IKE fragments forced, small", noFragments, "force", "fragment_size = 576", "fragment_size = 576\n", false, 576},
	} {
		for _, initiate := range []bool{true, false} {
			path := map[bool]string{false: "IPv4", true: "IPv6"}[c.v6]
			line{peer: "strongSwan " + plane, role: role(initiate), subject: c.subject, path: path}.run(t, func(s *stage) string {
				s.lossy(c.link)
				x := bulky(s, c.v6, initiate)
				x.Swan, x.SwanDaemon, x.Cygnet = "fragmentation = "+c.swan, c.charon, c.lines
				own, swan := s.versus(x, tunnelB(s.Topology, x), initiate, rig.CygnetOptions{Dataplane: plane})
				a, b := rig.End(own), rig.End(swan)
				if !initiate {
					a, b = b, a
				}
				s.must(a.Up())
				ev, err := rig.Prove(s.Topology, a, b, x)
				s.must(err)
				size := fragmented(s, own)
				s.want(size <= c.size, "fragments of up to %d octets, wanted %d", size, c.size)
				out, code := own.Ikectl("rekey", "s2s", "--ike")
				s.want(code == 0, "rekey: %s", out)
				sent, got := swan.Said("splitting IKE message"), swan.Said("reassembled")
				s.want(len(sent) > 0 && len(got) > 0, "strongSwan says of fragments only %q, %q", sent, got)
				s.must(a.Down())
				s.must(rig.Gone(a))
				s.must(rig.Gone(b))
				return fmt.Sprintf("up to %d octets; strongSwan: %s; %s; sha256 %.12s", size, told(sent[0]), told(got[0]), ev.Hash)
			})
		}
	}
	line{peer: "strongSwan " + plane, role: "initiates", subject: "no IKE fragments, IP fragments dropped", path: "IPv4"}.run(t, func(s *stage) string {
		s.lossy(noFragments)
		x := bulky(s, false, true)
		x.Cygnet = "fragmentation = \"no\"\n"
		own, _ := s.versus(x, tunnelB(s.Topology, x), true, rig.CygnetOptions{Dataplane: plane})
		out, code := own.Ikectl("up", "s2s", "--timeout", "60s")
		s.want(code == 1, "ikectl up: exit %d: %s", code, out)
		why := regexp.MustCompile(`it answered IKE_SA_INIT, but .*too large[^;]*`).FindString(out)
		s.want(why != "" && strings.Contains(out, `fragmentation = "yes"`), "ikectl up says %s", out)
		return why
	})
}

// TestKernelLibreswanFragments: IKE_AUTH with certificates larger than any datagram passes links on which fragments of IP, or large datagrams at all, vanish. How large its own
// fragments are Libreswan does not let anybody say: 576 octets on IPv4, 1280 on IPv6.
func TestKernelLibreswanFragments(t *testing.T) {
	needLibreswan(t)
	a := newAuthority(t)
	for i, c := range []struct {
		link string
		size int
		v6   bool
	}{{noLarge, 576, false}, {noFragments, 1280, false}, {noFragments, 1280, true}} {
		for _, initiate := range []bool{true, false} {
			if !spared(i, initiate) {
				a.fragmentRow(t, c.link, c.size, c.v6, initiate)
			}
		}
	}
}

func (a *authority) fragmentRow(t *testing.T, link string, size int, v6, initiate bool) {
	path := map[bool]string{false: "IPv4", true: "IPv6"}[v6]
	subject := fmt.Sprintf("IKE fragments of %d, %s dropped", size, map[string]string{noLarge: "larger ones", noFragments: "IP fragments"}[link])
	line{peer: "Libreswan kernel", role: role(initiate), subject: subject, path: path}.run(t, func(s *stage) string {
		s.lossy(link)
		x := tunnel(s.Topology, rig.CBC, v6, v6)
		if !initiate {
			x = tunnelB(s.Topology, x)
		}
		x.Cygnet = fmt.Sprintf("fragment_size = %d\n", size)
		x = a.equip(s, x, proofs{ours: "RSA 3072", theirs: "RSA 3072"})
		if !initiate {
			x = x.Mirror()
		}
		own, us, other := s.two("Libreswan", x, initiate, rig.CygnetOptions{Dataplane: "kernel"})
		first, second := us, other
		if !initiate {
			first, second = other, us
		}
		capture, err := s.Capture()
		s.must(err)
		s.must(first.Up())
		seen := capture.Stop()
		ev, err := rig.Prove(s.Topology, first, second, x)
		s.must(err)
		s.want(fragmented(s, own) <= size, "fragments of up to %d octets, wanted %d", fragmented(s, own), size)
		sent, got := s.fragments(seen, us.Site), s.fragments(seen, other.Site)
		s.want(sent.number > 1 && got.number > 1 && sent.largest <= size, "on the WAN are %v of ours, %v of Libreswan's", sent, got)
		s.must(first.Down())
		s.must(rig.Gone(us))
		s.must(rig.Gone(other))
		return fmt.Sprintf("%v; Libreswan sent %v; no fragment of IP; sha256 %.12s", sent, got, ev.Hash)
	})
}

// fragments of IKE messages that a gateway has sent.
type fragments struct{ number, largest int }

func (f fragments) String() string {
	return fmt.Sprintf("%d fragments of up to %d octets", f.number, f.largest)
}

// fragments counts a site's, and wants none of IP.
func (s *stage) fragments(seen []rig.Packet, from rig.Site) (f fragments) {
	for _, p := range seen {
		s.want(!p.Piece, "a fragment of IP: %s", p)
		if p.SKF && (p.Src == from.WAN4 || p.Src == from.WAN6) {
			f.number++
			f.largest = max(f.largest, p.Size)
		}
	}
	return f
}
