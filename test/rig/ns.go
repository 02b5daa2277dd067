// Package rig builds the networks that live tests and the demonstration run in: namespaces for two sites with a WAN in between, daemons and
// real peers in them, captures of what crosses the WAN, and hashed data from LAN to LAN. It needs root and touches nothing
// outside the namespaces that it makes.
package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"cygnet/xfrm/bench"
)

// NS is the name of a network namespace made with "ip netns add".
type NS string

// Do calls f on a thread that is inside the namespace. Sockets that f opens stay there.
func (n NS) Do(f func() error) error {
	return (&bench.Namespace{Name: string(n)}).Do(f)
}

// Command prepares a command inside the namespace.
func (n NS) Command(name string, arg ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", string(n), name}, arg...)...)
}

// Hosts writes the namespace's own /etc/hosts, which those see that are started in it afterwards, with what is written later.
func (n NS) Hosts(content string) error {
	return Config{"hosts": content}.Write("/etc/netns/" + string(n))
}

// Output runs a command inside the namespace for at most 30 s and returns what it printed.
func (n NS) Output(name string, arg ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return output(exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", string(n), name}, arg...)...))
}

func output(c *exec.Cmd) (string, error) {
	var b bytes.Buffer
	c.Stdout, c.Stderr = &b, &b
	err := c.Run()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, strings.TrimSpace(b.String()))
	}
	return b.String(), err
}

// ip runs "ip ..." lines, stopping at the first that fails.
func ip(lines ...string) error {
	for _, l := range lines {
		if _, err := output(exec.Command("ip", strings.Fields(l)...)); err != nil {
			return err
		}
	}
	return nil
}

// Until polls f until it is true or the deadline passes.
func Until(d time.Duration, f func() bool) bool {
	end := time.Now().Add(d)
	for {
		if f() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// ErrNotRoot says why nothing can be built.
var ErrNotRoot = errors.New("network namespaces need root")
