// Package userspace is the data plane for kernels without ESP: an xfrm.Driver that moves packets between a TUN device and the bursts of ESP
// that the transport sends and receives. Tunnel mode only.
//
// Routes bring packets into the TUN: they stand in a routing table of their own, before main, with an unreachable route beneath each, so that
// what a policy protects leaves sealed or not at all (steer.go). Clear packets that should have come sealed are refused by the kernel (guard.go).
//
// The packet path takes no channel and no lock but that of the SA it uses: it reads immutable tables behind an atomic pointer.
//
// Sources: RFC 4301 (processing), RFC 4303 (ESP), RFC 3948 (encapsulation and mapping changes).
package userspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
	"cygnet/xfrm/esp"
	"cygnet/xfrm/netcfg"
)

const (
	// DefaultTUN is the name of the device.
	DefaultTUN = "cygnet0"
	// DefaultMTU of the inner packets in octets. It leaves room for every suite but AES-CBC with SHA2-384 or SHA2-512 over IPv6 in
	// an outer MTU of 1500, which are fragmented on the way.
	DefaultMTU = 1400
	// txQueueLen of the TUN in packets: more is only latency.
	txQueueLen = 128
)

// Network configures the host; *netcfg.Host is one.
type Network interface {
	Set(ctx context.Context, owner string, d netcfg.Desired) error
	AddressIn(ctx context.Context, p netip.Prefix) (netip.Addr, bool, error)
	Addresses(ctx context.Context) ([]netip.Addr, error)
	Sweep(ctx context.Context, keep []netcfg.Route) error
}

// Config of the driver.
type Config struct {
	TUN string // name of the device; empty: DefaultTUN
	MTU int    // of inner packets; 0: DefaultMTU
	// Send sends ESP; it must not keep the burst. It is called by one goroutine.
	Send func(*xfrm.Burst) error
	// Ports of IKE and NAT traversal; 0: 500 and 4500.
	Ports [2]uint16
	Net   Network   // nil: made for the network namespace of the calling thread
	Rand  io.Reader // seeds the IVs of AES-CBC
	Why   string    // for Capabilities
	// PathMTU asks the host how long an IP packet from local to remote may be, in octets; nil: longer than any.
	PathMTU func(local, remote netip.Addr) (int, error)
	// PlainESP: Send takes bursts without ports, and receivers get them.
	PlainESP bool
	// Warn is told what others changed of what is ours on the host, and what could not be put back; may be nil.
	Warn func(error)

	plainTUN bool // a device without offloads; for tests
}

// Driver is an xfrm.Driver.
type Driver struct {
	config Config
	host   *steering
	watch  *watch // nil in tests without a host

	mu       sync.Mutex    // Apply and what it changes
	lane     chan struct{} // closed when the lane of the device of now has ended
	contents contents
	removed  []*sa // of the batch that is being applied: see publish
	closed   bool

	tables   atomic.Pointer[tables] // what the packet path sees
	dev      atomic.Pointer[device]
	events   *events
	drops    dropCounters
	oddECN   atomic.Uint64 // combinations that nobody makes today
	loop     sync.WaitGroup
	watching sync.WaitGroup
}

var _ xfrm.Driver = (*Driver)(nil)

// New makes the TUN device and starts to read it. It acts on the network namespace of the calling thread.
func New(c Config) (*Driver, error) {
	if c.TUN == "" {
		c.TUN = DefaultTUN
	}
	if c.MTU == 0 {
		c.MTU = DefaultMTU
	}
	if c.Ports == [2]uint16{} {
		c.Ports = [2]uint16{500, 4500}
	}
	dev, err := openTUN(c.TUN, c.plainTUN)
	if err != nil {
		return nil, err
	}
	host, err := newSteering(c)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	d := newDriver(c, dev, host)
	if err := host.apply(context.Background(), nil); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := d.startWatch(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func newDriver(c Config, dev device, host *steering) *Driver {
	d := &Driver{
		config: c, host: host, contents: newContents(), events: newEvents(),
	}
	d.tables.Store(d.contents.tables())
	d.replaceDevice(dev)
	return d
}

// replaceDevice puts dev in the place of the device of now, if there is one, and begins to read it when the reader of the other has ended: bursts
// are sent by one goroutine at a time.
func (d *Driver) replaceDevice(dev device) {
	old, before, done := d.dev.Swap(&dev), d.lane, make(chan struct{})
	d.lane = done
	d.loop.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		newLane(d, dev).run()
	})
	if old != nil {
		(*old).Close() // an error of a device that is gone already changes nothing
	}
}

// Capabilities of this data plane; they depend on nothing that the host could lack.
func (d *Driver) Capabilities() xfrm.Capabilities {
	c := xfrm.Capabilities{
		Name: "userspace", Why: d.config.Why,
		Encr: make(map[alg.Encr]bool), Integ: make(map[alg.Integ]bool),
		Offloads: (*d.dev.Load()).offloads().String(), ESN: true, PlainESP: d.config.PlainESP, NATT: true,
		// Only UDP can be sent and received in batches.
		MustEncap: true,
	}
	for _, a := range alg.Ciphers() {
		c.Encr[a.ID] = true
	}
	for _, a := range alg.MACs() {
		c.Integ[a.ID] = true
	}
	return c
}

// Events of the data plane. When the reader is too slow, events are lost and Gap says so.
func (d *Driver) Events() <-chan xfrm.Event { return d.events.c }

// Notes are lines for the log: what the host did not grant and what follows from it.
func (d *Driver) Notes() []string {
	if esp.NullCrypto {
		return append([]string{"this build neither encrypts nor authenticates (build tag nullcrypto): it is for measurements alone"}, d.host.notes...)
	}
	return d.host.notes
}

// Close removes the TUN and with it the routes into it. The unreachable routes beneath, the rules that lead to them and the guards against
// clear packets stay for every policy that was not removed before: fail closed. The next driver of this host finds and replaces them.
func (d *Driver) Close() error {
	d.mu.Lock()
	closed := d.closed
	d.closed = true
	for _, s := range d.contents.sas {
		s.wipe()
	}
	d.mu.Unlock()
	if closed {
		return nil
	}
	if d.watch != nil {
		d.watch.stop()
	}
	err := (*d.dev.Load()).Close()
	d.loop.Wait()
	d.events.close()
	return errors.Join(err, d.host.close())
}

var errClosed = fmt.Errorf("the userspace data plane is closed")
