package rig

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Flood sends echo requests from one host to another, 500 a second, until stop is called, which tells what ping has counted: an error unless every single
// request was answered.
func Flood(from NS, to netip.Addr) (stop func() (string, error), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	c := from.Command("ping", "-q", "-i", "0.002", to.String())
	cmd := exec.CommandContext(ctx, c.Path, c.Args[1:]...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	return func() (string, error) {
		defer cancel()
		cmd.Process.Signal(syscall.SIGINT) // ping then prints its counts; "ip netns exec" has become ping
		cmd.Wait()
		text := strings.TrimSpace(out.String())
		if !strings.Contains(text, " 0% packet loss") || strings.Contains(text, "duplicates") {
			return text, fmt.Errorf("ping %s: %s", to, text)
		}
		return find(text, `(\d+ packets transmitted, \d+ received)`), nil
	}, nil
}
