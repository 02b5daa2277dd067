// Package transport opens and owns the UDP sockets 500 and 4500 (and raw ESP where asked), one set per local address family, and their receive loops.
// It adds and takes off the non-ESP marker, controls source addresses, exempts its sockets from IPsec policy, and gives bursts of ESP to the data
// plane's function. It knows nothing of what an IKE message or an SA means.
//
// Datagrams are read many at a time (recvmmsg), and where the kernel can (UDP_GRO) many as one: that is worth a factor of six for each. Peers that send
// no UDP checksum, as RFC 3948 section 2.1 wants it, are never merged, so both ways must be fast. A loop waits with Go's netpoller and reads without
// telling the scheduler of the system call, which does not block. What it has read it hands on as bursts, IKE before ESP, and while the next read
// brings more the receiver may hold packets back (xfrm.Burst.More); a hold ends after four reads, half a megabyte, or as soon as nothing is there.
//
// Sources: RFC 7296 sections 2 and 2.23 (ports), RFC 3948 (UDP encapsulation), RFC 3542 and ip(7) (packet information).
package transport

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"cygnet/ike"
	"cygnet/xfrm"
)

// Mark is the firewall mark of our own packets when ESP is done in userspace: routing rules send what bears it past the
// routes into the TUN, so that ESP for a peer whose address lies inside its own remote selector does not loop.
const Mark = 0x4359 // "CY"

// Config of the sockets.
type Config struct {
	Port, NATTPort uint16
	// KernelESP sets UDP_ENCAP on the NAT traversal sockets: the kernel takes ESP.
	KernelESP bool
	// PlainESP opens raw sockets for IP protocol 50 (userspace ESP without encapsulation).
	PlainESP bool
	// IKE is called for each IKE message by a receive loop. The octets belong to the callee.
	IKE func(ike.Packet)
	// ESP makes a receiver for one receive loop, which calls it for each burst of ESP; nil drops it. See xfrm.Burst for ownership. Receivers of
	// different loops are called at the same time.
	ESP func() func(*xfrm.Burst)
}

// Transport is safe for concurrent use.
type Transport struct {
	config  Config
	udp     []*udpSocket
	raw     []*rawSocket
	notes   []string
	loops   sync.WaitGroup
	dropped counters
}

// Open binds the sockets. A port in use is an error that names the port and, where it can be read from /proc, the process that holds it.
func Open(c Config) (*Transport, error) {
	if c.Port == 0 || c.NATTPort == 0 || c.Port == c.NATTPort {
		return nil, fmt.Errorf("IKE port %d and NAT traversal port %d: two different ports from 1 to 65535 are needed", c.Port, c.NATTPort)
	}
	if c.IKE == nil {
		return nil, errors.New("transport: no receiver of IKE messages")
	}
	t := &Transport{config: c}
	if err := t.open(); err != nil {
		t.Close()
		return nil, err
	}
	if err := t.start(); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// start the receive loops.
func (t *Transport) start() error {
	var loops []*loop
	for _, s := range t.udp {
		conn, err := s.conn.SyscallConn()
		if err != nil {
			return err
		}
		runs := s.natt && segments(conn)
		if s.natt && !runs {
			t.note("the kernel does not send several datagrams as one (UDP_SEGMENT, Linux 4.18): sending ESP is slower")
		}
		s.out = newOutlet(conn, s.domain, runs)
		buffers := fewBuffers
		if s.many {
			buffers = manyBuffers
		}
		loops = append(loops, t.newLoop(conn, buffers, s.port, s.classify))
	}
	for _, s := range t.raw {
		conn, err := s.conn.SyscallConn()
		if err != nil {
			return err
		}
		s.out = newOutlet(conn, s.domain, false)
		loops = append(loops, t.newLoop(conn, manyBuffers, 0, s.classify))
	}
	for _, l := range loops {
		t.loops.Go(l.run)
	}
	return nil
}

func (t *Transport) open() error {
	for _, f := range families {
		if err := t.openFamily(f); err != nil {
			if f == ipv6 && noFamily(err) {
				t.note("this host has no IPv6: only IPv4 sockets are open")
				return nil
			}
			return err
		}
	}
	return nil
}

func (t *Transport) openFamily(f family) error {
	for _, port := range []uint16{t.config.Port, t.config.NATTPort} {
		s, err := t.openUDP(f, port)
		if err != nil {
			return err
		}
		t.udp = append(t.udp, s)
		if s.many {
			t.openIKEQueue(s)
		}
	}
	if !t.config.PlainESP {
		return nil
	}
	s, err := t.openRaw(f)
	if err != nil {
		return err
	}
	t.raw = append(t.raw, s)
	return nil
}

// note keeps what the operator should know although it stops nothing; equal notes are kept once.
func (t *Transport) note(text string) {
	for _, n := range t.notes {
		if n == text {
			return
		}
	}
	t.notes = append(t.notes, text)
}

// Notes are lines for the log: what the host did not grant and what follows from it.
func (t *Transport) Notes() []string { return t.notes }

// Close closes the sockets and waits until the receive loops have ended. It must not be called by Config.IKE or Config.ESP.
func (t *Transport) Close() error {
	var errs []error
	for _, s := range t.udp {
		errs = append(errs, s.conn.Close())
	}
	for _, s := range t.raw {
		errs = append(errs, s.conn.Close())
	}
	t.loops.Wait()
	return errors.Join(errs...)
}

// SourceFor asks the host which address it would use towards remote. Nothing is sent.
func SourceFor(remote netip.Addr) (netip.Addr, error) {
	d := net.Dialer{Control: controlled(func(fd int) error { setMark(fd); return nil })}
	conn, err := d.Dial("udp", netip.AddrPortFrom(remote.Unmap(), 500).String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("no route to %s: %w", remote, cause(err))
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

// cause takes net's own wording off an error: what is left is the system's.
func cause(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}
