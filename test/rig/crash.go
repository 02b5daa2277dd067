package rig

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// CrashPoints are the log lines of an initiator after which CrashSweep kills it.
var CrashPoints = []string{"IKE_SA_INIT sent", "peer chose", "peer proved", "up in"}

// CrashSweep kills gateway A with SIGKILL after each of CrashPoints, starts it again, and wants afterwards the state of a clean start at both
// ends, and never a packet for the other LAN in clear while a host of A keeps sending. It uses the topology alone and returns what it saw.
func CrashSweep(t *Topology, bin, dir string, x Tunnel, plane string) (report string, err error) {
	b, err := StartCygnetEnd(t.B.Gateway, bin, filepath.Join(dir, "b"), x.Mirror(), CygnetOptions{Dataplane: plane, Start: "manual"})
	if err != nil {
		return "", err
	}
	defer func() {
		if log := b.Stop(); err != nil {
			err = fmt.Errorf("%w\n---- B\n%s", err, log)
		}
	}()
	if err := CygnetConfig(x, CygnetOptions{Dataplane: plane, Start: "boot"}).Write(filepath.Join(dir, "a")); err != nil {
		return "", err
	}
	a, err := startUp(t, bin, dir)
	if err != nil {
		return "", err
	}
	defer func() {
		if log := a.Stop(); err != nil {
			err = fmt.Errorf("%w\n---- A\n%s", err, log)
		}
	}()
	cleanA, cleanB, err := dumps(a, b.Cygnet)
	if err != nil {
		return "", err
	}

	capture, err := t.Capture()
	if err != nil {
		return "", err
	}
	stop, err := flood(t)
	if err != nil {
		return "", err
	}
	defer stop()
	for _, point := range CrashPoints {
		if err := a.kill(); err != nil {
			return "", err
		}
		if err := crashAt(t, bin, dir, point); err != nil {
			return "", err
		}
		again, err := startUp(t, bin, dir)
		if err != nil {
			return "", fmt.Errorf("after a crash at %q: %w", point, err)
		}
		a = again
		// B keeps the SA of the dead process until INITIAL_CONTACT tells it otherwise: its dump settles.
		var gotA, gotB string
		if !Until(15*time.Second, func() bool {
			gotA, gotB, err = dumps(a, b.Cygnet)
			return err == nil && gotA == cleanA && gotB == cleanB
		}) {
			return "", errors.Join(err, fmt.Errorf("after a crash at %q:\n%s%s", point, difference("A", cleanA, gotA), difference("B", cleanB, gotB)))
		}
		if err := Ping(t.A.Host, t.B.Host4); err != nil {
			return "", fmt.Errorf("after a crash at %q: %w", point, err)
		}
		report += fmt.Sprintf("killed at %q: same state as after a clean start\n", point)
	}
	stop()
	seen := capture.Stop()
	if clear := t.Clear(seen); len(clear) > 0 {
		return report, fmt.Errorf("%d packets in clear, first: %s", len(clear), clear[0])
	}
	return report + fmt.Sprintf("%d packets on the WAN, none in clear", len(seen)), nil
}

// startUp starts gateway A and waits until its boot connection is up.
func startUp(t *Topology, bin, dir string) (*CygnetEnd, error) {
	c, err := StartCygnet(t.A.Gateway, bin, filepath.Join(dir, "a"))
	if err != nil {
		return nil, err
	}
	end := &CygnetEnd{Cygnet: c}
	if !Until(30*time.Second, func() bool { _, err = end.SA(); return err == nil }) {
		return nil, fmt.Errorf("the boot connection does not come up: %w\n%s", err, end.Stop())
	}
	return end, nil
}

// crashAt starts gateway A and kills it as soon as its log holds the line.
func crashAt(t *Topology, bin, dir, line string) error {
	d, err := start(t.A.Gateway, exec.Command("ip", "netns", "exec", string(t.A.Gateway), filepath.Join(bin, "cygnetd"),
		"--config", filepath.Join(dir, "a"), "--socket", filepath.Join(dir, "a", "control.sock")))
	if err != nil {
		return err
	}
	seen := Until(30*time.Second, func() bool { return d.Dead() || strings.Contains(d.Log.String(), line) }) && !d.Dead()
	d.kill()
	if !seen {
		return fmt.Errorf("no %q in the log:\n%s", line, d.Log)
	}
	return nil
}

// kill ends the process with SIGKILL, if it lives.
func (d *Daemon) kill() error {
	if d.Dead() {
		return nil
	}
	return d.Signal(syscall.SIGKILL)
}

// flood sends a small packet from A's host to B's every 10 ms until stopped.
func flood(t *Topology) (stop func(), err error) {
	d, err := start(t.A.Host, t.A.Host.Command("ping", "-q", "-i", "0.01", t.B.Host4.String()))
	if err != nil {
		return nil, err
	}
	return func() {
		if !d.Dead() {
			d.Signal(syscall.SIGKILL)
		}
	}, nil
}

func dumps(a *CygnetEnd, b *Cygnet) (string, string, error) {
	da, err := a.Dump()
	if err != nil {
		return "", "", err
	}
	db, err := b.Dump()
	return da, db, err
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
