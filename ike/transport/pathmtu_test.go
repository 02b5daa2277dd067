package transport

import (
	"net"
	"net/netip"
	"testing"
)

func TestPathMTU(t *testing.T) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		t.Skip(err)
	}
	for _, a := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
		if a.Is6() && !ofHost(a) {
			continue // a host without IPv6
		}
		want := lo.MTU
		if a.Is4() {
			want = min(want, 65535) // no IPv4 packet is longer
		}
		for _, local := range []netip.Addr{a, {}} {
			if mtu, err := PathMTU(local, a); err != nil || mtu != want {
				t.Errorf("from %v to %v: %d octets, %v; want %d", local, a, mtu, err, want)
			}
		}
	}
	if _, err := PathMTU(netip.IPv6Loopback(), netip.MustParseAddr("127.0.0.1")); err == nil {
		t.Error("no error for two families")
	}
}
