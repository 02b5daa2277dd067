package userspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// device carries inner packets, one a call.
type device interface {
	// readAll waits until a packet is there, then calls take for each that can be read at once, with octets that are
	// overwritten by the next. It returns when there is none left or take returns false; an error is the end.
	readAll(take func([]byte) bool) error
	// write delivers one packet. It is safe for concurrent use.
	write([]byte) error
	Close() error
}

// maxPacket is the longest inner packet.
const maxPacket = 65535

// tun is a TUN device: packets without any header before them (IFF_NO_PI).
type tun struct {
	file *os.File
	raw  syscall.RawConn
	buf  [maxPacket]byte
	take func([]byte) bool
	err  error
	turn func(fd uintptr) bool // made once: a closure a call would be an allocation a call
}

func openTUN(name string) (*tun, error) {
	const path = "/dev/net/tun"
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, tunError(path, err)
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		unix.Close(fd)
		return nil, tunError(name, err)
	}
	// Only now: the netpoller takes a descriptor that can be waited for, and before TUNSETIFF it cannot.
	t := &tun{file: os.NewFile(uintptr(fd), path)}
	if t.raw, err = t.file.SyscallConn(); err != nil {
		t.file.Close()
		return nil, tunError(name, err)
	}
	t.turn = t.readTurn
	return t, nil
}

func tunError(what string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		hint = " (the kernel has no TUN: load the module tun, or give the container the device)"
	case errors.Is(err, fs.ErrPermission):
		hint = " (CAP_NET_ADMIN is needed)"
	case errors.Is(err, unix.EBUSY):
		hint = " (a device of that name is in use by another process)"
	}
	return fmt.Errorf("TUN device %s: %w%s", what, err, hint)
}

func (t *tun) readAll(take func([]byte) bool) error {
	t.take, t.err = take, nil
	if err := t.raw.Read(t.turn); err != nil {
		return err
	}
	return t.err
}

// readTurn is called by the netpoller when there may be packets; false means to wait.
func (t *tun) readTurn(fd uintptr) bool {
	for got := false; ; got = true {
		n, err := unix.Read(int(fd), t.buf[:])
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return got
		case err != nil:
			t.err = err
			return true
		case !t.take(t.buf[:n]):
			return true
		}
	}
}

func (t *tun) write(p []byte) error {
	_, err := t.file.Write(p)
	return err
}

func (t *tun) Close() error { return t.file.Close() }
