package rig

import (
	"net/netip"
	"strings"
)

// Third adds a gateway on the WAN, 203.0.113.9, whose LAN is itself: 10.3.0.10.
func (t *Topology) Third() (Site, error) {
	s := Site{
		Host: NS(t.prefix + "-gw-c"), Gateway: NS(t.prefix + "-gw-c"),
		LAN4: netip.MustParsePrefix("10.3.0.0/16"), Host4: netip.MustParseAddr("10.3.0.10"), GatewayLAN4: netip.MustParseAddr("10.3.0.10"),
		WAN4: netip.MustParseAddr("203.0.113.9"), Public4: netip.MustParseAddr("203.0.113.9"),
	}
	lines := strings.NewReplacer("GW", string(s.Gateway), "WAN", string(t.WAN)).Replace(`netns add GW
-n GW link set lo up
-n GW link add wan type veth peer name wan-c netns WAN
-n GW addr add 203.0.113.9/24 dev wan
-n GW addr add 10.3.0.10/32 dev lo
-n WAN addr add 203.0.113.254/24 dev wan-c
-n GW link set wan gso_max_segs 1 up
-n WAN link set wan-c up
-n GW route add default via 203.0.113.254`)
	return s, ip(strings.Split(lines, "\n")...)
}
