package userspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"cygnet/xfrm"
)

// counting counts the writes to a device.
type counting struct {
	device
	writes atomic.Uint64
}

func (c *counting) write(h vnet, parts [][]byte) error {
	c.writes.Add(1)
	return c.device.write(h, parts)
}

// transfer sends octets over TCP from a namespace to an address of another, in pieces of odd sizes, and compares their hashes.
func transfer(t *testing.T, from, to *netns, address string, octets int) {
	t.Helper()
	var l net.Listener
	var c net.Conn
	var err error
	to.do(func() { l, err = net.Listen("tcp", net.JoinHostPort(address, "0")) })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	received := make(chan []byte, 1)
	go func() {
		in, err := l.Accept()
		if err != nil {
			return
		}
		defer in.Close()
		h := sha256.New()
		io.Copy(h, in)
		received <- h.Sum(nil)
	}()
	from.do(func() { c, err = net.DialTimeout("tcp", l.Addr().String(), 10*time.Second) })
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(60 * time.Second))
	r, h, piece := rand.NewChaCha8([32]byte{7}), sha256.New(), make([]byte, 100_000)
	for n := 1; octets > 0; n = n*7%99_991 + 1 {
		p := piece[:min(n, octets)]
		r.Read(p)
		h.Write(p)
		octets -= len(p)
		if _, err := c.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	select {
	case sum := <-received:
		if !bytes.Equal(sum, h.Sum(nil)) {
			t.Error("what was received is not what was sent")
		}
	case <-time.After(60 * time.Second):
		t.Fatal("the other end did not come to the end")
	}
}

// What TCP carries arrives whole, whichever way the packets are merged on the way: by the kernel into datagrams, by the driver into the TUN, or not at
// all because the peer sends no UDP checksums or the TUN has no offloads.
func TestTCPThroughTwoDrivers(t *testing.T) {
	for name, c := range map[string]struct{ merging, unsummed, plain bool }{
		"merged datagrams":         {merging: true},
		"single datagrams":         {},
		"datagrams without a sum":  {unsummed: true},
		"a TUN without offloads":   {merging: true, plain: true},
		"neither merges, anywhere": {plain: true, unsummed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			for _, g := range []*gateway{&s.a, &s.b} {
				g.merging, g.unsummed, g.plain = c.merging, c.unsummed, c.plain
			}
			s.a.start(t)
			s.b.start(t)
			defer s.b.stop(t)
			defer s.a.stop(t)
			tun := &counting{device: *s.b.driver.dev.Load()}
			dev := device(tun)
			s.b.driver.dev.Store(&dev)
			s.a.apply(t, child(&s.a, &s.b, 0x1001, 0x2001, "10.1.0.0/16", "10.2.0.0/16")...)
			s.b.apply(t, child(&s.b, &s.a, 0x2001, 0x1001, "10.2.0.0/16", "10.1.0.0/16")...)
			s.a.apply(t, child(&s.a, &s.b, 0x1002, 0x2002, "fd01::/64", "fd02::/64")...)
			s.b.apply(t, child(&s.b, &s.a, 0x2002, 0x1002, "fd02::/64", "fd01::/64")...)
			const octets = 8 << 20
			transfer(t, s.host, s.b.netns, "10.2.0.1", octets)
			u, err := s.b.driver.Usage(context.Background(), xfrm.SAID{Dst: s.b.outer.Addr(), SPI: 0x2001, Proto: 50})
			if err != nil {
				t.Fatal(err)
			}
			writes := tun.writes.Load()
			t.Logf("%d packets in %d writes", u.Packets, writes)
			if c.merging && !c.plain && writes*3 > u.Packets {
				t.Errorf("%d packets in %d writes: hardly anything was merged", u.Packets, writes)
			}
			transfer(t, s.host, s.b.netns, "fd02::1", octets)
			transfer(t, s.b.netns, s.host, "10.1.0.5", octets) // and the other way
			if d := s.b.driver.Drops(); d.Writing != 0 {
				t.Errorf("%d packets were not taken by the TUN", d.Writing)
			}
		})
	}
}
