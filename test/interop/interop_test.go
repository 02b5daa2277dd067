//go:build interop

// Package interop proves tunnels against real peers: strongSwan and Libreswan as Debian ships them, both roles, and cygnet against
// itself. A row is OK only with evidence from the other side: see rig.Prove.
package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"cygnet/test/rig"
)

// bin is the folder of cygnetd and ikectl.
var bin string

// table collects a line for each row.
var table struct {
	sync.Mutex
	lines []string
	flaky int
}

func TestMain(m *testing.M) {
	bin = os.Getenv("CYGNET_BIN") // set where the binaries were built before, as in the lab
	if bin == "" {
		bin, _ = filepath.Abs("../../bin")
		if out, err := exec.Command("go", "build", "-o", bin+"/", "cygnet/cmd/...").CombinedOutput(); err != nil {
			fmt.Printf("build: %v\n%s", err, out)
			os.Exit(1)
		}
	}
	code := m.Run()
	table.Lock()
	if len(table.lines) > 0 { // seen with -v; go test hides what a passing package prints
		fmt.Printf("\n%-28s %-9s %-34s %-12s %s\n", "peer", "cygnet", "suite", "path", "result")
		slices.Sort(table.lines) // they have run beside each other
		for _, l := range table.lines {
			fmt.Println(l)
		}
	}
	if table.flaky > 2 {
		fmt.Printf("%d rows were flaky, more than two\n", table.flaky)
		code = 1
	}
	os.Exit(code)
}

// row is a tunnel of one suite, brought up, proved and taken down.
type row struct {
	peer, role string // as in line
	suite      rig.Suite
	path       string
	v6inside   bool
	nat        bool
	run        func(t *rig.Topology, dir string) (a, b rig.End, up rig.End, err error)
}

func (r row) line() line { return line{r.peer, r.role, r.suite.Name, r.path, r.nat} }

func (r row) name() string { return r.line().name() }

// check runs a row: both ends agree and data passes (rig.Prove), and once it is down both are rid of it.
func check(t *testing.T, r row) {
	r.line().run(t, func(s *stage) string {
		a, b, up, err := r.run(s.Topology, s.dir)
		for _, e := range []rig.End{a, b} {
			if e != nil {
				s.keep(e)
			}
		}
		s.must(err)
		s.must(up.Up())
		ev, err := rig.Prove(s.Topology, a, b, tunnel(s.Topology, r.suite, false, r.v6inside))
		s.must(err)
		s.must(up.Down())
		s.must(rig.Gone(a))
		s.must(rig.Gone(b))
		return fmt.Sprintf("SPIs %08x %08x, %d+%d ESP packets, sha256 %.12s", ev.A.SPIIn, ev.A.SPIOut, ev.Packets[ev.A.SPIIn], ev.Packets[ev.A.SPIOut], ev.Hash)
	})
}

// record adds a line to the table.
func record(peer, role, subject, path, result, evidence string) {
	table.Lock()
	defer table.Unlock()
	if result == "FLAKY" {
		table.flaky++
	}
	table.lines = append(table.lines, fmt.Sprintf("%-28s %-9s %-34s %-12s %s  %s", peer, role, subject, path, result, evidence))
}

// tunnel is the tunnel of a row as gateway A sees it.
func tunnel(t *rig.Topology, s rig.Suite, v6outside, v6inside bool) rig.Tunnel {
	x := rig.Tunnel{
		Local: t.A.WAN4, Remote: t.B.WAN4, LocalID: "gw-a.example", RemoteID: "gw-b.example",
		LocalTS: []string{t.A.LAN4.String()}, RemoteTS: []string{t.B.LAN4.String()},
		PSK: "correct horse battery staple", Suite: s,
	}
	if v6outside {
		x.Local, x.Remote = t.A.WAN6, t.B.WAN6
	}
	if v6inside {
		x.LocalTS, x.RemoteTS = []string{t.A.LAN6.String()}, []string{t.B.LAN6.String()}
	}
	return x
}

// tunnelB is the same as gateway B sees it: A's address is the public one.
func tunnelB(t *rig.Topology, a rig.Tunnel) rig.Tunnel {
	b := a.Mirror()
	if b.Remote == t.A.WAN4 {
		b.Remote = t.A.Public4
	}
	return b
}

// need skips a test whose peer is missing, or fails it where REQUIRE names the need.
func need(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if strings.Contains(os.Getenv("REQUIRE"), what) {
		t.Fatalf("%s is required here: %v", what, err)
	}
	t.Skip(err)
}

// ownRow is cygnet at both ends, A initiating, with the data planes given.
func ownRow(s rig.Suite, planeA, planeB string, v6outside, v6inside, nat bool) row {
	path := "IPv4"
	if v6outside {
		path = "IPv6"
	}
	if v6outside != v6inside {
		path += map[bool]string{true: "(IPv6 in)", false: "(IPv4 in)"}[v6inside]
	}
	if nat {
		path = "NAT"
	}
	peer := "cygnet " + planeA
	if planeA != planeB {
		peer = "cygnet " + planeA + "+" + planeB
	}
	return row{peer: peer, role: "both", suite: s, path: path, v6inside: v6inside, nat: nat,
		run: func(t *rig.Topology, dir string) (rig.End, rig.End, rig.End, error) {
			x := tunnel(t, s, v6outside, v6inside)
			b, err := rig.StartCygnetEnd(t.B.Gateway, bin, dir+"/b", tunnelB(t, x), rig.CygnetOptions{Dataplane: planeB})
			if err != nil {
				return nil, nil, nil, err
			}
			a, err := rig.StartCygnetEnd(t.A.Gateway, bin, dir+"/a", x, rig.CygnetOptions{Dataplane: planeA})
			if err != nil {
				return nil, b, nil, err
			}
			return a, b, a, nil
		}}
}

// swanRow is cygnet against strongSwan. The initiator is gateway A.
func swanRow(s rig.Suite, plane string, initiate, v6, nat bool) row {
	role, path := "responds", "IPv4"
	if initiate {
		role = "initiates"
	}
	if v6 {
		path = "IPv6"
	}
	if nat {
		path = "NAT"
	}
	return row{peer: "strongSwan " + plane, role: role, suite: s, path: path, nat: nat, v6inside: v6,
		run: func(t *rig.Topology, dir string) (a, b, up rig.End, err error) {
			x := tunnel(t, s, v6, v6)
			own := func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
				return wrap(rig.StartCygnetEnd(ns, bin, dir+"/own", x, rig.CygnetOptions{Dataplane: plane}))
			}
			swan := func(ns rig.NS, x rig.Tunnel) (rig.End, error) {
				return wrap(rig.StartSwan(ns, dir+"/swan", x, plane == "kernel"))
			}
			return pair(t, x, initiate, own, swan)
		}}
}

// pair starts the responder at B, then the initiator at A.
func pair(t *rig.Topology, x rig.Tunnel, initiate bool, own, peer func(rig.NS, rig.Tunnel) (rig.End, error)) (a, b, up rig.End, err error) {
	first, second := peer, own
	if !initiate {
		first, second = own, peer
	}
	if b, err = first(t.B.Gateway, tunnelB(t, x)); err != nil {
		return nil, nil, nil, err
	}
	if a, err = second(t.A.Gateway, x); err != nil {
		return nil, b, nil, err
	}
	return a, b, a, nil
}

// wrap avoids an interface that holds a nil pointer.
func wrap[T rig.End](e T, err error) (rig.End, error) {
	if err != nil {
		return nil, err
	}
	return e, nil
}

func TestUserspaceOwn(t *testing.T) {
	need(t, "root", root())
	for _, s := range rig.ESPSuites {
		check(t, ownRow(s, "userspace", "userspace", false, false, false))
		check(t, ownRow(s, "userspace", "userspace", true, true, false))
	}
	check(t, ownRow(rig.CBC, "userspace", "userspace", false, true, false))
	check(t, ownRow(rig.GCM, "userspace", "userspace", true, false, false))
	check(t, ownRow(rig.CBC, "userspace", "userspace", false, false, true))
}

func TestUserspaceStrongSwan(t *testing.T) {
	need(t, "root", root())
	need(t, "peers", rig.HaveSwan())
	for _, s := range []rig.Suite{rig.CBC, rig.GCM, rig.ChaCha} {
		for _, initiate := range []bool{true, false} {
			for _, nat := range []bool{false, true} {
				check(t, swanRow(s, "userspace", initiate, false, nat))
			}
		}
	}
}

func root() error {
	if os.Geteuid() != 0 {
		return rig.ErrNotRoot
	}
	return nil
}
