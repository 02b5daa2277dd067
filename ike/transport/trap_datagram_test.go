package transport

import (
	"bytes"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cygnet/ike"
)

// RFC 7296 section 2: messages of 1280 octets must pass, of 3000 should; both ports, both families.
func TestTrap_7296_76_Sizes(t *testing.T) {
	a, b := open(t), open(t)
	for _, addr := range loopbacks(t) {
		for _, size := range []int{28, 1280, 3000} {
			for _, natt := range []bool{false, true} {
				p := ike.Path{Local: netip.AddrPortFrom(addr, a.Transport.config.Port), Remote: netip.AddrPortFrom(addr, b.Transport.config.Port)}
				if natt {
					p = ike.Path{Local: netip.AddrPortFrom(addr, a.Transport.config.NATTPort), Remote: netip.AddrPortFrom(addr, b.Transport.config.NATTPort)}
				}
				want := message(7, size)
				if err := a.Send(p, want); err != nil {
					t.Fatal(err)
				}
				if got := wait(t, b.ike); !bytes.Equal(got.Data, want) {
					t.Errorf("%v: %d octets arrive as %d", p, size, len(got.Data))
				}
			}
		}
	}
}

// RFC 3948 section 2.1: whether the UDP checksum is 0 says nothing.
func TestTrap_3948_3_AnyChecksum(t *testing.T) {
	n := open(t)
	for _, none := range []int{0, 1} {
		control := func(_, _ string, c syscall.RawConn) error {
			var err error
			if outer := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, none) }); outer != nil {
				return outer
			}
			return err
		}
		d := net.Dialer{Control: control}
		c, err := d.Dial("udp4", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), n.Transport.config.NATTPort).String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		marked := append(make([]byte, 4), message(5, 28)...)
		packet := message(byte(6+none), 40)
		for _, b := range [][]byte{marked, packet} {
			if _, err := c.Write(b); err != nil {
				t.Fatal(err)
			}
		}
		if got := wait(t, n.ike); !bytes.Equal(got.Data, marked[4:]) {
			t.Errorf("SO_NO_CHECK %d: IKE arrives as %x", none, got.Data)
		}
		if got := wait(t, n.esp); !bytes.Equal(got.Packets[0], packet) {
			t.Errorf("SO_NO_CHECK %d: ESP arrives as %x", none, got.Packets[0])
		}
	}
}
