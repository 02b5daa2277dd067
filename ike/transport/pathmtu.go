package transport

import (
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// PathMTU asks the host how long an IP packet from local to remote may be, in octets: as its link takes them, or as much shorter as the kernel has learnt
// that a path takes. Whether to believe a router that says so, how small it may get and for how long it stands is the kernel's to judge, by the
// packet that the router quotes and by net.ipv4.route.min_pmtu and mtu_expires (RFC 4301 section 8.2). Nothing is sent.
func PathMTU(local, remote netip.Addr) (int, error) {
	f, err := pathFamily(local, remote)
	if err != nil {
		return 0, err
	}
	d := net.Dialer{Control: controlled(func(fd int) error { setMark(fd); return nil })}
	if local.IsValid() && !local.IsUnspecified() {
		d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(local.Unmap(), 0))
	}
	conn, err := d.Dial(f.udp, netip.AddrPortFrom(remote.Unmap(), 4500).String())
	if err != nil {
		return 0, fmt.Errorf("path MTU to %s: %w", remote, cause(err))
	}
	defer conn.Close()
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	option := unix.IP_MTU
	if f == ipv6 {
		option = unix.IPV6_MTU
	}
	mtu := 0
	if outer := raw.Control(func(fd uintptr) { mtu, err = unix.GetsockoptInt(int(fd), f.level, option) }); outer != nil {
		err = outer
	}
	if err != nil {
		return 0, fmt.Errorf("path MTU to %s: %w", remote, err)
	}
	return mtu, nil
}
