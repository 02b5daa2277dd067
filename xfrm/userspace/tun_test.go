package userspace

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

// The device in a namespace of its own, with and without offloads: what the kernel routes into it is read, and what is written, in one part or in
// several, is delivered.
func TestTUN(t *testing.T) {
	for _, plain := range []bool{false, true} {
		n := newNetns(t)
		var dev *tun
		var err error
		n.do(func() { dev, err = openTUN("cygnet0", plain) })
		if err != nil {
			t.Fatal(err)
		}
		if plain == dev.offloads().header {
			t.Errorf("offloads: %v", dev.offloads())
		}
		t.Logf("offloads: %v", dev.offloads())
		n.must(t, "ip link set cygnet0 up", "ip addr add 10.1.0.1/24 dev cygnet0")
		request := echo("10.1.0.9", "10.1.0.1", 1400)
		if err := dev.write(vnet{}, [][]byte{request[:20], {}, request[20:500], request[500:]}); err != nil {
			t.Fatal(err)
		}
		answer := make(chan []byte, 1)
		var reading sync.WaitGroup
		reading.Go(func() {
			dev.readAll(func(h vnet, p []byte) bool {
				if p[0]>>4 != 4 { // neighbour discovery of IPv6
					return true
				}
				if cap(p)-len(p) < tailroom || h.gsoType != gsoNone {
					t.Errorf("%d octets behind the packet, header %+v", cap(p)-len(p), h)
				}
				answer <- bytes.Clone(p)
				return false
			})
		})
		select {
		case p := <-answer:
			if !bytes.Equal(p[28:], request[28:]) {
				t.Errorf("answered with %x", p)
			}
		case <-time.After(deadline):
			t.Fatal("no answer")
		}
		reading.Wait()
		for _, parts := range [][][]byte{make([][]byte, maxParts+1), nil, {{}}} {
			if err := dev.write(vnet{}, parts); err == nil {
				t.Errorf("%d parts were written", len(parts))
			}
		}
		if plain && dev.write(vnet{gsoType: gsoTCPv4}, [][]byte{request}) == nil {
			t.Error("a header was written to a device without")
		}
		one := [][]byte{request}
		if n := testing.AllocsPerRun(20, func() { dev.write(vnet{}, one) }); n != 0 {
			t.Errorf("%v allocations a write", n)
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
		if dev.readAll(func(vnet, []byte) bool { return true }) == nil || dev.write(vnet{}, one) == nil {
			t.Error("a closed device can be used")
		}
	}
}

// echo is an ICMP echo request.
func echo(src, dst string, payload int) []byte {
	p := udp4(src, dst, 0x800, 0, payload)
	p[9] = protoICMP
	clear(p[10:12])
	put := func(at int, c uint16) { p[at], p[at+1] = byte(c>>8), byte(c) }
	put(10, sum(0).add(p[:20]).checksum())
	p[22], p[23] = 0, 0
	for k := range p[28:] {
		p[28+k] = byte(k)
	}
	put(22, sum(0).add(p[20:]).checksum())
	return p
}
