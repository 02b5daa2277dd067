package rig

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SpoofNet is where the forged sources of a Spoof lie (RFC 2544's addresses for benchmarks): nobody has them, and what is sent there ends on the WAN.
var SpoofNet = netip.MustParsePrefix("198.18.0.0/15")

const (
	spoofSources = 1 << 17 // addresses of SpoofNet
	spoofBatch   = 32      // datagrams for one system call
	spoofRoom    = 1400    // octets of a datagram's data at most
	ipv4UDP      = 28      // octets of the headers
	ihl          = 5       // of an IPv4 header, in words
)

// Datagram is what a Spoof sends next: write into the room given and return its length and the ports.
type Datagram func(n uint64, room []byte) (size int, from, to uint16)

// Spoof is a flood of datagrams from the WAN to one address, each from another forged source in turn, and the count of what comes back to them.
type Spoof struct {
	fd, tap     int
	to          netip.Addr
	perSecond   int
	quit, over  chan struct{} // ends the sending, ends the count
	done, read  sync.WaitGroup
	in, out     []SpoofCount // by source: what it sent, what it was sent; out is read under mu
	mu          sync.Mutex
	last        time.Time // when something was last sent to a forged source
	sent        uint64
	took, slept time.Duration
	failed      error
}

// SpoofCount of packets and their octets, IP headers included.
type SpoofCount struct{ Packets, Octets uint32 }

// SpoofResult of a flood.
type SpoofResult struct {
	Sent   uint64
	Took   time.Duration
	Slept  time.Duration // of that, because the flood was ahead of its rate
	Missed int           // packets back that the count has lost
	Sum    [2]uint64     // octets from and to forged sources
	Worst  float64       // octets to a source for each octet from it: the source that got most
	More   int           // sources that got more packets than they sent
}

// Rate is how many datagrams were sent in a second.
func (r SpoofResult) Rate() int { return int(float64(r.Sent) / r.Took.Seconds()) }

// Spoof starts a flood.
func (t *Topology) Spoof(to netip.Addr, perSecond int, next Datagram) (*Spoof, error) {
	if _, err := t.WAN.Output("ip", "route", "replace", "blackhole", SpoofNet.String()); err != nil {
		return nil, err
	}
	s := &Spoof{fd: -1, tap: -1, to: to, perSecond: perSecond, quit: make(chan struct{}), over: make(chan struct{}), in: make([]SpoofCount, spoofSources), out: make([]SpoofCount, spoofSources)}
	if err := t.WAN.Do(s.open); err != nil {
		s.close()
		return nil, fmt.Errorf("spoof: %w", err)
	}
	s.last = time.Now()
	s.done.Go(func() { s.send(next) })
	s.read.Go(s.count)
	return s, nil
}

// open makes the raw socket that sends, and the packet socket that sees what comes to the WAN: ETH_P_IP alone, so that it does not see our own.
func (s *Spoof) open() (err error) {
	if s.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil {
		return err
	}
	unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 16<<20)
	if s.tap, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(htons(unix.ETH_P_IP))); err != nil {
		return err
	}
	unix.SetsockoptInt(s.tap, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	return unix.SetsockoptTimeval(s.tap, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50000})
}

func (s *Spoof) close() {
	for _, fd := range []int{s.fd, s.tap} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// mmsghdr is struct mmsghdr of <sys/socket.h>.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
}

// send keeps to the rate on the whole: what a pause was too long is made up for.
func (s *Spoof) send(next Datagram) {
	runtime.LockOSThread()
	name := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: s.to.As4()}
	msgs, iovs := make([]mmsghdr, spoofBatch), make([]unix.Iovec, spoofBatch)
	room := make([][ipv4UDP + spoofRoom]byte, spoofBatch)
	for i := range msgs {
		iovs[i].Base = &room[i][0]
		msgs[i].hdr = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&name)), Namelen: unix.SizeofSockaddrInet4, Iov: &iovs[i], Iovlen: 1}
	}
	begun := time.Now()
	defer func() { s.took = time.Since(begun) }()
	for {
		select {
		case <-s.quit:
			return
		default:
		}
		due := begun.Add(time.Duration(s.sent) * time.Second / time.Duration(s.perSecond))
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
			s.slept += wait
		}
		for i := range msgs {
			n := s.sent + uint64(i)
			size := s.datagram(n, room[i][:], next)
			iovs[i].SetLen(size)
			c := &s.in[n%spoofSources]
			c.Packets, c.Octets = c.Packets+1, c.Octets+uint32(size)
		}
		for k := 0; k < spoofBatch; {
			r, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&msgs[k])), uintptr(spoofBatch-k), 0, 0, 0)
			if errno != 0 && errno != unix.EINTR && errno != unix.ENOBUFS {
				s.failed = fmt.Errorf("sendmmsg: %w", errno)
				return
			}
			if errno == 0 {
				k += int(r)
			}
		}
		s.sent += spoofBatch
	}
}

// datagram writes number n with its IPv4 and UDP headers; the kernel adds identification and checksum of the former, and the latter needs none.
func (s *Spoof) datagram(n uint64, b []byte, next Datagram) int {
	size, from, to := next(n, b[ipv4UDP:])
	size += ipv4UDP
	clear(b[:ipv4UDP])
	b[0], b[8], b[9] = 4<<4|ihl, 64, unix.IPPROTO_UDP
	base, dst := SpoofNet.Addr().As4(), s.to.As4()
	binary.BigEndian.PutUint16(b[2:], uint16(size))
	binary.BigEndian.PutUint32(b[12:], binary.BigEndian.Uint32(base[:])+uint32(n%spoofSources))
	copy(b[16:], dst[:])
	binary.BigEndian.PutUint16(b[20:], from)
	binary.BigEndian.PutUint16(b[22:], to)
	binary.BigEndian.PutUint16(b[24:], uint16(size-20))
	return size
}

// count reads what comes to the WAN.
func (s *Spoof) count() {
	b := make([]byte, 64) // the headers are enough: MSG_TRUNC gives the length
	base := SpoofNet.Addr().As4()
	first := binary.BigEndian.Uint32(base[:])
	for {
		select {
		case <-s.over:
			return
		default:
		}
		n, _, err := unix.Recvfrom(s.tap, b, unix.MSG_TRUNC)
		if err != nil || n < 20 { // nothing came for a while
			continue
		}
		i := binary.BigEndian.Uint32(b[16:]) - first
		if i >= spoofSources {
			continue
		}
		s.mu.Lock()
		s.out[i].Packets++
		s.out[i].Octets += uint32(n)
		s.last = time.Now()
		s.mu.Unlock()
	}
}

// Halt ends the flood; what comes back is counted on.
func (s *Spoof) Halt() error {
	close(s.quit)
	s.done.Wait()
	return s.failed
}

// Quiet is since when nothing has come back.
func (s *Spoof) Quiet() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.last)
}

// Stop ends the count, after Halt.
func (s *Spoof) Stop() SpoofResult {
	r := SpoofResult{Sent: s.sent, Took: s.took, Slept: s.slept}
	if st, err := unix.GetsockoptTpacketStats(s.tap, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		r.Missed = int(st.Drops)
	} else {
		r.Missed = -1
	}
	close(s.over)
	s.read.Wait()
	s.close()
	for i, out := range s.out {
		in := s.in[i]
		r.Sum[0] += uint64(in.Octets)
		r.Sum[1] += uint64(out.Octets)
		if in.Octets > 0 {
			r.Worst = max(r.Worst, float64(out.Octets)/float64(in.Octets))
		}
		if out.Packets > in.Packets {
			r.More++
		}
	}
	return r
}
