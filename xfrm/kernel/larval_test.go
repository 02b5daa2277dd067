package kernel

import (
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"cygnet/xfrm"

	"golang.org/x/sys/unix"
)

// pokeMarked is poke with a packet mark.
func (n *namespace) pokeMarked(t *testing.T, src, dst string, mark int) {
	t.Helper()
	n.must(t, func() error {
		d := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip(src), 0)), Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark) })
		}}
		c, err := d.Dial("udp", dst)
		if err != nil {
			return nil // connect meets the policy already
		}
		defer c.Close()
		c.Write([]byte("x"))
		return nil
	})
}

// TestLarvalOfDeadProcess: what an earlier process was asked for and did not answer is asked again, of the one that has started since.
func TestLarvalOfDeadProcess(t *testing.T) {
	n := gateway(t)
	n.ip(t, "xfrm policy add src 10.1.0.0/16 dst 10.5.0.0/16 dir out tmpl src 192.0.2.1 dst 192.0.2.9 proto esp reqid 1 mode tunnel")
	marked := protect(xfrm.Out, "10.1.0.0/16", "10.3.0.0/16")
	marked.Slot.Mark, marked.Template.ReqID = 7, 0x43590002
	six := protect(xfrm.Out, "fd00:1::/32", "fd00:2::/32")
	six.Template.ReqID = 0x43590003
	ask := func() {
		n.poke(t, "10.1.0.1", "10.2.0.9:4711")
		n.pokeMarked(t, "10.1.0.1", "10.3.0.9:4711", 7)
		n.poke(t, "fd00:1::1", "[fd00:2::9]:4711")
	}
	dead := n.driver(t, Config{})
	apply(t, dead, xfrm.PutPolicy{Policy: protect(xfrm.Out, "10.1.0.0/16", "10.2.0.0/16")}, xfrm.PutPolicy{Policy: marked}, xfrm.PutPolicy{Policy: six})
	n.poke(t, "10.1.0.1", "10.5.0.9:4711")
	ask()
	if text := n.ip(t, "xfrm state"); strings.Count(text, "reqid 1129906") != 3 {
		t.Fatalf("the kernel has no note of the ACQUIREs, so this test shows nothing:\n%s", text)
	}

	d := n.driver(t, Config{})
	dump(t, d)
	if text := n.ip(t, "xfrm state"); strings.Count(text, "spi ") != 1 || !strings.Contains(text, "reqid 1 ") {
		t.Errorf("another's note alone should be left, not:\n%s", text)
	}
	ask()
	for _, reqid := range []uint32{0x43590001, 0x43590002, 0x43590003} {
		event(t, d, func(a xfrm.Acquire) bool { return a.ReqID == reqid })
	}
}

// TestCloseLeavesNoLarval: a clean stop is without traces of unanswered ACQUIREs.
func TestCloseLeavesNoLarval(t *testing.T) {
	n := gateway(t)
	var d *Driver
	n.must(t, func() (err error) {
		d, err = open(Config{})
		return err
	})
	apply(t, d, xfrm.PutPolicy{Policy: protect(xfrm.Out, "10.1.0.0/16", "10.2.0.0/16")})
	n.poke(t, "10.1.0.1", "10.2.0.9:4711")
	event(t, d, func(xfrm.Acquire) bool { return true })
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	n.poke(t, "10.1.0.1", "10.2.0.9:4711") // the policy holds, but nobody listens any more
	if text := n.ip(t, "xfrm state"); text != "" {
		t.Errorf("left:\n%s", text)
	}
}
