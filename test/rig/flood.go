package rig

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	floodPause = 2 * time.Millisecond // between datagrams
	floodAfter = 3 * time.Second      // for the last answers
	floodSize  = 92                   // octets of a datagram's data
)

// Flood sends numbered datagrams from a host to another, which sends each back, 500 a second, until stop is called. Stop waits for the last answers and tells
// the counts: an error unless every single one was answered, once. (ping, when it is ended, counts the request on its way as lost.)
func Flood(from, to NS, addr netip.Addr) (stop func() (string, error), err error) {
	var server, client *net.UDPConn
	if err := to.Do(func() (err error) {
		server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		return err
	}); err != nil {
		return nil, err
	}
	if err := from.Do(func() (err error) {
		client, err = net.DialUDP("udp", nil, server.LocalAddr().(*net.UDPAddr))
		return err
	}); err != nil {
		server.Close()
		return nil, err
	}
	for _, c := range []*net.UDPConn{server, client} {
		c.SetReadBuffer(4 << 20)
	}
	f := &flood{client: client, quit: make(chan struct{}), answered: map[uint64]int{}}
	go echo(server)
	go f.receive()
	f.sending.Go(f.send)
	return sync.OnceValues(func() (string, error) {
		defer server.Close()
		defer client.Close()
		close(f.quit)
		f.sending.Wait()
		Until(floodAfter, func() bool { return f.lost() == 0 })
		return f.result()
	}), nil
}

// Lost says that so many datagrams of a flood were not answered, and which.
type Lost struct {
	Number int
	error
}

// echo sends back what comes until its socket is closed.
func echo(c *net.UDPConn) {
	b := make([]byte, 2048)
	for {
		n, from, err := c.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		c.WriteToUDPAddrPort(b[:n], from)
	}
}

type flood struct {
	client   *net.UDPConn
	quit     chan struct{}
	sending  sync.WaitGroup
	mu       sync.Mutex
	sent     uint64
	failed   error // a datagram that this host did not send, as without a route
	answered map[uint64]int
}

func (f *flood) send() {
	b := make([]byte, floodSize)
	tick := time.NewTicker(floodPause)
	defer tick.Stop()
	for {
		select {
		case <-f.quit:
			return
		case <-tick.C:
		}
		f.mu.Lock()
		binary.BigEndian.PutUint64(b, f.sent)
		f.sent++
		f.mu.Unlock()
		if _, err := f.client.Write(b); err != nil {
			f.mu.Lock()
			f.failed = err
			f.mu.Unlock()
		}
	}
}

func (f *flood) receive() {
	b := make([]byte, 2048)
	for {
		n, err := f.client.Read(b)
		if err == nil && n == floodSize {
			f.mu.Lock()
			f.answered[binary.BigEndian.Uint64(b)]++
			f.mu.Unlock()
		}
		select {
		case <-f.quit:
			if err != nil {
				return
			}
		default:
		}
	}
}

func (f *flood) lost() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent - uint64(len(f.answered))
}

func (f *flood) result() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := fmt.Sprintf("%d datagrams sent, %d answered", f.sent, len(f.answered))
	var missing []uint64
	for i := range f.sent {
		switch n := f.answered[i]; {
		case n == 0:
			missing = append(missing, i)
		case n > 1:
			return text, fmt.Errorf("%s, number %d of them %d times", text, i, n)
		}
	}
	if len(missing) > 0 {
		return text, &Lost{len(missing), fmt.Errorf("%s; lost: %v; the host's last error: %v", text, missing[:min(len(missing), 20)], f.failed)}
	}
	return text, nil
}
