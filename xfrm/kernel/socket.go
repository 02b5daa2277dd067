package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket carries requests to the kernel's XFRM in the network namespace of the thread that opened it.
//
// It is our own and not netlink's NetlinkSocket because keys pass through it in both directions (the kernel gives
// them back with every SA, and with every error unless told otherwise): here each buffer is wiped.
type socket struct {
	mu  sync.Mutex
	fd  int
	seq uint32
	buf []byte
}

// receiveRoom is what the kernel at most puts into one datagram of a dump (32 KiB), with room to spare.
const receiveRoom = 64 << 10

// answerTimeout bounds the wait for an answer. The kernel answers before send returns: it is never reached.
var answerTimeout = unix.Timeval{Sec: 10}

func openSocket() (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_XFRM)
	if err != nil {
		return nil, fmt.Errorf("the kernel has no XFRM (module xfrm_user): %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("bind the XFRM socket: %w", err)
	}
	unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &answerTimeout)
	// Reasons in words, and errors that do not repeat the request with its keys. Old kernels do without.
	unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, 1)
	unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1)
	return &socket{fd: fd, buf: make([]byte, receiveRoom)}, nil
}

func (s *socket) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	fd := s.fd
	if s.fd = -1; fd < 0 {
		return nil
	}
	return unix.Close(fd)
}

// errClosed is returned by every request after close.
var errClosed = errors.New("the driver is closed")

// do sends r, wipes it, and calls each (which may be nil) with the type and content of every message of the answer.
// The content is wiped when each returns.
func (s *socket) do(r *request, each func(kind uint16, content []byte) error) error {
	defer r.wipe()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return errClosed
	}
	s.seq++
	if err := unix.Sendto(s.fd, r.seal(s.seq), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("send to the kernel: %w", err)
	}
	var failed error
	for {
		n, _, err := unix.Recvfrom(s.fd, s.buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("the kernel's answer: %w", err)
		}
		done, err := s.answer(s.buf[:n], each, &failed)
		clear(s.buf[:n])
		if err != nil {
			return err
		}
		if done {
			return failed
		}
	}
}

// answer goes through the messages of one datagram; done after the last message of the whole answer. An error of
// each is kept in failed while the rest is drained.
func (s *socket) answer(b []byte, each func(uint16, []byte) error, failed *error) (done bool, err error) {
	for len(b) >= unix.SizeofNlMsghdr {
		n := int(binary.NativeEndian.Uint32(b))
		kind, flags := binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:])
		if n < unix.SizeofNlMsghdr || n > len(b) {
			return true, errShort
		}
		content := b[unix.SizeofNlMsghdr:n]
		mine := binary.NativeEndian.Uint32(b[8:]) == s.seq
		b = b[min(align(n), len(b)):]
		switch {
		case !mine:
		case kind == unix.NLMSG_ERROR || kind == unix.NLMSG_DONE:
			return true, answerError(kind, flags, content)
		default:
			if each != nil && *failed == nil {
				*failed = each(kind, content)
			}
			if flags&unix.NLM_F_DUMP_INTR != 0 && *failed == nil {
				*failed = errInterrupted
			}
			if flags&unix.NLM_F_MULTI == 0 {
				done = true // a single answer; its acknowledgement, if any, is skipped by its sequence number
			}
		}
	}
	return done, nil
}

// errInterrupted: the table changed under a dump, which then is not consistent.
var errInterrupted = errors.New("the kernel's table changed while it was listed")

// nlmsgerrAttrMsg is NLMSGERR_ATTR_MSG: the kernel's reason in words.
const nlmsgerrAttrMsg = 1

func answerError(kind, flags uint16, content []byte) error {
	if len(content) < 4 {
		if kind == unix.NLMSG_DONE {
			return nil
		}
		return errShort
	}
	errno := syscall.Errno(-int32(binary.NativeEndian.Uint32(content)))
	if errno == 0 {
		return nil
	}
	e := &kernelError{errno: errno}
	if flags&unix.NLM_F_ACK_TLVS != 0 {
		fixed := 4
		if kind == unix.NLMSG_ERROR {
			if fixed += unix.SizeofNlMsghdr; flags&unix.NLM_F_CAPPED == 0 && len(content) >= 8 {
				fixed = 4 + align(int(binary.NativeEndian.Uint32(content[4:])))
			}
		}
		if a, err := parseAttributes(content, fixed); err == nil {
			e.reason = unix.ByteSliceToString(a[nlmsgerrAttrMsg])
		}
	}
	return e
}

// kernelError is an error of the kernel with its reason in words, when it gave one.
type kernelError struct {
	errno  syscall.Errno
	reason string
}

func (e *kernelError) Unwrap() error { return e.errno }

func (e *kernelError) Error() string {
	if e.reason == "" {
		return e.errno.Error()
	}
	return fmt.Sprintf("%v (the kernel says: %s)", e.errno, e.reason)
}
