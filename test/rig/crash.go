package rig

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Crash says which gateway CrashSweep kills, and what brings the connection up: "boot" does at A, "traffic" does at both ends, so that each may
// find itself in either role.
type Crash struct {
	Victim string // "initiator" (A) or "responder" (B)
	Start  string
}

// Crashes are those that a sweep is made of.
var Crashes = []Crash{{"initiator", "boot"}, {"responder", "boot"}, {"initiator", "traffic"}, {"responder", "traffic"}}

// Points are the lines of the victim's log after which it is killed.
func (c Crash) Points() []string {
	if c.Victim == "responder" {
		return []string{"keys are agreed", "the peer proved its identity", "IKE SA up", "up in"}
	}
	return []string{"IKE_SA_INIT sent", "peer chose", "peer proved", "up in"}
}

// quick makes the survivor notice within seconds that its peer has gone.
const quick = "liveness = { idle = \"1s\", tries = 4, timeout = \"500ms\" }\n"

// sweep is one run of CrashSweep.
type sweep struct {
	t        *Topology
	bin, dir string
	crash    Crash
	a, b     *CygnetEnd
	logs     []string // of gateways that were killed
}

// CrashSweep kills the victim with SIGKILL at each of its points, starts it again, and wants afterwards the state of a clean start at both
// ends, and never a packet for the other LAN in clear while hosts keep sending, with "traffic" those of both LANs. It uses the topology alone and returns what it saw.
func CrashSweep(t *Topology, bin, dir string, x Tunnel, plane string, c Crash) (report string, err error) {
	s := &sweep{t: t, bin: bin, dir: dir, crash: c}
	defer func() {
		for name, end := range map[string]*CygnetEnd{"A": s.a, "B": s.b} {
			if end == nil {
				continue
			}
			if log := end.Stop(); err != nil {
				err = fmt.Errorf("%w\n---- %s\n%s", err, name, log)
			}
		}
		if err != nil {
			err = fmt.Errorf("%w\n---- killed\n%s", err, strings.Join(s.logs, "\n----\n"))
		}
	}()
	x.Cygnet += quick
	startB := "manual"
	if c.Start == "traffic" {
		startB = "traffic"
	}
	if err := CygnetConfig(x, CygnetOptions{Dataplane: plane, Start: c.Start}).Write(filepath.Join(dir, "a")); err != nil {
		return "", err
	}
	if err := CygnetConfig(x.Mirror(), CygnetOptions{Dataplane: plane, Start: startB}).Write(filepath.Join(dir, "b")); err != nil {
		return "", err
	}
	capture, err := t.Capture()
	if err != nil {
		return "", err
	}
	if s.b, err = s.start(t.B.Gateway, "b"); err != nil {
		return "", err
	}
	if s.a, err = s.start(t.A.Gateway, "a"); err != nil {
		return "", err
	}
	stop, err := Traffic(t.A.Host, t.B.Host4)
	if err != nil {
		return "", err
	}
	defer stop()
	if startB == "traffic" {
		stop, err := Traffic(t.B.Host, t.A.Host4)
		if err != nil {
			return "", err
		}
		defer stop()
	}
	cleanA, cleanB, err := s.clean()
	if err != nil {
		return "", err
	}
	for _, point := range c.Points() {
		if err := s.killAt(point); err != nil {
			return report, err
		}
		// The survivor keeps the SA of the dead process until INITIAL_CONTACT or its own question tells it otherwise, and an IKE_AUTH that the
		// dead one can no longer answer is repeated for some seconds: the state settles.
		var gotA, gotB string
		begun := time.Now()
		if !Until(75*time.Second, func() bool {
			gotA, gotB, err = s.dumps()
			return err == nil && gotA == cleanA && gotB == cleanB
		}) {
			return report, errors.Join(err, fmt.Errorf("after a crash of the %s at %q:\n%s%s", c.Victim, point, difference("A", cleanA, gotA), difference("B", cleanB, gotB)))
		}
		if err := Ping(t.A.Host, t.B.Host4); err != nil {
			return report, fmt.Errorf("after a crash of the %s at %q: %w", c.Victim, point, err)
		}
		report += fmt.Sprintf("start = %s, %s killed at %q: same state as after a clean start, after %.1f s\n", c.Start, c.Victim, point, time.Since(begun).Seconds())
	}
	seen := capture.Stop()
	clear := t.Clear(seen)
	if startB == "manual" { // it protects nothing before it is up: an answer on its way when B dies may leave in clear
		clear = slices.DeleteFunc(clear, func(p Packet) bool { return t.B.LAN4.Contains(p.Src) })
	}
	if len(clear) > 0 {
		return report, fmt.Errorf("%d packets in clear, first: %s", len(clear), clear[0])
	}
	return report + fmt.Sprintf("%d packets on the WAN, none in clear", len(seen)), nil
}

// clean waits until the tunnel is up and both ends hold still, with one IKE SA: where both began at once the second goes after some seconds.
func (s *sweep) clean() (a, b string, err error) {
	if !Until(30*time.Second, func() bool {
		if _, err = s.a.SA(); err != nil {
			return false
		}
		was, wasB := a, b
		a, b, err = s.dumps()
		return err == nil && a == was && b == wasB && strings.Count(a, "\n  established ") == 1 && strings.Count(b, "\n  established ") == 1
	}) {
		return "", "", fmt.Errorf("the connection does not come up: %w", err)
	}
	return a, b, nil
}

// killAt kills the victim, starts it again, kills it as soon as its log holds the line, and starts it once more. An initiator that is to
// survive begins anew before that, for after each failure it waits longer.
func (s *sweep) killAt(line string) (err error) {
	victim, ns, name := &s.a, s.t.A.Gateway, "a"
	if s.crash.Victim == "responder" {
		victim, ns, name = &s.b, s.t.B.Gateway, "b"
		s.a.Stop()
	}
	if err := (*victim).kill(); err != nil {
		return err
	}
	d, err := start(ns, exec.Command("ip", "netns", "exec", string(ns), filepath.Join(s.bin, "cygnetd"),
		"--config", filepath.Join(s.dir, name), "--socket", filepath.Join(s.dir, name, "control.sock")))
	if err != nil {
		return err
	}
	if s.crash.Victim == "responder" {
		if s.a, err = s.start(s.t.A.Gateway, "a"); err != nil {
			d.kill()
			return err
		}
	}
	seen := Until(30*time.Second, func() bool { return d.Dead() || strings.Contains(d.Log.String(), line) }) && !d.Dead()
	d.kill()
	s.logs = append(s.logs, d.Log.String())
	if !seen {
		return fmt.Errorf("no %q in the %s's log:\n%s", line, s.crash.Victim, d.Log)
	}
	*victim, err = s.start(ns, name)
	return err
}

func (s *sweep) start(ns NS, name string) (*CygnetEnd, error) {
	c, err := StartCygnet(ns, s.bin, filepath.Join(s.dir, name))
	if err != nil {
		return nil, err
	}
	return &CygnetEnd{Cygnet: c}, nil
}

// kill ends the process with SIGKILL, if it lives.
func (d *Daemon) kill() error {
	if d.Dead() {
		return nil
	}
	return d.Signal(syscall.SIGKILL)
}

// Traffic sends a small packet every 10 ms until stopped, whatever becomes of it; arg are further arguments of ping.
func Traffic(from NS, to netip.Addr, arg ...string) (stop func(), err error) {
	d, err := start(from, from.Command("ping", append([]string{"-q", "-i", "0.01", to.String()}, arg...)...))
	if err != nil {
		return nil, err
	}
	return func() { d.kill() }, nil
}

func (s *sweep) dumps() (string, string, error) {
	a, err := s.a.Dump()
	if err != nil {
		return "", "", err
	}
	b, err := s.b.Dump()
	return a, b, err
}

// difference shows the lines that only one of two dumps has.
func difference(name, want, got string) string {
	var b strings.Builder
	count := map[string]int{}
	for _, l := range strings.Split(want, "\n") {
		count[l]++
	}
	for _, l := range strings.Split(got, "\n") {
		count[l]--
	}
	for _, l := range strings.Split(want+"\n"+got, "\n") {
		switch n := count[l]; {
		case n > 0:
			fmt.Fprintf(&b, "%s - %s\n", name, l)
		case n < 0:
			fmt.Fprintf(&b, "%s + %s\n", name, l)
		}
		count[l] = 0
	}
	return b.String()
}
