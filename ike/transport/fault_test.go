package transport

import (
	"fmt"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"cygnet/ike"
)

// TestFaultOf: the host's refusals are told apart by really sending. Documentation addresses are none of any host.
func TestFaultOf(t *testing.T) {
	ports := [2]uint16{}
	for i := range ports {
		c, err := net.ListenUDP("udp", nil)
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
		c.Close()
	}
	tr, err := Open(Config{Port: ports[0], NATTPort: ports[1], IKE: func(ike.Packet) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	path := func(local, remote string) ike.Path {
		return ike.Path{Local: netip.AddrPortFrom(netip.MustParseAddr(local), ports[0]), Remote: netip.AddrPortFrom(netip.MustParseAddr(remote), 500)}
	}
	none := path("203.0.113.77", "127.0.0.2")
	switch err := tr.Send(none, []byte("x")); {
	case err == nil:
		t.Error("sent from an address that is none of this host")
	case FaultOf(none.Local.Addr(), err) != ike.SendNoSource:
		t.Errorf("%v is fault %d, want no such source", err, FaultOf(none.Local.Addr(), err))
	}
	ours := path("127.0.0.1", "127.0.0.2")
	if err := tr.Send(ours, []byte("x")); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		local string
		err   error
		want  ike.SendFault
	}{
		{"127.0.0.1", unix.ENETUNREACH, ike.SendNoRoute}, {"127.0.0.1", unix.EHOSTUNREACH, ike.SendNoRoute}, {"127.0.0.1", unix.EPERM, ike.SendRefused},
		{"127.0.0.1", unix.EINVAL, ike.SendRefused}, {"127.0.0.1", unix.EMSGSIZE, ike.SendTooLarge}, {"203.0.113.77", unix.EINVAL, ike.SendNoSource}, {"203.0.113.77", unix.EPERM, ike.SendRefused},
		{"2001:db8::77", unix.EADDRNOTAVAIL, ike.SendNoSource},
	} {
		if got := FaultOf(netip.MustParseAddr(c.local), fmt.Errorf("send: %w", c.err)); got != c.want {
			t.Errorf("%v from %s is fault %d, want %d", c.err, c.local, got, c.want)
		}
	}
}
