package transport

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	maxDatagram = 1 << 16 // of one datagram, and of several that the kernel has merged (UDP_GRO)
	// stride from buffer to buffer. A power of two would put the headers of all datagrams into the same few lines of the CPU's cache.
	stride = maxDatagram + 192
	// Buffers of a receive loop. One that few datagrams come by needs few.
	manyBuffers, fewBuffers = 32, 4
	// mostMessages of one system call.
	mostMessages = 16
	// A hold of buffers ends after so many reads or octets, so that nothing waits and the octets are still in the CPU's cache.
	holdReads, holdOctets = 4, 512 << 10
)

// mmsghdr is that of <sys/socket.h>.
type mmsghdr struct {
	unix.Msghdr
	length uint32
}

// batch reads the datagrams of one socket, several with one system call. What was read stays in its buffers until release: reads of one hold go one
// behind the other.
type batch struct {
	conn     syscall.RawConn
	messages []mmsghdr
	names    []unix.RawSockaddrInet6 // the longest there is
	controls [][oobSize]byte
	vectors  []unix.Iovec
	buffers  []byte

	used, reads, octets int // of this hold

	// Of the read that goes on. The closure is made once: one a call would be an allocation a call.
	turn  func(fd uintptr) bool
	wait  bool
	count int
	err   error
}

func newBatch(conn syscall.RawConn, n int) *batch {
	b := &batch{
		conn: conn, messages: make([]mmsghdr, n), names: make([]unix.RawSockaddrInet6, n), controls: make([][oobSize]byte, n),
		vectors: make([]unix.Iovec, n), buffers: make([]byte, n*stride),
	}
	for i := range b.messages {
		b.vectors[i].Base = &b.buffers[i*stride]
		b.vectors[i].SetLen(maxDatagram)
		m := &b.messages[i].Msghdr
		m.Name, m.Control, m.Iov = (*byte)(unsafe.Pointer(&b.names[i])), &b.controls[i][0], &b.vectors[i]
		m.SetIovlen(1)
	}
	b.turn = b.receive
	return b
}

// read takes what can be read at once, but not more than there is room for. It waits for the first datagram if wait is true; otherwise the answer may
// be none. The datagrams are those numbered from first on.
func (b *batch) read(wait bool) (first, n int, err error) {
	b.wait, b.count, b.err = wait, 0, nil
	if err := b.conn.Read(b.turn); err != nil {
		return 0, 0, err
	}
	first = b.used
	b.used += b.count
	b.reads++
	for i := first; i < b.used; i++ {
		b.octets += int(b.messages[i].length)
	}
	return first, b.count, b.err
}

// receive is called by the netpoller when there may be datagrams; false means to wait. The call does not block, so the scheduler need not know of it.
func (b *batch) receive(fd uintptr) bool {
	to := b.messages[b.used:min(b.used+mostMessages, len(b.messages))]
	for i := range to {
		to[i].Namelen = unix.SizeofSockaddrInet6
		to[i].SetControllen(oobSize)
	}
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&to[0])), uintptr(len(to)), unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			b.count = int(n)
			return true
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return !b.wait
		}
		b.err = errno
		return true
	}
}

// full reports whether the hold must end.
func (b *batch) full() bool {
	return b.used == len(b.messages) || b.reads >= holdReads || b.octets >= holdOctets
}

// release ends a hold: the next read begins with the first buffer again.
func (b *batch) release() { b.used, b.reads, b.octets = 0, 0, 0 }

// data of datagram i.
func (b *batch) data(i int) []byte {
	return b.buffers[i*stride:][:b.messages[i].length:maxDatagram]
}

// control messages of datagram i.
func (b *batch) control(i int) []byte {
	return b.controls[i][:min(int(b.messages[i].Controllen), oobSize)]
}

// from is the sender of datagram i.
func (b *batch) from(i int, z *zones) netip.AddrPort {
	name := &b.names[i]
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&name.Port))[:])
	if name.Family == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(name)).Addr), port)
	}
	a := netip.AddrFrom16(name.Addr).Unmap()
	if name.Scope_id != 0 {
		a = a.WithZone(z.name(name.Scope_id))
	}
	return netip.AddrPortFrom(a, port)
}
