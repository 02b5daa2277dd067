package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// family of addresses: its names in package net and the options that are spelt differently.
type family struct {
	udp, ip, any        string
	level               int // of setsockopt
	pktinfo             int // ask for the address that a packet reached
	policy              int // IPsec policy of the socket
	discover            int // path MTU discovery
	tos                 int // ask for the traffic class of a packet
	domain              uint16
	discoverOff, v6only int
}

var (
	ipv4 = family{udp: "udp4", ip: "ip4:50", any: "0.0.0.0", level: unix.IPPROTO_IP, pktinfo: unix.IP_PKTINFO,
		policy: unix.IP_XFRM_POLICY, discover: unix.IP_MTU_DISCOVER, discoverOff: unix.IP_PMTUDISC_DONT, domain: unix.AF_INET,
		tos: unix.IP_RECVTOS}
	ipv6 = family{udp: "udp6", ip: "ip6:50", any: "::", level: unix.IPPROTO_IPV6, pktinfo: unix.IPV6_RECVPKTINFO,
		policy: unix.IPV6_XFRM_POLICY, discover: unix.IPV6_MTU_DISCOVER, discoverOff: unix.IPV6_PMTUDISC_DONT, domain: unix.AF_INET6, v6only: 1,
		tos: unix.IPV6_RECVTCLASS}
	families = [...]family{ipv4, ipv6}
)

// bufferSize of the sockets in octets: some 4000 ESP packets, or what comes in while all CPUs are busy for some milliseconds.
const bufferSize = 7 << 20

type udpSocket struct {
	conn *net.UDPConn
	family
	port uint16
	natt bool
	many bool // ESP comes by it
	out  *outlet

	queue *udpSocket // of the same port, for IKE (ikequeue.go); nil: there is none
}

// forIKE is the socket by which IKE messages leave that port.
func (s *udpSocket) forIKE() *udpSocket {
	if s.queue != nil {
		return s.queue
	}
	return s
}

func (t *Transport) openUDP(f family, port uint16) (*udpSocket, error) {
	s := &udpSocket{family: f, port: port, natt: port == t.config.NATTPort}
	s.many = s.natt && !t.config.KernelESP
	if err := t.bind(s, func(fd int) error { return nil }); err != nil {
		return nil, bindError(f, port, s.natt, cause(err))
	}
	return s, nil
}

// bind opens the socket of s; also sets what the caller wants besides.
func (t *Transport) bind(s *udpSocket, also func(fd int) error) error {
	lc := net.ListenConfig{Control: controlled(func(fd int) error {
		if s.many {
			receiveMany(fd)
		}
		return errors.Join(t.options(fd, s.family, s.natt), also(fd))
	})}
	pc, err := lc.ListenPacket(context.Background(), s.udp, net.JoinHostPort(s.any, fmt.Sprint(s.port)))
	if err == nil {
		s.conn = pc.(*net.UDPConn)
	}
	return err
}

// receiveMany lets the kernel hand out datagrams of one sender, one length and one traffic class as one (Linux 5.0). Those without UDP checksum, as
// RFC 3948 wants them, it never merges.
func receiveMany(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) }

// options of one socket. What only a privileged process may set is tried; what it means to fail is said in a note.
func (t *Transport) options(fd int, f family, natt bool) error {
	if err := unix.SetsockoptInt(fd, f.level, f.pktinfo, 1); err != nil {
		return fmt.Errorf("packet information: %w", err)
	}
	if f.v6only != 0 {
		if err := unix.SetsockoptInt(fd, f.level, unix.IPV6_V6ONLY, 1); err != nil {
			return fmt.Errorf("IPV6_V6ONLY: %w", err)
		}
	}
	// The ECN bits (RFC 6040). Where they are not told, none are set.
	_ = unix.SetsockoptInt(fd, f.level, f.tos, 1)
	// The last resort of a large IKE message is IP fragmentation: DF stays clear.
	if err := unix.SetsockoptInt(fd, f.level, f.discover, f.discoverOff); err != nil {
		return fmt.Errorf("path MTU discovery: %w", err)
	}
	setBuffers(fd)
	if !t.config.KernelESP {
		setMark(fd)
	}
	if err := bypass(fd, f); err != nil {
		if t.config.KernelESP {
			return fmt.Errorf("exempt the socket from IPsec policy (needs CAP_NET_ADMIN): %w", err)
		}
		t.note(fmt.Sprintf("sockets are not exempt from the kernel's IPsec policies (%v)", err))
	}
	if natt && t.config.KernelESP {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_ENCAP, unix.UDP_ENCAP_ESPINUDP); err != nil {
			return fmt.Errorf("the kernel does not take ESP in UDP: %w", err)
		}
	}
	return nil
}

func setBuffers(fd int) {
	for _, option := range [...]struct{ force, plain int }{{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}, {unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, option.force, bufferSize) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option.plain, bufferSize) // clipped at net.core.[rw]mem_max
		}
	}
}

// setMark needs CAP_NET_ADMIN; without it nobody could have made the routes that it is to avoid.
func setMark(fd int) { _ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, Mark) }

// bypass sets `allow` as the socket's own IPsec policy both ways: IKE is never subject to what it negotiates
// (RFC 4301 section 5.2).
func bypass(fd int, f family) error {
	const (
		infoLen             = 168 // struct xfrm_userpolicy_info of <linux/xfrm.h>
		offFamily, offDir   = 40, 160
		policyIn, policyOut = 0, 1
	)
	for _, dir := range []byte{policyIn, policyOut} {
		var info [infoLen]byte
		binary.NativeEndian.PutUint16(info[offFamily:], f.domain)
		info[offDir] = dir // the action after it is 0: allow
		if err := unix.SetsockoptString(fd, f.level, f.policy, string(info[:])); err != nil {
			return err
		}
	}
	return nil
}

// controlled adapts f to the Control hooks of package net.
func controlled(f func(fd int) error) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if outer := c.Control(func(fd uintptr) { err = f(int(fd)) }); outer != nil {
			return outer
		}
		return err
	}
}

// noFamily: the host has no such address family (ipv6.disable=1).
func noFamily(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// bindError says what to change.
func bindError(f family, port uint16, natt bool, err error) error {
	key := "port"
	if natt {
		key = "natt_port"
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		who := "another process"
		if h, ok := holder("/proc", port); ok {
			who = h.String()
		}
		return fmt.Errorf("UDP port %d on %s is in use by %s: stop it, or set %s to another port under [daemon] in cygnet.toml: %w", port, f.any, who, key, err)
	case errors.Is(err, os.ErrPermission) && port < 1024:
		return fmt.Errorf("UDP port %d on %s: %w: start as root or with CAP_NET_BIND_SERVICE", port, f.any, err)
	}
	return fmt.Errorf("UDP port %d on %s: %w", port, f.any, err)
}
