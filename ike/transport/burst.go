package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"cygnet/xfrm"
)

const (
	// A run of datagrams goes to the kernel as one (UDP_SEGMENT, Linux 4.18): so many segments at most since Linux 6.9, and before.
	maxSegments, oldMaxSegments = 128, 64
	// maxRun is what a UDP datagram of IPv4 holds, in octets; the kernel measures a run by it.
	maxRun = 65507
	// maxMessages of one system call.
	maxMessages = 64
	// refusalStands is how long a path whose run was refused gets single datagrams.
	refusalStands = 30 * time.Second
)

// outlet sends bursts by one socket. It is safe for concurrent use: senders do not wait for each other.
type outlet struct {
	conn     syscall.RawConn
	domain   uint16
	jobs     sync.Pool // of *job
	segments atomic.Int32
	refused  refusals
}

// newOutlet; runs says whether the socket may be given several datagrams as one.
func newOutlet(conn syscall.RawConn, domain uint16, runs bool) *outlet {
	o := &outlet{conn: conn, domain: domain}
	o.jobs.New = func() any { return newJob() }
	if runs {
		o.segments.Store(maxSegments)
	}
	return o
}

// segments reports whether the kernel knows UDP_SEGMENT. What a path takes of it is found by sending.
func segments(conn syscall.RawConn) bool {
	err := unix.ENOPROTOOPT
	if conn.Control(func(fd uintptr) {
		_, e := unix.GetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_SEGMENT)
		err, _ = e.(unix.Errno)
	}) != nil {
		return false
	}
	return err == 0
}

// send all packets of a burst. It goes on after one that the kernel refuses and returns the first such error.
func (o *outlet) send(b *xfrm.Burst) error {
	j := o.jobs.Get().(*job)
	defer o.jobs.Put(j)
	defer j.forget()
	remote := netip.AddrPortFrom(b.Remote.Addr().Unmap(), b.Remote.Port())
	j.address(remote)
	size := 0 // of the segments; 0: single datagrams
	if b.Run && len(b.Packets) > 1 && o.segments.Load() > 0 && joined(b.Packets) && !o.refused.has(remote.Addr()) {
		size = len(b.Packets[0])
	}
	var first error
	for rest := b.Packets; len(rest) > 0; {
		j.controls.n = 0
		j.controls.source(b.Local.Addr().Unmap())
		j.controls.class(o.domain, b.TOS)
		j.controls.segment(size)
		j.load(rest, size, int(o.segments.Load()))
		sent, err := j.transmit(o.conn)
		rest = rest[sent:]
		if err == nil {
			continue
		}
		failed := j.failed()
		switch {
		case size > 0 && err == unix.EINVAL && failed > oldMaxSegments:
			o.segments.Store(oldMaxSegments)
		case size > 0 && (err == unix.EINVAL || err == unix.EMSGSIZE || err == unix.EIO):
			// Longer than the path carries, or a device on the way that makes no checksums: single datagrams may be fragmented.
			o.refused.add(remote.Addr(), time.Now())
			size = 0
		default:
			if first == nil {
				first = fmt.Errorf("send %d octets of ESP to %s from %s: %w", len(rest[0]), b.Remote, b.Local, err)
			}
			if !passing(err) {
				return first
			}
			rest = rest[failed:]
		}
	}
	return first
}

// passing errors are of one datagram.
func passing(err error) bool {
	var errno unix.Errno
	return errors.As(err, &errno)
}

// joined reports whether the packets are what xfrm.Burst calls a run.
func joined(packets [][]byte) bool {
	run := packets[0][:cap(packets[0])]
	size, last := len(packets[0]), len(packets)-1
	for k, p := range packets {
		n := len(p)
		if n == 0 || n > len(run) || &p[0] != &run[0] || n > size || n < size && k != last {
			return false
		}
		run = run[n:]
	}
	return true
}

// job is one system call: messages to one destination with the same control messages.
type job struct {
	messages [maxMessages]mmsghdr
	vectors  [maxMessages]unix.Iovec
	packets  [maxMessages]int // in each message
	count    int              // messages
	done     int              // messages that are sent
	errno    unix.Errno

	to4   unix.RawSockaddrInet4
	to6   unix.RawSockaddrInet6
	name  *byte
	nameN uint32

	controls controls

	try  func(fd uintptr)
	wait func(fd uintptr) bool
}

// newJob makes the closures once: one a call would be an allocation a call.
func newJob() *job {
	j := new(job)
	j.try = func(fd uintptr) { j.push(fd) }
	j.wait = func(fd uintptr) bool { j.push(fd); return j.errno != unix.EAGAIN }
	return j
}

// address of all messages.
func (j *job) address(to netip.AddrPort) {
	port := [2]byte{byte(to.Port() >> 8), byte(to.Port())}
	if to.Addr().Is4() {
		j.to4 = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: binary.NativeEndian.Uint16(port[:]), Addr: to.Addr().As4()}
		j.name, j.nameN = (*byte)(unsafe.Pointer(&j.to4)), unix.SizeofSockaddrInet4
		return
	}
	j.to6 = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: binary.NativeEndian.Uint16(port[:]), Addr: to.Addr().As16(), Scope_id: scope(to.Addr().Zone())}
	j.name, j.nameN = (*byte)(unsafe.Pointer(&j.to6)), unix.SizeofSockaddrInet6
}

// scope is the number of a zone; 0: none, or not there any more, which the kernel will say.
func scope(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n)
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0
	}
	return uint32(i.Index)
}

// load as many packets as fit: one a message, or with a segment size as many as the kernel takes as one.
func (j *job) load(packets [][]byte, size, segments int) {
	j.count, j.done = 0, 0
	for len(packets) > 0 && j.count < maxMessages {
		n, octets := 1, len(packets[0])
		if size > 0 {
			n = min(len(packets), segments, max(1, maxRun/size))
			octets = (n-1)*len(packets[0]) + len(packets[n-1])
		}
		v := &j.vectors[j.count]
		v.Base = unsafe.SliceData(packets[0])
		v.SetLen(octets)
		j.packets[j.count] = n
		m := &j.messages[j.count].Msghdr
		*m = unix.Msghdr{Name: j.name, Namelen: j.nameN, Iov: v}
		m.SetIovlen(1)
		if oob := j.controls.bytes(); len(oob) > 0 {
			m.Control = &oob[0]
			m.SetControllen(len(oob))
		}
		packets = packets[n:]
		j.count++
	}
}

// transmit returns how many packets were sent, and the error of the message after them.
func (j *job) transmit(conn syscall.RawConn) (sent int, err error) {
	// Control, unlike Write, does not keep other senders waiting.
	err = conn.Control(j.try)
	if err == nil && j.errno == unix.EAGAIN {
		err = conn.Write(j.wait) // until the socket's buffer has room
	}
	for _, n := range j.packets[:j.done] {
		sent += n
	}
	if err == nil && j.errno != 0 {
		err = j.errno
	}
	return sent, err
}

// push what is left. The descriptor does not block, so the scheduler need not know of the system call.
func (j *job) push(fd uintptr) {
	for j.errno = 0; j.done < j.count; {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&j.messages[j.done])), uintptr(j.count-j.done), unix.MSG_DONTWAIT, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			j.errno = errno
			return
		}
		j.done += int(n)
	}
}

// failed is how many packets the message has at which transmit stopped.
func (j *job) failed() int { return j.packets[j.done] }

// forget what the messages point to: it is the caller's again.
func (j *job) forget() {
	for i := range j.vectors[:j.count] {
		j.vectors[i].Base = nil
	}
}
