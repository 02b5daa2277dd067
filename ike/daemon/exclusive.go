package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// workName is an abstract unix socket, of which each network namespace has its own: whoever holds it works on SAs, policies and routes there. Two would remove
// each other's as left behind by a dead one.
const workName = "@cygnet/dataplane"

// exclusive takes the network namespace's data plane for this process, until release or its end. Who holds it already is named. Any user may take the name, so one
// who could not run cygnetd does not count.
func exclusive(name string) (release func() error, err error) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err == nil {
		go hangUp(l)
		return l.Close, nil
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("data plane: %w", err)
	}
	who, err := holder(name)
	if err != nil || who.Uid != 0 && int(who.Uid) != os.Geteuid() {
		return func() error { return nil }, nil
	}
	return nil, fmt.Errorf("another cygnetd (pid %d) works in this network namespace, with another control socket: stop it first", who.Pid)
}

// hangUp ends the connections of those who ask, until l is closed: else they would fill its queue.
func hangUp(l *net.UnixListener) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			c.Close()
			continue
		}
		time.Sleep(time.Second) // no descriptor is free
	}
}

// holder asks the kernel who listens there.
func holder(name string) (*unix.Ucred, error) {
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var who *unix.Ucred
	var uerr error
	if err := raw.Control(func(fd uintptr) { who, uerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	return who, uerr
}
