package userspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// device carries inner packets.
type device interface {
	// readAll waits until a packet is there, then calls take for each that can be read at once, with octets that may be changed, as may the
	// tailroom octets behind them, and that are overwritten by the next. It returns when there is none left or take returns false; an error is the
	// end. Without offloads each header is zero.
	readAll(take func(h vnet, p []byte) bool) error
	// write delivers one packet, which lies in at most maxParts parts. It is safe for concurrent use. h must be zero without offloads.
	write(h vnet, parts [][]byte) error
	offloads() offloads
	Close() error
}

const (
	// maxPacket is the longest inner packet, and the longest of several in one.
	maxPacket = 65535
	// maxParts of a packet that is written.
	maxParts = 256
	// headroom is before each packet that is read, and tailroom behind it, in octets.
	headroom, tailroom = 128, 128
)

// tun is a TUN device: packets with a vnet before them, if the kernel offers it, and without any other header (IFF_NO_PI).
type tun struct {
	file *os.File
	raw  syscall.RawConn
	have offloads

	// Of the one reader. The closures are made once: one a call would be an allocation a call.
	buf      [headroom + maxPacket + tailroom]byte
	take     func(vnet, []byte) bool
	readErr  error
	readTurn func(fd uintptr) bool

	writing   sync.Mutex
	header    [vnetLen]byte
	iov       [1 + maxParts]unix.Iovec
	vectors   int
	writeErr  error
	writeTurn func(fd uintptr) bool
}

// openTUN makes a device; plain is without offloads.
func openTUN(name string, plain bool) (*tun, error) {
	fd, have, err := -1, offloads{}, error(nil)
	if !plain {
		fd, have, err = attachOffloading(name)
	}
	if !have.header {
		fd, err = attachTUN(name, unix.IFF_TUN|unix.IFF_NO_PI)
	}
	if err != nil {
		return nil, err
	}
	// Only now: the netpoller takes a descriptor that can be waited for, and before TUNSETIFF it cannot.
	t := &tun{file: os.NewFile(uintptr(fd), tunPath), have: have}
	if t.raw, err = t.file.SyscallConn(); err != nil {
		t.file.Close()
		return nil, tunError(name, err)
	}
	t.readTurn, t.writeTurn = t.readSome, t.writeOne
	return t, nil
}

const tunPath = "/dev/net/tun"

// attachOffloading makes a device that hands out and takes several packets in one. It is without header, and made nothing, where the kernel refuses.
func attachOffloading(name string) (fd int, have offloads, err error) {
	fd, err = attachTUN(name, unix.IFF_TUN|unix.IFF_NO_PI|unix.IFF_VNET_HDR)
	if err != nil {
		return -1, offloads{}, err
	}
	// TUN_F_TSO_ECN is not among them: segments then all have the ECN bits of their super-packet (RFC 3168 section 6.1.2 asks for CWR once).
	const least = unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, least); err != nil {
		unix.Close(fd) // and with it the device
		return -1, offloads{}, err
	}
	have = offloads{header: true, tcp4: true, tcp6: true}
	have.udp = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, least|unix.TUN_F_USO4|unix.TUN_F_USO6) == nil
	return fd, have, nil
}

func attachTUN(name string, flags uint16) (fd int, err error) {
	fd, err = unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, tunError(tunPath, err)
	}
	ifr, err := unix.NewIfreq(name)
	if err == nil {
		ifr.SetUint16(flags)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		unix.Close(fd)
		return -1, tunError(name, err)
	}
	return fd, nil
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

func (t *tun) offloads() offloads { return t.have }

func (t *tun) readAll(take func(vnet, []byte) bool) error {
	t.take, t.readErr = take, nil
	if err := t.raw.Read(t.readTurn); err != nil {
		return err
	}
	return t.readErr
}

// readSome is called by the netpoller when there may be packets; false means to wait. The descriptor does not block, so the scheduler need not know of
// the system call.
func (t *tun) readSome(fd uintptr) bool {
	into := t.buf[headroom : headroom+maxPacket]
	if t.have.header {
		into = t.buf[headroom-vnetLen : headroom+maxPacket]
	}
	for got := false; ; {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&into[0])), uintptr(len(into)))
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return got
		case errno != 0:
			t.readErr = errno
			return true
		}
		got = true
		if !t.takeOne(into[:n]) {
			return true
		}
	}
}

func (t *tun) takeOne(b []byte) bool {
	if !t.have.header {
		return t.take(vnet{}, b)
	}
	if len(b) < vnetLen {
		return true // never
	}
	return t.take(parseVnet((*[vnetLen]byte)(b)), b[vnetLen:])
}

var errParts = errors.New("a packet in no or too many parts, or with a header that the device does not know")

func (t *tun) write(h vnet, parts [][]byte) error {
	if len(parts) > maxParts || h != (vnet{}) && !t.have.header {
		return errParts
	}
	t.writing.Lock()
	defer t.writing.Unlock()
	t.vectors = 0
	if t.have.header {
		h.put(&t.header)
		t.vector(t.header[:])
	}
	for _, p := range parts {
		if len(p) > 0 {
			t.vector(p)
		}
	}
	if t.vectors == 0 {
		return errParts
	}
	t.writeErr = nil
	err := t.raw.Write(t.writeTurn)
	clear(t.iov[:t.vectors]) // what they point to is the caller's again
	if err != nil {
		return err
	}
	return t.writeErr
}

func (t *tun) vector(b []byte) {
	t.iov[t.vectors].Base = &b[0]
	t.iov[t.vectors].SetLen(len(b))
	t.vectors++
}

// writeOne is called by the netpoller when a packet can be written; false means to wait.
func (t *tun) writeOne(fd uintptr) bool {
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&t.iov[0])), uintptr(t.vectors))
		switch {
		case errno == unix.EINTR:
			continue
		case errno == unix.EAGAIN:
			return false
		case errno != 0:
			t.writeErr = errno
		}
		return true
	}
}

func (t *tun) Close() error { return t.file.Close() }
