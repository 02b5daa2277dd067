// Package transport opens and owns the UDP sockets 500 and 4500 (and raw ESP where asked), one set per local address family, and their receive loops.
// It adds and takes off the non-ESP marker, controls source addresses, exempts its sockets from IPsec policy, and gives bursts of ESP to the data
// plane's function.
package transport

import (
	"net/netip"

	"cygnet/ike"
	"cygnet/xfrm"
)

// Config of the sockets.
type Config struct {
	Port, NATTPort uint16
	// KernelESP sets UDP_ENCAP on the NAT traversal sockets: the kernel takes ESP.
	KernelESP bool
	// PlainESP opens raw sockets for IP protocol 50 (userspace ESP without encapsulation).
	PlainESP bool
	// IKE is called for each IKE message by a receive loop. The octets belong to the callee.
	IKE func(ike.Packet)
	// ESP is called for each burst of ESP; nil drops it. See xfrm.Burst for ownership.
	ESP func(*xfrm.Burst)
}

// Transport is safe for concurrent use.
type Transport struct{}

// Open binds the sockets. A port in use is an error that names the port and, where it can be read from /proc, the process that holds it.
func Open(c Config) (*Transport, error) { panic("contract") }

// Send sends an IKE message from path.Local; with the non-ESP marker when Local.Port is the NAT traversal port.
func (t *Transport) Send(p ike.Path, data []byte) error { panic("contract") }

// Keepalive sends the one octet of RFC 3948 section 2.3.
func (t *Transport) Keepalive(p ike.Path) error { panic("contract") }

// SendESP sends ESP packets: in UDP from and to the ports of the burst, or plain when they are 0.
func (t *Transport) SendESP(b *xfrm.Burst) error { panic("contract") }

// SourceFor asks the host which address it would use towards remote.
func SourceFor(remote netip.Addr) (netip.Addr, error) { panic("contract") }

func (t *Transport) Close() error { panic("contract") }
