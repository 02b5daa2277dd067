package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cygnet/test/rig"
)

const (
	segment  = 1100 // MSS of all connections, in octets: see kind
	piece    = 24 << 10
	pieces   = 16 // of a transfer
	rest     = 300 * time.Millisecond
	slowest  = 90 * time.Second // for a transfer: TCP doubles its waits when the WAN is unkind
	sumBytes = sha256.Size
)

// transfers are TCP connections from one host to the other, one after the other: some hundred KiB each, then their SHA-256.
type transfers struct {
	way      string
	listener net.Listener
	from     rig.NS
	mu       sync.Mutex
	good     int
	octets   int64
	slowest  time.Duration
	failed   []error
	corrupt  bool // plant: an octet of the last piece is not what was summed
	sending  sync.WaitGroup
}

// openTransfers listens at an address of the other host.
func openTransfers(way string, from, to rig.Site, at netip.Addr) (*transfers, error) {
	t := &transfers{way: "IPv4 " + way, from: from.Host}
	if at.Is6() {
		t.way = "IPv6 " + way
	}
	err := to.Host.Do(func() (err error) {
		c := net.ListenConfig{Control: limitSegments}
		t.listener, err = c.Listen(context.Background(), "tcp", netip.AddrPortFrom(at, 0).String())
		return err
	})
	return t, err
}

// limitSegments sets the MSS before a connection is there.
func limitSegments(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, segment) })
	if err != nil {
		return err
	}
	return failed
}

// start transfers until quit; the last one is finished.
func (t *transfers) start(quit <-chan struct{}, seed uint64) {
	go t.serve()
	t.sending.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 4))
		for {
			select {
			case <-quit:
				return
			default:
			}
			begun := time.Now()
			n, err := t.one(rng, quit)
			t.mu.Lock()
			if err != nil {
				t.failed = append(t.failed, fmt.Errorf("after %.1f s and %d octets: %w", time.Since(begun).Seconds(), n, err))
			} else {
				t.good, t.octets, t.slowest = t.good+1, t.octets+n, max(t.slowest, time.Since(begun))
			}
			t.mu.Unlock()
			if err != nil {
				select { // an address in use, say, must not become a busy loop
				case <-quit:
				case <-time.After(time.Second):
				}
			}
		}
	})
}

// serve answers each connection with the sum of what it has carried, and closes it only when the other side has.
func (t *transfers) serve() {
	for {
		c, err := t.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			c.SetDeadline(time.Now().Add(slowest))
			h := sha256.New()
			if _, err := io.Copy(h, c); err == nil {
				c.Write(h.Sum(nil))
			}
		}()
	}
}

// one transfer, in pieces with a rest after each, so that segments come in bursts and yet the rate is bounded.
func (t *transfers) one(rng *rand.Rand, quit <-chan struct{}) (octets int64, err error) {
	var c net.Conn
	err = t.from.Do(func() (err error) {
		d := net.Dialer{Timeout: slowest, Control: limitSegments}
		c, err = d.Dial("tcp", t.listener.Addr().String())
		return err
	})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(slowest))
	h := sha256.New()
	b := make([]byte, piece)
	stopped := false
	for i := 0; i < pieces && !stopped; i++ {
		for k := 0; k < len(b); k += 8 {
			v := rng.Uint64()
			for j := range 8 {
				b[k+j] = byte(v >> (8 * j))
			}
		}
		h.Write(b)
		if t.corrupt && i == 0 {
			b[0]++
		}
		n, err := c.Write(b)
		octets += int64(n)
		if err != nil {
			return octets, err
		}
		select {
		case <-quit:
			stopped = true
		case <-time.After(rest):
		}
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return octets, err
	}
	got := make([]byte, sumBytes)
	if _, err := io.ReadFull(c, got); err != nil {
		return octets, fmt.Errorf("the sum: %w", err)
	}
	if _, err := c.Read(make([]byte, 1)); err != io.EOF { // else the close would be a reset
		return octets, fmt.Errorf("after the sum: %v, wanted the end", err)
	}
	if !bytes.Equal(got, h.Sum(nil)) {
		return octets, fmt.Errorf("sent data of SHA-256 %x, it arrived with %x", h.Sum(nil), got)
	}
	return octets, nil
}
