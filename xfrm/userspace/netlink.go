package userspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// netlink is a request socket of one netlink protocol: rules and policies of the kernel that no other package here speaks for.
type netlink struct {
	mu  sync.Mutex
	fd  int
	seq uint32
}

func openNetlink(protocol int) (*netlink, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, err
	}
	// Dumps are of what was asked for alone (Linux 4.20); older kernels list more.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	timeout := unix.NsecToTimeval(int64(5 * time.Second))
	err = errors.Join(unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &netlink{fd: fd}, nil
}

func (n *netlink) close() error { return unix.Close(n.fd) }

// request sends one message and calls each for every answer until the acknowledgement or the end of a dump.
func (n *netlink) request(kind uint16, flags uint16, body []byte, each func([]byte)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seq++
	m := make([]byte, unix.NLMSG_HDRLEN, unix.NLMSG_HDRLEN+len(body))
	m = append(m, body...)
	binary.NativeEndian.PutUint32(m, uint32(len(m)))
	binary.NativeEndian.PutUint16(m[4:], kind)
	binary.NativeEndian.PutUint16(m[6:], flags|unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(m[8:], n.seq)
	if err := unix.Sendto(n.fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	buf := make([]byte, 1<<16)
	for {
		got, from, err := unix.Recvfrom(n.fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if k, ok := from.(*unix.SockaddrNetlink); !ok || k.Pid != 0 {
			continue // not the kernel
		}
		if done, err := n.answers(buf[:got], each); done || err != nil {
			return err
		}
	}
}

func (n *netlink) answers(b []byte, each func([]byte)) (done bool, err error) {
	for len(b) >= unix.NLMSG_HDRLEN {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.NLMSG_HDRLEN || size > len(b) {
			return true, fmt.Errorf("netlink message of %d octets in %d", size, len(b))
		}
		kind, seq, body := binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint32(b[8:]), b[unix.NLMSG_HDRLEN:size]
		b = b[min(align4(size), len(b)):]
		switch {
		case seq != n.seq: // of an earlier request that timed out
		case kind == unix.NLMSG_DONE:
			return true, nil
		case kind == unix.NLMSG_ERROR && len(body) >= 4:
			if code := int32(binary.NativeEndian.Uint32(body)); code != 0 {
				return true, unix.Errno(-code)
			}
			return true, nil
		case each != nil:
			each(body)
		}
	}
	return false, nil
}

func align4(n int) int { return (n + 3) &^ 3 }

// attribute appends one netlink attribute.
func attribute(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(4+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	return append(b, make([]byte, align4(len(value))-len(value))...)
}

func attribute32(b []byte, kind uint16, value uint32) []byte {
	return attribute(b, kind, binary.NativeEndian.AppendUint32(nil, value))
}

// attributes calls each for those in b.
func attributes(b []byte, each func(kind uint16, value []byte)) {
	for len(b) >= 4 {
		size := int(binary.NativeEndian.Uint16(b))
		if size < 4 || size > len(b) {
			return
		}
		each(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[4:size])
		b = b[min(align4(size), len(b)):]
	}
}
