package rig

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

// Ping sends three echo requests from a host and wants each answered within 2 s. One ping a request: once an answer has come, ping waits for others no longer than the interval or
// twice the longest round trip, whatever it is told.
func Ping(from NS, to netip.Addr) error {
	for n := range 3 {
		if out, err := from.Output("ping", "-c", "1", "-W", "2", to.String()); err != nil {
			return fmt.Errorf("ping %d to %s: %w: %s", n+1, to, err, strings.TrimSpace(out))
		}
	}
	return nil
}

// SendHashed sends n random octets by TCP from one host to another and compares the SHA-256 at both ends, which it returns.
func SendHashed(from, to NS, addr netip.Addr, n int64) (string, error) {
	const limit = 30 * time.Second
	var l net.Listener
	err := to.Do(func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
		return err
	})
	if err != nil {
		return "", err
	}
	defer l.Close()
	type result struct {
		sum string
		err error
	}
	received := make(chan result, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			received <- result{err: err}
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(limit))
		h := sha256.New()
		_, err = io.Copy(h, c)
		received <- result{fmt.Sprintf("%x", h.Sum(nil)), err}
	}()
	h := sha256.New()
	err = from.Do(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(limit))
		_, err = io.CopyN(io.MultiWriter(c, h), rand.Reader, n)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("send: %w", err)
	}
	sent := fmt.Sprintf("%x", h.Sum(nil))
	select {
	case r := <-received:
		if r.err != nil {
			return "", fmt.Errorf("receive: %w", r.err)
		}
		if r.sum != sent {
			return "", fmt.Errorf("sent %s, received %s", sent, r.sum)
		}
		return sent, nil
	case <-time.After(limit):
		return "", fmt.Errorf("receive: no end within %s", limit)
	}
}
