package netcfg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Watch tells when links, addresses or routes of a network namespace change.
type Watch struct {
	notices *os.File
	changed chan struct{}
}

// NewWatch listens in the namespace of the calling thread. Close ends it.
func NewWatch() (*Watch, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("netlink socket: %w", err)
	}
	groups := uint32(0)
	for _, g := range []int{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE} {
		groups |= 1 << (g - 1)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen to the kernel's notices of links, addresses and routes: %w", err)
	}
	w := &Watch{notices: os.NewFile(uintptr(fd), "netlink"), changed: make(chan struct{}, 1)}
	go w.listen()
	return w, nil
}

// Changed has one value, however many changes there were since it was last read. It is closed at the end.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Close ends the watch.
func (w *Watch) Close() error { return w.notices.Close() }

// listen: notices that did not fit into the socket (ENOBUFS) are a change too.
func (w *Watch) listen() {
	defer close(w.changed)
	buf := make([]byte, 1<<16)
	for {
		n, err := w.notices.Read(buf)
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		if err == nil && !matters(buf[:n]) {
			continue
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// matters reports whether one of the notices may concern the way to a peer. Routes of ours lead into tunnels, and a link tells of every change of
// its wireless neighbour; what counts of a link is whether it is there and up.
func matters(b []byte) bool {
	const headerLen, protocolAt = unix.NLMSG_HDRLEN, 5 // of struct rtmsg
	for len(b) >= headerLen {
		size := int(binary.NativeEndian.Uint32(b))
		if size < headerLen || size > len(b) {
			return false
		}
		body := b[headerLen:size]
		switch binary.NativeEndian.Uint16(b[4:]) {
		case unix.RTM_NEWADDR, unix.RTM_DELADDR, unix.RTM_DELLINK:
			return true
		case unix.RTM_NEWLINK:
			if len(body) >= unix.SizeofIfInfomsg && binary.NativeEndian.Uint32(body[12:]) != 0 { // ifi_change
				return true
			}
		case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
			if len(body) > protocolAt && body[protocolAt] != RouteProtocol {
				return true
			}
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return false
}
