package transport

import (
	"errors"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"cygnet/ike"
)

// FaultOf says what an error of Send means for a message that was to leave from local.
func FaultOf(local netip.Addr, err error) ike.SendFault {
	noRoute := errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH)
	switch {
	// Which of these a foreign source gives depends on the kernel and the destination.
	case (noRoute || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EADDRNOTAVAIL)) && !ofHost(local):
		return ike.SendNoSource
	case noRoute:
		return ike.SendNoRoute
	case errors.Is(err, unix.EMSGSIZE):
		return ike.SendTooLarge
	}
	return ike.SendRefused
}

// ofHost asks the host whether an address is one of its own: only then can a socket be bound to it.
func ofHost(a netip.Addr) bool {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a.Unmap(), 0)))
	if err != nil {
		return !errors.Is(err, unix.EADDRNOTAVAIL)
	}
	c.Close()
	return true
}
