package userspace

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

var namespaces atomic.Uint32

// netns is a network namespace with a thread of its own.
type netns struct {
	name  string
	calls chan func()
}

// unable skips a test for which this host has no means, in the words of what was tried; REQUIRE=root makes that a failure.
func unable(t *testing.T, err error) {
	t.Helper()
	if strings.Contains(os.Getenv("REQUIRE"), "root") {
		t.Fatalf("REQUIRE has root, but: %v", err)
	}
	t.Skip(err)
}

func newNetns(t *testing.T) *netns {
	t.Helper()
	n := &netns{name: fmt.Sprintf("cyg-userspace-%d-%d", os.Getpid(), namespaces.Add(1)), calls: make(chan func())}
	if out, err := exec.Command("ip", "netns", "add", n.name).CombinedOutput(); err != nil {
		unable(t, fmt.Errorf("ip netns add: %w: %s", err, out))
	}
	t.Cleanup(func() {
		close(n.calls)
		exec.Command("ip", "netns", "del", n.name).Run()
	})
	entered := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		fd, err := unix.Open("/var/run/netns/"+n.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			unix.Close(fd)
		}
		entered <- err
		for f := range n.calls {
			f()
		}
	}()
	if err := <-entered; err != nil {
		t.Fatalf("enter %s: %v", n.name, err)
	}
	// No duplicate address detection: addresses can be used at once.
	n.must(t, "sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0", "ip link set lo up")
	return n
}

// do runs f in the namespace.
func (n *netns) do(f func()) {
	done := make(chan struct{})
	n.calls <- func() { f(); close(done) }
	<-done
}

func (n *netns) run(command string) (string, error) {
	words := strings.Fields(command)
	out, err := exec.Command("ip", append([]string{"netns", "exec", n.name}, words...)...).CombinedOutput()
	return string(out), err
}

func (n *netns) must(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if out, err := n.run(c); err != nil {
			t.Fatalf("%s: %s: %v\n%s", n.name, c, err, out)
		}
	}
}

func wire(t *testing.T, a *netns, aName string, b *netns, bName string) {
	t.Helper()
	args := []string{"link", "add", aName, "netns", a.name, "type", "veth", "peer", "name", bName, "netns", b.name}
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	a.must(t, "ip link set "+aName+" up")
	b.must(t, "ip link set "+bName+" up")
}

// gateway is a driver with a plain UDP socket in the transport's place.
type gateway struct {
	*netns
	driver *Driver
	outer  netip.AddrPort
	conn   *net.UDPConn

	warnings chan error
	longest  atomic.Int64 // packets of a burst that was sent; of startFast

	merging, unsummed, plain bool // UDP_SEGMENT and UDP_GRO; no UDP checksums; a TUN without offloads
}

func (g *gateway) start(t *testing.T) {
	t.Helper()
	var err error
	g.warnings = make(chan error, 64)
	g.do(func() {
		lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) {
				asTransport(t, int(fd))
				if g.merging {
					_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_GRO, 1)
				}
				if g.unsummed {
					_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
				}
			})
		}}
		var pc net.PacketConn
		if pc, err = lc.ListenPacket(context.Background(), "udp", g.outer.String()); err != nil {
			return
		}
		g.conn = pc.(*net.UDPConn)
		g.driver, err = New(Config{Rand: rand.Reader, Send: g.send, Warn: g.warn, plainTUN: g.plain})
	})
	if err != nil {
		t.Fatal(err)
	}
	go g.receive(g.conn, g.driver)
	for _, n := range g.driver.Notes() {
		t.Log(n)
	}
}

// asTransport sets what the transport's sockets have: the mark, and policies of their own that let everything pass.
func asTransport(t *testing.T, fd int) {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, Mark); err != nil {
		t.Error(err)
	}
	for _, dir := range []byte{0, 1} {
		var info [policyLen]byte
		binary.NativeEndian.PutUint16(info[40:], unix.AF_INET)
		info[offDir] = dir
		if err := unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_XFRM_POLICY, string(info[:])); err != nil {
			t.Error(err)
		}
	}
}

func (g *gateway) stop(t *testing.T) {
	t.Helper()
	if err := g.driver.Close(); err != nil {
		t.Error(err)
	}
	g.conn.Close()
}

func (g *gateway) warn(err error) {
	select {
	case g.warnings <- err:
	default:
	}
}

func (g *gateway) send(b *xfrm.Burst) error {
	if g.merging && b.Run && len(b.Packets) > 1 {
		return g.sendRun(b)
	}
	for _, p := range b.Packets {
		if _, err := g.conn.WriteToUDPAddrPort(p, b.Remote); err != nil {
			return err
		}
	}
	return nil
}

// sendRun is one system call (UDP_SEGMENT); over a wire of veth it arrives as one.
func (g *gateway) sendRun(b *xfrm.Burst) error {
	total := 0
	for _, p := range b.Packets {
		total += len(p)
	}
	oob := make([]byte, unix.CmsgSpace(2))
	h := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
	h.Level, h.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(oob[unix.CmsgLen(0):], uint16(len(b.Packets[0])))
	_, _, err := g.conn.WriteMsgUDPAddrPort(b.Packets[0][:total], oob, b.Remote)
	return err
}

// receive gives the driver what can be read at once, held together.
func (g *gateway) receive(conn *net.UDPConn, d *Driver) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	deliver, buffers, oob := d.Receiver(), make([]byte, 16<<16), make([]byte, 64)
	for {
		var got []xfrm.Burst
		err := raw.Read(func(fd uintptr) bool {
			for len(got) < 16 {
				b := buffers[len(got)<<16:][: 1<<16 : 1<<16]
				n, oobn, _, from, err := unix.Recvmsg(int(fd), b, oob, unix.MSG_DONTWAIT)
				at, ok := from.(*unix.SockaddrInet4)
				if err != nil || !ok {
					break
				}
				burst := xfrm.Burst{Local: g.outer, Remote: netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)), More: true}
				size := n
				if oobn >= unix.CmsgSpace(4) { // the one message that was asked for
					size = int(binary.NativeEndian.Uint32(oob[unix.CmsgLen(0):]))
				}
				burst.Packets = slices.Collect(slices.Chunk(b[:n], max(1, size)))
				got = append(got, burst)
			}
			return len(got) > 0
		})
		if err != nil {
			return
		}
		got[len(got)-1].More = false
		for i := range got {
			deliver(&got[i])
		}
	}
}

func (g *gateway) apply(t *testing.T, ops ...xfrm.Op) {
	t.Helper()
	if err := g.driver.Apply(context.Background(), ops); err != nil {
		t.Fatal(err)
	}
}

const testReqID = 0x43590001

// child are the ops for one Child SA: from, to are the gateways, prefixes those behind them.
func child(local, remote *gateway, spiIn, spiOut uint32, localNet, remoteNet string) []xfrm.Op {
	l, r := netip.MustParsePrefix(localNet), netip.MustParsePrefix(remoteNet)
	suite := xfrm.Suite{Encr: alg.EncrAESGCM16, KeyBits: 256}
	key := func(spi uint32) alg.Secret {
		k := make([]byte, 36)
		k[0], k[1] = byte(spi), byte(spi>>8)
		return alg.NewSecret(k)
	}
	in, out := xfrm.Selector{Src: r, Dst: l}, xfrm.Selector{Src: l, Dst: r}
	return []xfrm.Op{
		xfrm.AddSA{SA: xfrm.SA{
			ID: xfrm.SAID{Dst: local.outer.Addr(), SPI: spiIn, Proto: 50}, Src: remote.outer.Addr(), Direction: xfrm.In, ReqID: testReqID, Suite: suite,
			EncrKey: key(spiIn), Encap: &xfrm.Encap{SrcPort: remote.outer.Port(), DstPort: local.outer.Port()}, Selectors: []xfrm.Selector{in},
		}},
		xfrm.AddSA{SA: xfrm.SA{
			ID: xfrm.SAID{Dst: remote.outer.Addr(), SPI: spiOut, Proto: 50}, Src: local.outer.Addr(), Direction: xfrm.Out, ReqID: testReqID, Suite: suite,
			EncrKey: key(spiOut), Encap: &xfrm.Encap{SrcPort: local.outer.Port(), DstPort: remote.outer.Port()}, Selectors: []xfrm.Selector{out},
		}},
		xfrm.PutPolicy{Policy: xfrm.Policy{
			Slot: xfrm.Slot{Direction: xfrm.In, Selector: in}, Priority: priorityFirst + 100,
			Template: xfrm.Template{Src: remote.outer.Addr(), Dst: local.outer.Addr(), ReqID: testReqID},
		}},
		xfrm.PutPolicy{Policy: xfrm.Policy{
			Slot: xfrm.Slot{Direction: xfrm.Out, Selector: out}, Priority: priorityFirst + 100,
			Template: xfrm.Template{Src: local.outer.Addr(), Dst: remote.outer.Addr(), ReqID: testReqID, SPI: spiOut},
		}},
	}
}

// site is two gateways with a link between, and a host behind the first.
type site struct {
	a, b gateway
	host *netns
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{
		a:    gateway{netns: newNetns(t), outer: netip.MustParseAddrPort("192.0.2.1:4500")},
		b:    gateway{netns: newNetns(t), outer: netip.MustParseAddrPort("192.0.2.2:4500")},
		host: newNetns(t),
	}
	wire(t, s.a.netns, "wan", s.b.netns, "wan")
	wire(t, s.a.netns, "lan", s.host, "lan")
	s.a.must(t, "ip addr add 192.0.2.1/24 dev wan", "ip addr add 10.1.0.1/24 dev lan", "ip addr add 2001:db8::1/64 dev wan nodad", "ip addr add fd01::1/64 dev lan nodad",
		"sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
	s.b.must(t, "ip addr add 192.0.2.2/24 dev wan", "ip addr add 10.2.0.1/16 dev lo", "ip addr add 2001:db8::2/64 dev wan nodad", "ip addr add fd02::1/64 dev lo nodad",
		"ip route add 10.1.0.0/16 via 192.0.2.1", "ip route add fd01::/64 via 2001:db8::1")
	s.host.must(t, "ip addr add 10.1.0.5/24 dev lan", "ip route add default via 10.1.0.1", "ip addr add fd01::5/64 dev lan nodad", "ip route add default via fd01::1")
	return s
}

func (n *netns) pings(t *testing.T, to string) {
	t.Helper()
	out, err := n.run("ping -q -c 1 -W 3 " + to)
	for again := 0; err == nil && again < 2; again++ {
		out, err = n.run("ping -q -c 1 -W 3 " + to)
	}
	if err != nil {
		state := ""
		for _, c := range []string{"ip rule", "ip -6 rule", "ip route show table all proto 67", "ip -6 route show table all", "ip xfrm policy", "grep InPolBlock /proc/net/xfrm_stat"} {
			text, _ := n.run(c)
			state += c + ":\n" + text
		}
		t.Errorf("%s: ping %s: %v\n%s\n%s", n.name, to, err, out, state)
	}
}

func TestPingThroughTwoDrivers(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.a.start(t)
	s.b.start(t)
	s.a.apply(t, child(&s.a, &s.b, 0x1001, 0x2001, "10.1.0.0/16", "10.2.0.0/16")...)
	s.b.apply(t, child(&s.b, &s.a, 0x2001, 0x1001, "10.2.0.0/16", "10.1.0.0/16")...)
	s.a.apply(t, child(&s.a, &s.b, 0x1002, 0x2002, "fd01::/64", "fd02::/64")...)
	s.b.apply(t, child(&s.b, &s.a, 0x2002, 0x1002, "fd02::/64", "fd01::/64")...)
	for _, to := range []string{"10.2.0.1", "fd02::1", "-s 8000 10.2.0.1"} {
		s.host.pings(t, to) // forwarded
		s.a.pings(t, to)    // from the gateway itself, by the source hint
	}
	s.b.pings(t, "10.1.0.5")
	u, err := s.a.driver.Usage(context.Background(), xfrm.SAID{Dst: s.b.outer.Addr(), SPI: 0x2001, Proto: 50})
	if err != nil || u.Packets == 0 || u.Sequence != u.Packets {
		t.Errorf("usage %+v, %v", u, err)
	}
	if first := <-s.a.driver.Events(); first != (xfrm.FirstUse{ID: xfrm.SAID{Dst: s.a.outer.Addr(), SPI: 0x1001, Proto: 50}}) {
		t.Errorf("first event %+v", first)
	}
	s.a.stop(t)
	s.b.stop(t)
	// The TUN is gone; what was protected does not leave by another way.
	// A process that another test begins at this moment holds all descriptors of this one for an instant.
	for end := time.Now().Add(deadline); ; {
		out, err := s.a.run("ip route get 10.2.0.1")
		if err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after Close there is a way: %s", out)
		}
	}
}

// received counts the echo requests that a namespace's own addresses have got, both families.
func (n *netns) received(t *testing.T) string {
	t.Helper()
	out, err := n.run("nstat -asz IcmpMsgInType8 Icmp6InEchos")
	if err != nil {
		unable(t, fmt.Errorf("nstat: %w: %s", err, out))
	}
	var numbers []string
	for _, line := range strings.Split(out, "\n") {
		if f := strings.Fields(line); len(f) > 1 && !strings.HasPrefix(line, "#") {
			numbers = append(numbers, f[1])
		}
	}
	return strings.Join(numbers, " ")
}

// RFC 4301 section 5.2: a clear packet that a protect policy covers is discarded, whether it is for a host behind the gateway or for the gateway itself.
// The forger is on the link to the gateway and uses the addresses of the peer's hosts.
func TestTrap_4301_2_ForgedClearPackets(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	forge := func() {
		var all sync.WaitGroup
		for _, to := range []string{"-I 10.2.0.1 10.1.0.5", "-I 10.2.0.1 10.1.0.1", "-I fd02::1 fd01::5", "-I fd02::1 fd01::1"} {
			all.Go(func() { s.b.run("ping -q -c 1 -W 0.5 " + to) })
		}
		all.Wait()
	}
	forge()
	host, gate := s.host.received(t), s.a.received(t)
	if host != "1 1" || gate != "1 1" {
		t.Fatalf("without a policy the forger reaches host %s, gateway %s; want 1 1", host, gate)
	}
	s.a.start(t)
	s.a.apply(t, child(&s.a, &s.b, 0x1001, 0x2001, "10.1.0.0/16", "10.2.0.0/16")...)
	s.a.apply(t, child(&s.a, &s.b, 0x1002, 0x2002, "fd01::/64", "fd02::/64")...)
	forge()
	if h, g := s.host.received(t), s.a.received(t); h != host || g != gate {
		t.Errorf("received at the host %s, before %s; at the gateway %s, before %s", h, host, g, gate)
	}
	s.a.stop(t)
	forge() // and so it stays without the process
	if h, g := s.host.received(t), s.a.received(t); h != host || g != gate {
		t.Errorf("after Close received at the host %s, before %s; at the gateway %s, before %s", h, host, g, gate)
	}
}

// A new process takes over what the last one left, and Sweep removes what it does not want.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.a.start(t)
	s.b.start(t)
	first := child(&s.a, &s.b, 0x1001, 0x2001, "10.1.0.0/16", "10.2.0.0/16")
	s.a.apply(t, first...)
	s.a.apply(t, child(&s.a, &s.b, 0x1003, 0x2003, "10.1.0.0/16", "10.3.0.0/16")[2:]...)
	s.a.stop(t)
	for _, to := range []string{"10.2.0.1", "10.3.0.1"} {
		if out, err := s.a.run("ip route get " + to); err == nil {
			t.Errorf("after Close there is a way: %s", out)
		}
	}
	s.a.start(t)
	if out, err := s.a.run("ip route get 10.2.0.1"); err == nil {
		t.Errorf("before the first policy there is a way: %s", out)
	}
	s.a.apply(t, child(&s.a, &s.b, 0x1001, 0x2001, "10.1.0.0/16", "10.2.0.0/16")...)
	s.b.apply(t, child(&s.b, &s.a, 0x2001, 0x1001, "10.2.0.0/16", "10.1.0.0/16")...)
	s.a.do(func() {
		if err := s.a.driver.Sweep(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.host.pings(t, "10.2.0.1")
	if out, err := s.a.run("ip route show table 17241"); err != nil || strings.Contains(out, "10.3.0.0") {
		t.Errorf("not swept: %s", out)
	}
	for _, op := range first[2:] {
		s.a.apply(t, xfrm.RemovePolicy{Slot: op.(xfrm.PutPolicy).Policy.Slot})
	}
	for _, c := range []string{"ip rule", "ip route show table all", "ip xfrm policy"} {
		if out, err := s.a.run(c); err != nil || strings.Contains(out, "17241") || strings.Contains(out, "10.2.0") {
			t.Errorf("%s: left behind: %v\n%s", c, err, out)
		}
	}
	s.a.stop(t)
	s.b.stop(t)
}

// The remote prefix is everything, the peer's outer address included, and the host filters by reverse path strictly: neither ESP nor the local
// network goes into the TUN.
func TestEverythingThroughTheTunnel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.a.must(t, "sysctl -qw net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.wan.rp_filter=1 net.ipv4.conf.default.rp_filter=1")
	s.b.must(t, "ip addr add 203.0.113.9/32 dev lo")
	s.a.start(t)
	s.b.start(t)
	s.a.apply(t, child(&s.a, &s.b, 0x1001, 0x2001, "10.1.0.0/16", "0.0.0.0/0")...)
	s.b.apply(t, child(&s.b, &s.a, 0x2001, 0x1001, "0.0.0.0/0", "10.1.0.0/16")...)
	s.host.pings(t, "203.0.113.9")
	s.host.pings(t, "10.2.0.1")
	s.host.pings(t, "192.0.2.2") // the peer's outer address, from inside
	s.a.pings(t, "10.1.0.5")     // the gateway's own network
	s.host.pings(t, "10.1.0.1")
	s.a.stop(t)
	s.b.stop(t)
}

// Host to host: the selectors are the outer addresses themselves.
func TestHostToHost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.a.start(t)
	s.b.start(t)
	s.a.apply(t, child(&s.a, &s.b, 0x1001, 0x2001, "192.0.2.1/32", "192.0.2.2/32")...)
	s.b.apply(t, child(&s.b, &s.a, 0x2001, 0x1001, "192.0.2.2/32", "192.0.2.1/32")...)
	s.a.pings(t, "192.0.2.2")
	s.b.pings(t, "192.0.2.1")
	for _, g := range []*gateway{&s.a, &s.b} {
		_ = g.driver.UsageAll(context.Background(), func(id xfrm.SAID, u xfrm.Usage) bool {
			if u.Packets < 6 {
				t.Errorf("%s carried %d packets, want 6", id, u.Packets)
			}
			return true
		})
	}
	s.a.stop(t)
	s.b.stop(t)
}

func TestRemoveRules(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.a.must(t, "ip rule add pref 9 to 10.9.0.0/16 lookup main")
	s.a.start(t)
	s.a.apply(t, child(&s.a, &s.b, 0x1001, 0x2001, "fd01::/64", "fd02::/64")...)
	s.a.apply(t, child(&s.a, &s.b, 0x1002, 0x2002, "10.1.0.0/16", "0.0.0.0/0")...)
	s.a.stop(t)
	s.a.do(func() {
		removed, err := RemoveRules()
		if err != nil || !slices.Contains(removed, "rule 17200 lookup 17241") {
			t.Error(removed, err)
		}
	})
	for _, c := range []string{"ip rule", "ip -6 rule"} {
		if out, err := s.a.run(c); err != nil || strings.Contains(out, "proto 67") {
			t.Errorf("%s: left behind: %v\n%s", c, err, out)
		}
	}
	if out, _ := s.a.run("ip rule"); !strings.Contains(out, "10.9.0.0/16") {
		t.Errorf("another's rule is gone:\n%s", out)
	}
}
