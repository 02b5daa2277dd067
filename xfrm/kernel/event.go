package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"cygnet/xfrm"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// monitor turns the kernel's notices into events. It never drops one: when nobody reads, the kernel's buffer fills, the
// kernel drops, and the next event is a Gap.
type monitor struct {
	file   *os.File
	conn   syscall.RawConn
	events chan xfrm.Event
	closed chan struct{} // by close
	ended  chan struct{} // by run
}

const (
	eventQueue = 256
	// eventBuffer is the kernel's buffer for notices, in octets: some thousand of them.
	eventBuffer = 4 << 20
)

func openMonitor() (*monitor, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_XFRM)
	if err != nil {
		return nil, fmt.Errorf("open the kernel's XFRM notices: %w", err)
	}
	groups := uint32(1<<(nl.XFRMNLGRP_ACQUIRE-1) | 1<<(nl.XFRMNLGRP_EXPIRE-1) | 1<<(nl.XFRMNLGRP_MAPPING-1))
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, eventBuffer) != nil {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, eventBuffer)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("join the kernel's XFRM notices: %w", err)
	}
	m := &monitor{
		file: os.NewFile(uintptr(fd), "xfrm notices"), events: make(chan xfrm.Event, eventQueue),
		closed: make(chan struct{}), ended: make(chan struct{}),
	}
	if m.conn, err = m.file.SyscallConn(); err != nil {
		m.file.Close()
		return nil, fmt.Errorf("XFRM notices: %w", err)
	}
	return m, nil
}

// close ends run and then the channel of events.
func (m *monitor) close() {
	close(m.closed)
	m.file.Close()
	<-m.ended
}

func (m *monitor) run() {
	defer close(m.ended)
	defer close(m.events)
	buf := make([]byte, receiveRoom)
	lost := false
	for {
		n, err := m.receive(buf, !lost)
		switch {
		case err == nil:
			for _, e := range notices(buf[:n]) {
				if !m.deliver(e) {
					return
				}
			}
		case errors.Is(err, unix.ENOBUFS):
			// From here until its buffer is empty the kernel goes on dropping and does not say so again: the Gap must come
			// after that, or what is lost meanwhile is never repaired.
			lost = true
		case errors.Is(err, unix.EAGAIN):
			lost = false
			if !m.deliver(xfrm.Gap{}) {
				return
			}
		case errors.Is(err, unix.EINTR):
		default: // closed
			return
		}
	}
}

// receive reads one datagram of the kernel's; what others send to us counts as empty. EAGAIN: nothing is there and wait is
// false.
func (m *monitor) receive(buf []byte, wait bool) (n int, err error) {
	waitErr := m.conn.Read(func(fd uintptr) bool {
		var from unix.Sockaddr
		n, from, err = unix.Recvfrom(int(fd), buf, 0)
		if a, ok := from.(*unix.SockaddrNetlink); err == nil && (!ok || a.Pid != 0) {
			n = 0
		}
		return err != unix.EAGAIN || !wait
	})
	if waitErr != nil {
		return 0, waitErr
	}
	return n, err
}

func (m *monitor) deliver(e xfrm.Event) bool {
	select {
	case m.events <- e:
		return true
	case <-m.closed:
		return false
	}
}

// notices are the events of one datagram. A message that makes no sense is passed over.
func notices(b []byte) []xfrm.Event {
	var out []xfrm.Event
	for len(b) >= unix.SizeofNlMsghdr {
		n, kind := int(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint16(b[4:])
		if n < unix.SizeofNlMsghdr || n > len(b) {
			return out
		}
		if e := notice(kind, b[unix.SizeofNlMsghdr:n]); e != nil {
			out = append(out, e)
		}
		b = b[min(align(n), len(b)):]
	}
	return out
}

func notice(kind uint16, content []byte) xfrm.Event {
	switch kind {
	case nl.XFRM_MSG_ACQUIRE:
		return acquire(content)
	case nl.XFRM_MSG_EXPIRE:
		return expire(content)
	case nl.XFRM_MSG_MAPPING:
		return mapping(content)
	}
	return nil // POLEXPIRE shares a group with EXPIRE; our policies do not expire
}

const (
	acquireSelector = nl.SizeofXfrmId + nl.SizeofXfrmAddress           // offset in struct xfrm_user_acquire
	acquireSize     = 280                                              // of struct xfrm_user_acquire
	mappingSize     = nl.SizeofXfrmUsersaId + 4 + 2*16 + 4             // of struct xfrm_user_mapping
	mappingNew      = nl.SizeofXfrmUsersaId + 4 + nl.SizeofXfrmAddress // offset of its new_saddr
)

// acquire: a packet met a policy of ours whose SA is missing.
func acquire(content []byte) xfrm.Event {
	attrs, err := parseAttributes(content, acquireSize)
	tmpl := attrs[nl.XFRMA_TMPL]
	if err != nil || len(tmpl) < nl.SizeofXfrmUserTmpl {
		return nil
	}
	reqid := nl.DeserializeXfrmUserTmpl(tmpl).Reqid
	if !ourReqID(reqid) {
		return nil
	}
	sel := *nl.DeserializeXfrmSelector(content[acquireSelector:])
	return xfrm.Acquire{ReqID: reqid, Selector: selectorOf(&sel)}
}

// expire: an SA of ours has reached a limit. The soft packet limit of one packet stands for "tell me the first use"
// (see FirstUsePackets).
func expire(content []byte) xfrm.Event {
	if len(content) < nl.SizeofXfrmUserExpire {
		return nil
	}
	x := *nl.DeserializeXfrmUserExpire(content)
	s := sastate{info: &x.XfrmUsersaInfo}
	switch {
	case !s.ours():
		return nil
	case x.Hard == 0 && s.info.Lft.SoftPacketLimit == FirstUsePackets:
		return xfrm.FirstUse{ID: s.id()}
	}
	return xfrm.Expire{ID: s.id(), Hard: x.Hard != 0}
}

// mapping: authenticated packets of an SA of ours come from another address or port.
func mapping(content []byte) xfrm.Event {
	if len(content) < mappingSize {
		return nil
	}
	id := nl.DeserializeXfrmUsersaId(content)
	if reqid := binary.NativeEndian.Uint32(content[nl.SizeofXfrmUsersaId:]); !ourReqID(reqid) {
		return nil
	}
	from := addressOf(nl.XfrmAddress(content[mappingNew:mappingNew+16]), id.Family)
	return xfrm.Mapping{
		ID:   xfrm.SAID{Dst: addressOf(id.Daddr, id.Family), SPI: ntohl(id.Spi), Proto: id.Proto},
		From: netip.AddrPortFrom(from, binary.BigEndian.Uint16(content[mappingSize-2:])),
	}
}
