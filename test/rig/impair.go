package rig

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// impairDevice is the TUN device of the WAN through which an Impair has what is to be forwarded.
const impairDevice = "imp"

// Impair is a WAN that loses, delays, repeats and reorders packets (IPv4, without NAT), and counts exactly what it did. The WAN's routing leads what comes from
// the gateways into a TUN device; what is written back to it goes on by the WAN's usual routes. So each packet is seen as a network card would send it: cut to
// segments, and with its checksums.
type Impair struct {
	wan      NS
	file     *os.File
	mu       sync.Mutex
	ab, ba   *lane
	a        netip.Addr // of gateway A: what it sends goes through the lane ab
	lans     []netip.Prefix
	clear    []Packet // the first ones
	cleared  map[string]int
	strange  map[string]int // neither IKE nor ESP: what, how often
	failed   error
	wake     chan struct{}
	quit     chan struct{}
	finished sync.WaitGroup
}

// Passing is what an Impair has done so far.
type Passing struct {
	AB, BA  Direction
	Clear   map[string]int // packets with an address of a LAN, by their source
	First   []Packet       // the first of those
	Strange map[string]int
}

// Direction is one of the two.
type Direction struct {
	ESP map[int]Fates // by the size of the packet
	IKE Fates
}

// Sum of all sizes of ESP.
func (d Direction) Sum() (sum Fates) {
	for _, f := range d.ESP {
		sum.add(f)
	}
	return sum
}

// Impair puts an Impair into the WAN.
func (t *Topology) Impair(o Impairment) (*Impair, error) {
	w := &Impair{wan: t.WAN, ab: newLane(o, 1), ba: newLane(o, 2), a: t.A.WAN4, lans: []netip.Prefix{t.A.LAN4, t.B.LAN4},
		cleared: map[string]int{}, strange: map[string]int{}, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	if err := t.WAN.Do(w.open); err != nil {
		return nil, fmt.Errorf("impair: %w", err)
	}
	// The kernel's own IPv6 is kept out of the device before it is up: what is lost in it must be none of the traffic's.
	_, err := t.WAN.Output("sysctl", "-qw", "net.ipv6.conf."+impairDevice+".disable_ipv6=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf."+impairDevice+".rp_filter=0")
	if err == nil {
		err = ip("-n "+string(t.WAN)+" link set "+impairDevice+" mtu 1500 txqueuelen 20000", "-n "+string(t.WAN)+" link set "+impairDevice+" up",
			"-n "+string(t.WAN)+" route add default dev "+impairDevice+" table 100",
			"-n "+string(t.WAN)+" rule add iif wan-a lookup 100", "-n "+string(t.WAN)+" rule add iif wan-b lookup 100")
	}
	if err != nil {
		w.file.Close()
		return nil, err
	}
	w.finished.Go(w.read)
	w.finished.Go(w.deliver)
	return w, nil
}

func (w *Impair) open() error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	ifr, err := unix.NewIfreq(impairDevice)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	w.file = os.NewFile(uintptr(fd), impairDevice)
	return nil
}

// read takes what the WAN is to forward until the device is closed.
func (w *Impair) read() {
	b := make([]byte, 65536)
	for {
		n, err := w.file.Read(b)
		if err != nil {
			return
		}
		if p, ok := parse(b[:n]); ok && p.Src.Is4() {
			w.take(p, slices.Clone(b[:n]))
		}
	}
}

func (w *Impair) take(p Packet, octets []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lans {
		if l.Contains(p.Src) || l.Contains(p.Dst) {
			from := p.Src.String()
			if w.cleared[from]++; len(w.clear) < 5 {
				w.clear = append(w.clear, p)
			}
			break
		}
	}
	if !p.ESP() && !p.IKE() {
		w.strange[fmt.Sprintf("%s > %s proto %d", p.Src, p.Dst, p.Proto)]++
	}
	l := w.ba
	if p.Src == w.a {
		l = w.ab
	}
	l.arrive(p, octets, time.Now())
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// deliver sends on what is due.
func (w *Impair) deliver() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-w.wake:
		case <-timer.C:
		}
		if at, ok := w.turn(); ok {
			timer.Reset(time.Until(at))
		}
	}
}

// turn delivers once and tells when the next is due.
func (w *Impair) turn() (at time.Time, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, l := range []*lane{w.ab, w.ba} {
		l.leave(now, w.write)
		if t, any := l.next(); any && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	return at, ok
}

func (w *Impair) write(octets []byte) {
	if _, err := w.file.Write(octets); err != nil && w.failed == nil {
		w.failed = fmt.Errorf("impair: write: %w", err)
	}
}

// Idle reports whether nothing is on its way.
func (w *Impair) Idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ab.due)+len(w.ab.held)+len(w.ba.due)+len(w.ba.held) == 0
}

// Passing tells what it has done so far. An error is a packet that it has lost without knowing which.
func (w *Impair) Passing() (Passing, error) {
	out, err := w.wan.Output("cat", "/sys/class/net/"+impairDevice+"/statistics/tx_dropped")
	if err != nil {
		return Passing{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p := Passing{AB: w.ab.told(), BA: w.ba.told(), Clear: maps.Clone(w.cleared), First: slices.Clone(w.clear), Strange: maps.Clone(w.strange)}
	if n, err := strconv.Atoi(strings.TrimSpace(out)); err != nil || n != 0 {
		return p, fmt.Errorf("impair: %d packets were lost in the device of the WAN (%v)", n, err)
	}
	return p, w.failed
}

func (l *lane) told() Direction {
	d := Direction{ESP: map[int]Fates{}, IKE: l.ike}
	for size, f := range l.esp {
		d.ESP[size] = *f
	}
	return d
}

// Stop ends it: nothing passes any more.
func (w *Impair) Stop() {
	close(w.quit)
	w.file.Close()
	w.finished.Wait()
}
