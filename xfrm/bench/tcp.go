package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// StartTCP sends by streams connections from one namespace to an address of another. window bounds the socket buffers in octets, and with
// them TCP's window; 0 leaves them to the kernel, which lets them grow.
func StartTCP(from, to *Namespace, addr netip.Addr, streams, window int) (*Flow, error) {
	buffers := func(_, _ string, c syscall.RawConn) error {
		if window == 0 {
			return nil
		}
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, window),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, window))
		})
		return errors.Join(err, failed)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var l net.Listener
	if err := to.Do(func() (err error) {
		l, err = (&net.ListenConfig{Control: buffers}).Listen(ctx, "tcp", netip.AddrPortFrom(addr, 0).String())
		return err
	}); err != nil {
		return nil, fmt.Errorf("TCP server: %w", err)
	}
	defer l.Close()
	f := newFlow()
	for range streams {
		var c net.Conn
		err := from.Do(func() (err error) {
			c, err = (&net.Dialer{Control: buffers}).DialContext(ctx, "tcp", l.Addr().String())
			return err
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("TCP client: %w", err), f.Stop())
		}
		s, err := l.Accept()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("TCP server: %w", err), c.Close(), f.Stop())
		}
		f.closers = append(f.closers, c.Close, s.Close)
		f.running.Go(func() { f.fail(f.write(c)) })
		f.running.Go(func() { f.fail(f.read(s)) })
	}
	return f, nil
}

func (f *Flow) write(c net.Conn) error {
	b := make([]byte, 128<<10)
	for {
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
}

func (f *Flow) read(c net.Conn) error {
	b := make([]byte, 256<<10)
	for {
		n, err := c.Read(b)
		f.octets.Add(int64(n))
		if err != nil {
			return err
		}
	}
}
