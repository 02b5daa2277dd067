package main

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// harden keeps keys out of core files and from debuggers of other users.
func harden() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("core dumps cannot be switched off: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("PR_SET_DUMPABLE: %w", err)
	}
	return nil
}

// checkCapabilities names what is missing before the first system call fails without words.
func checkCapabilities() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return nil // what is missing will show
	}
	var missing []string
	for _, c := range []struct {
		bit  uint
		name string
	}{{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN (SAs, policies, routes)"}, {unix.CAP_NET_BIND_SERVICE, "CAP_NET_BIND_SERVICE (port 500)"}} {
		if data[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			missing = append(missing, c.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("missing: %s\n    hint: run it as root, or let systemd give it: AmbientCapabilities=CAP_NET_ADMIN CAP_NET_BIND_SERVICE; a container needs --cap-add NET_ADMIN",
		strings.Join(missing, ", "))
}

// notifySystemd speaks sd_notify(3) where systemd asked for it.
func notifySystemd(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return // systemd will see the timeout
	}
	defer c.Close()
	c.Write([]byte(state))
}
