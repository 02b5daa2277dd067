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

// limit is a lifetime of the child in octets or packets, so short that a flood reaches it every second or two. The hard one is far off: that the rekey
// comes in time is shown by no datagram being lost.
type limit struct {
	subject            string
	by                 string
	initiate           bool
	cygnet, swan, libr string
}

var limits = []limit{
	{"rekey_bytes of ours", "us", true, "rekey_bytes = 120_000\nlife_bytes = 1_200_000\n", "", ""},
	{"rekey_packets of ours", "us", false, "rekey_packets = 1000\nlife_packets = 10_000\n", "", ""},
	{"bytes of the peer's", "peer", false, "", "rekey_bytes = 120000\nlife_bytes = 1200000\nrand_bytes = 20000", "  ipsec-max-bytes=400000\n"},
	{"packets of the peer's", "peer", true, "", "rekey_packets = 1000\nlife_packets = 10000\nrand_packets = 100", "  ipsec-max-packets=4000\n"},
}

func TestUserspaceLifetime(t *testing.T) {
	t.Parallel()
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	lifetimeRows(t, "strongSwan", "userspace")
}

func TestKernelLifetime(t *testing.T) {
	need(t, "kernel-esp", kernelESP())
	need(t, "peers", rig.HaveSwan())
	lifetimeRows(t, "strongSwan", "kernel")
	lifetimeRows(t, "Libreswan", "kernel")
}

func lifetimeRows(t *testing.T, peer, plane string) {
	for _, l := range limits {
		line{peer: peer + " " + plane, role: role(l.initiate), subject: "rekeyed after " + l.subject, path: "IPv4"}.run(t, func(s *stage) string {
			return s.limited(peer, plane, l)
		})
	}
}

// limited is a row: while datagrams flood through the tunnel the end whose limit it is rekeys the child three times, and none is lost.
func (s *stage) limited(peer, plane string, l limit) (evidence string) {
	x := tunnel(s.Topology, rig.GCM, false, false)
	x.CygnetChild, x.SwanChild, x.Libre = l.cygnet, strings.ReplaceAll(l.swan, "\n", "\n        "), l.libr
	own, us, other := s.two(peer, x, l.initiate, rig.CygnetOptions{Dataplane: plane})
	first := us
	if !l.initiate {
		first = other
	}
	s.must(first.Up())
	child, _ := s.agree(patience, us, other, nil, nil)
	children := []string{child}
	capture, err := s.Capture()
	s.must(err)
	begun := time.Now()
	stop, err := rig.Flood(s.A.Host, s.B.Host, s.B.Host4)
	s.must(err)
	defer stop()
	for range 3 {
		child, _ = s.agree(4*patience, us, other, children, nil)
		children = append(children, child)
	}
	took := time.Since(begun)
	said, err := stop()
	seen := capture.Stop()
	if lost := (*rig.Lost)(nil); errors.As(err, &lost) && peer == "Libreswan" && l.by == "us" {
		said, err = s.early(us, other, seen, children, lost)
	}
	s.must(err)
	log := own.Log.String()
	s.want(!strings.Contains(log, "code=child-down"), "the child went down in between")
	ours := strings.Count(log, "CREATE_CHILD_SA sent")
	s.want((ours > 0) == (l.by == "us"), "cygnet began %d rekeys, but the limit is of %s", ours, l.by)
	return fmt.Sprintf("3 rekeys in %.1f s; %s", took.Seconds(), said)
}
