package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	socketMode  = 0o660
	maxClients  = 64
	maxLookers  = 56 // clients that are not root, admins too: root always finds a free place
	maxRefusals = 16 // clients that are turned away at once
	acceptPause = 50 * time.Millisecond
)

// bind makes the socket. It never exists with a wider mode than 0660: bind(2) gives the file the mode of the descriptor.
func bind(path string) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := listenNarrow(path)
	if err != nil {
		return nil, fmt.Errorf("control socket: %w", err)
	}
	if err := giveToGroups(path); err != nil {
		l.Close()
		return nil, fmt.Errorf("control socket: %w", err)
	}
	return l, nil
}

func listenNarrow(path string) (*net.UnixListener, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close() // FileListener has its own descriptor
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return nil, os.NewSyscallError("fchmod", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, &os.PathError{Op: "bind", Path: path, Err: err}
	}
	if err := unix.Listen(fd, maxClients); err != nil {
		return nil, os.NewSyscallError("listen", err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	ul := l.(*net.UnixListener)
	ul.SetUnlinkOnClose(true)
	return ul, nil
}

// giveToGroups lets the groups in, each where the host has it. Without either the socket stays root's.
func giveToGroups(path string) error {
	look, admin := groupID(Group), groupID(AdminGroup)
	if look == noGroup {
		look, admin = admin, noGroup
	}
	if look != noGroup {
		if err := os.Chown(path, -1, look); err != nil {
			return err
		}
	}
	if err := os.Chmod(path, socketMode); err != nil || admin == noGroup {
		return err
	}
	return letGroupIn(path, admin)
}

// removeStale removes the socket of a daemon that is dead and refuses to touch that of a living one, or anything that is no socket.
func removeStale(path string) error {
	st, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	if st.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("control socket: %s exists and is not a socket; remove it or choose another path", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		defer c.Close()
		who := "another cygnetd"
		if p, err := peerCred(c.(*net.UnixConn)); err == nil {
			who = fmt.Sprintf("another cygnetd (pid %d)", p.pid)
		}
		return fmt.Errorf("%s is running: it answers on %s", who, path)
	}
	// Only ECONNREFUSED says that nobody listens. A full queue (EAGAIN) is a sign of life.
	if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("control socket: %s does not answer but may be alive: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("control socket: remove the one of a dead daemon: %w", err)
	}
	return nil
}

// listener counts clients and learns who they are.
type listener struct {
	*net.UnixListener
	creds    func(*net.UnixConn) (cred, error)
	admins   int // the group whose members may change; noGroup: none
	all      atomic.Int32
	lookers  atomic.Int32
	refusals chan struct{} // a place for each client that is being told that there is none
	refuse   func(*net.UnixConn)
}

// client is an accepted connection with its credentials.
type client struct {
	*net.UnixConn
	cred    cred
	release func()
	once    sync.Once
}

func (c *client) Close() error {
	c.once.Do(c.release)
	return c.UnixConn.Close()
}

// Accept returns the next client within the limits; one past them is told so and closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
				time.Sleep(acceptPause)
				continue
			}
			return nil, err
		}
		who, err := l.creds(conn)
		if err != nil {
			conn.Close() // who cannot be known may do nothing
			continue
		}
		who.admin = who.in(l.admins)
		if c, ok := l.admit(conn, who); ok {
			return c, nil
		}
		l.turnAway(conn)
	}
}

// turnAway tells a client that it is one too many; when even that is done for many at once, it hears nothing.
func (l *listener) turnAway(conn *net.UnixConn) {
	select {
	case l.refusals <- struct{}{}:
	default:
		conn.Close()
		return
	}
	go func() {
		defer func() { <-l.refusals }()
		defer conn.Close()
		l.refuse(conn)
	}()
}

func (l *listener) admit(conn *net.UnixConn, who cred) (*client, bool) {
	if l.all.Load() >= maxClients || !who.master() && l.lookers.Load() >= maxLookers {
		return nil, false
	}
	l.all.Add(1)
	if !who.master() {
		l.lookers.Add(1)
	}
	return &client{UnixConn: conn, cred: who, release: func() {
		l.all.Add(-1)
		if !who.master() {
			l.lookers.Add(-1)
		}
	}}, true
}
