package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	ipHeader   = 20
	icmpHeader = 8

	echoRequest = 8
	echoReply   = 0
)

// RTT of echo requests: the median and the least.
type RTT struct{ Median, Min time.Duration }

// Echo sends count ICMP echo requests of size octets, IP header and all, from a namespace to an address, one after another with a pause between, and wants an answer
// to each within a second.
func Echo(from *Namespace, addr netip.Addr, size, count int, pause time.Duration) (RTT, error) {
	if size < ipHeader+icmpHeader {
		return RTT{}, fmt.Errorf("an echo request of %d octets: the least is %d", size, ipHeader+icmpHeader)
	}
	var rtts []time.Duration
	err := from.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		second := unix.Timeval{Sec: 1}
		if err := errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &second), unix.Connect(fd, &unix.SockaddrInet4{Addr: addr.As4()})); err != nil {
			return err
		}
		e := echo{fd: fd, id: uint16(os.Getpid()), request: make([]byte, size-ipHeader), buffer: make([]byte, 1<<16)}
		for n := range count {
			time.Sleep(pause)
			rtt, err := e.once(uint16(n))
			if err != nil {
				return err
			}
			rtts = append(rtts, rtt)
		}
		return nil
	})
	if err != nil {
		return RTT{}, fmt.Errorf("ping %s with %d octets: %w", addr, size, err)
	}
	slices.Sort(rtts)
	return RTT{rtts[len(rtts)/2], rtts[0]}, nil
}

type echo struct {
	fd              int
	id              uint16
	request, buffer []byte
}

func (e *echo) once(seq uint16) (time.Duration, error) {
	r := e.request
	r[0], r[1], r[2], r[3] = echoRequest, 0, 0, 0
	binary.BigEndian.PutUint16(r[4:], e.id)
	binary.BigEndian.PutUint16(r[6:], seq)
	binary.BigEndian.PutUint16(r[2:], checksum(r))
	begun := time.Now()
	if _, err := unix.Write(e.fd, r); err != nil {
		return 0, err
	}
	for time.Since(begun) < time.Second {
		n, err := unix.Read(e.fd, e.buffer)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return 0, errors.New("no answer within a second")
		case err != nil:
			return 0, err
		}
		if p := e.buffer[:n]; n >= ipHeader+icmpHeader && p[ipHeader] == echoReply &&
			binary.BigEndian.Uint16(p[ipHeader+4:]) == e.id && binary.BigEndian.Uint16(p[ipHeader+6:]) == seq {
			return time.Since(begun), nil
		}
	}
	return 0, errors.New("no answer within a second")
}

// checksum is the Internet checksum (RFC 1071).
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
