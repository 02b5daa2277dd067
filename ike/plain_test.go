package ike

import (
	"net/netip"
	"testing"

	"cygnet/policy"
	"cygnet/xfrm"
)

// TestPeerStays: an initiator that stays on port 500 does not encapsulate without need, so we stop pretending a NAT; a real one is another matter.
func TestPeerStays(t *testing.T) {
	at := func(port uint16) Path {
		return Path{Local: netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), port), Remote: netip.MustParseAddrPort("198.51.100.7:500")}
	}
	for _, c := range []struct {
		found nat
		port  uint16
		encap bool
	}{
		{nat{faked: true}, 500, false},
		{nat{faked: true}, 4500, true},
		{nat{faked: true, remote: true}, 500, true},
		{nat{faked: true, local: true}, 500, true},
		{nat{}, 500, false},
	} {
		sa := &SA{nat: c.found}
		sa.peerStays(at(c.port))
		if sa.nat.encap() != c.encap {
			t.Errorf("%+v, IKE_AUTH on port %d: ESP in UDP %v, want %v", c.found, c.port, sa.nat.encap(), c.encap)
		}
	}
}

// TestWantsEncap: the configuration's word goes before what the data plane likes better.
func TestWantsEncap(t *testing.T) {
	for _, c := range []struct {
		must bool
		says policy.Encapsulation
		want bool
	}{
		{true, policy.EncapAuto, true},
		{true, policy.EncapNever, false},
		{false, policy.EncapAuto, false},
		{false, policy.EncapAlways, true},
		{false, policy.EncapNever, false},
	} {
		sa := &SA{config: Config{Caps: xfrm.Capabilities{MustEncap: c.must}}}
		if got := sa.wantsEncap(&policy.Connection{Encap: c.says}); got != c.want {
			t.Errorf("the data plane asks for it: %v; encapsulation = %s: %v, want %v", c.must, c.says, got, c.want)
		}
	}
}
