package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// udpBatch is how many datagrams one system call sends or receives.
const udpBatch = 64

// udpHeaders of IPv4 and UDP in octets.
const udpHeaders = 20 + 8

// mmsghdr is struct mmsghdr of <sys/socket.h>.
type mmsghdr struct {
	unix.Msghdr
	len uint32
	_   [4]byte
}

// StartUDP sends datagrams of size octets of payload from one namespace to an address of another, pps of them in a second, or as many as can be when pps is 0. Each
// is a datagram of its own to the kernel, as those of most programs are: no segmentation offload.
func StartUDP(from, to *Namespace, addr netip.Addr, size int, pps float64) (*Flow, error) {
	in, port, err := udpReceiver(to, addr)
	if err != nil {
		return nil, fmt.Errorf("UDP receiver: %w", err)
	}
	out, err := udpSender(from, netip.AddrPortFrom(addr, port))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("UDP sender: %w", err), unix.Close(in))
	}
	f := newFlow()
	sent := make(chan struct{})
	f.running.Go(func() {
		defer unix.Close(out)
		defer close(sent)
		f.fail(f.send(out, size, pps))
	})
	f.running.Go(func() {
		defer unix.Close(in)
		f.fail(f.receive(in, sent))
	})
	return f, nil
}

func udpReceiver(n *Namespace, addr netip.Addr) (fd int, port uint16, err error) {
	err = n.Do(func() error {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		drained := unix.NsecToTimeval(int64(udpDrain))
		err := errors.Join(
			unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20),
			unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &drained),
			unix.Bind(fd, &unix.SockaddrInet4{Addr: addr.As4()}))
		if err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		name, err := unix.Getsockname(fd)
		if err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		port = uint16(name.(*unix.SockaddrInet4).Port)
		return nil
	})
	return fd, port, err
}

func udpSender(n *Namespace, to netip.AddrPort) (fd int, err error) {
	err = n.Do(func() error {
		if fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())}); err != nil {
			return errors.Join(err, unix.Close(fd))
		}
		return nil
	})
	return fd, err
}

// batch makes headers of udpBatch datagrams; all of them share one buffer.
func batch(buffer []byte) []mmsghdr {
	iov := &unix.Iovec{Base: &buffer[0]}
	iov.SetLen(len(buffer))
	m := make([]mmsghdr, udpBatch)
	for i := range m {
		m[i].Iov = iov
		m[i].SetIovlen(1)
	}
	return m
}

const (
	// udpPause is how long a paced sender sleeps between its batches.
	udpPause = 200 * time.Microsecond
	// udpDrain is how long the receiver waits, after the last was sent, for what is still on its way.
	udpDrain = 100 * time.Millisecond
)

func (f *Flow) send(fd, size int, pps float64) error {
	m := batch(make([]byte, size))
	begun, sent := time.Now(), int64(0)
	for !f.stopped() {
		n := udpBatch
		if pps > 0 {
			due := int64(pps*time.Since(begun).Seconds()) - sent
			if due <= 0 {
				time.Sleep(udpPause)
				continue
			}
			n = min(n, int(due))
		}
		done, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m[0])), uintptr(n), 0, 0, 0)
		switch errno {
		case 0:
		case unix.EINTR, unix.ENOBUFS, unix.EAGAIN:
			continue
		default:
			return fmt.Errorf("send UDP: %w", errno)
		}
		sent += int64(done)
		f.sent.Store(sent)
	}
	return nil
}

// receive counts datagrams until none has come for udpDrain after the sender's end. What is in them is not copied: MSG_TRUNC tells their length.
func (f *Flow) receive(fd int, sent <-chan struct{}) error {
	m := batch(make([]byte, 64))
	for {
		n, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, uintptr(fd), uintptr(unsafe.Pointer(&m[0])), udpBatch, unix.MSG_WAITFORONE|unix.MSG_TRUNC, 0, 0)
		switch errno {
		case 0:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			select {
			case <-sent:
				return nil
			default:
				continue
			}
		default:
			return fmt.Errorf("receive UDP: %w", errno)
		}
		octets := int64(0)
		for i := range m[:n] {
			octets += int64(m[i].len)
		}
		f.octets.Add(octets)
		f.packets.Add(int64(n))
	}
}
