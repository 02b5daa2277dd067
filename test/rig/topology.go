package rig

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
)

// Options of a topology.
type Options struct {
	// NATA puts gateway A behind a NAT: the WAN rewrites its packets to the WAN's address on B's side.
	NATA bool
}

// Site is one end: its LAN host, its gateway, and their addresses in both families.
type Site struct {
	Host, Gateway    NS
	LAN4, LAN6       netip.Prefix
	Host4, Host6     netip.Addr
	GatewayLAN4      netip.Addr
	WAN4, WAN6       netip.Addr // the gateway's outer addresses
	Public4, Public6 netip.Addr // as the other site sees them
}

// Topology is
//
//	lan-a ---- gw-a ---- wan ---- gw-b ---- lan-b
//	10.1.0.10  192.0.2.1          198.51.100.7   10.2.0.10
type Topology struct {
	A, B   Site
	WAN    NS
	prefix string
}

// NewTopology makes the namespaces, named PREFIX-lan-a and so on. What exists under these names is removed first.
func NewTopology(prefix string, o Options) (*Topology, error) {
	if os.Geteuid() != 0 {
		return nil, ErrNotRoot
	}
	t := &Topology{prefix: prefix, WAN: NS(prefix + "-wan")}
	t.A = Site{
		Host: NS(prefix + "-lan-a"), Gateway: NS(prefix + "-gw-a"),
		LAN4: netip.MustParsePrefix("10.1.0.0/16"), LAN6: netip.MustParsePrefix("fd00:1::/64"),
		Host4: netip.MustParseAddr("10.1.0.10"), Host6: netip.MustParseAddr("fd00:1::10"),
		GatewayLAN4: netip.MustParseAddr("10.1.0.1"),
		WAN4:        netip.MustParseAddr("192.0.2.1"), WAN6: netip.MustParseAddr("2001:db8:a::1"),
	}
	t.B = Site{
		Host: NS(prefix + "-lan-b"), Gateway: NS(prefix + "-gw-b"),
		LAN4: netip.MustParsePrefix("10.2.0.0/16"), LAN6: netip.MustParsePrefix("fd00:2::/64"),
		Host4: netip.MustParseAddr("10.2.0.10"), Host6: netip.MustParseAddr("fd00:2::10"),
		GatewayLAN4: netip.MustParseAddr("10.2.0.1"),
		WAN4:        netip.MustParseAddr("198.51.100.7"), WAN6: netip.MustParseAddr("2001:db8:b::7"),
	}
	t.A.Public4, t.A.Public6 = t.A.WAN4, t.A.WAN6
	t.B.Public4, t.B.Public6 = t.B.WAN4, t.B.WAN6
	t.Remove()
	err := t.build()
	if err == nil && o.NATA {
		t.A.Public4, t.A.Public6 = netip.MustParseAddr("198.51.100.254"), netip.MustParseAddr("2001:db8:b::fe")
		_, err = t.WAN.Output("nft", "add table inet nat; add chain inet nat post { type nat hook postrouting priority 100; }; add rule inet nat post oifname wan-b masquerade")
	}
	if err != nil {
		t.Remove()
		return nil, err
	}
	return t, nil
}

func (t *Topology) namespaces() []NS {
	return []NS{t.A.Host, t.A.Gateway, t.WAN, t.B.Gateway, t.B.Host}
}

// Remove deletes the namespaces and with them every link, route, SA and policy inside. Processes that still run there are the caller's.
func (t *Topology) Remove() { RemoveTopology(t.prefix) }

// RemoveTopology removes the namespaces of a prefix.
func RemoveTopology(prefix string) {
	for _, n := range []string{"-lan-a", "-gw-a", "-wan", "-gw-b", "-lan-b", "-gw-c"} {
		if _, err := os.Stat("/run/netns/" + prefix + n); err == nil {
			ip("netns del " + prefix + n)
			os.RemoveAll("/etc/netns/" + prefix + n)
		}
	}
}

// Leftovers lists what a gateway should not have any more once cygnet is gone: SAs, policies, routes of ours, TUN devices.
func Leftovers(ns NS) (string, error) {
	var left strings.Builder
	for _, c := range []string{"ip xfrm state", "ip xfrm policy", "ip route show table all proto 67", "ip -6 route show table all proto 67",
		"ip -o link show type tun"} {
		f := strings.Fields(c)
		out, err := ns.Output(f[0], f[1:]...)
		if err != nil {
			return "", err
		}
		if out = strings.TrimSpace(out); out != "" {
			fmt.Fprintf(&left, "%s:\n%s\n", c, redactKeys(out))
		}
	}
	for _, c := range []string{"ip rule", "ip -6 rule"} { // "ip" cannot select rules by protocol
		f := strings.Fields(c)
		out, err := ns.Output(f[0], f[1:]...)
		if err != nil {
			return "", err
		}
		for l := range strings.Lines(out) {
			if strings.Contains(l, "proto 67") {
				fmt.Fprintf(&left, "%s:\n%s", c, l)
			}
		}
	}
	return left.String(), nil
}

func (t *Topology) build() error {
	for _, n := range t.namespaces() {
		if err := ip("netns add "+string(n), "-n "+string(n)+" link set lo up"); err != nil {
			return err
		}
		if _, err := n.Output("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
			"net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0"); err != nil {
			return err
		}
	}
	// The WAN sees each packet for itself, as a cable would: a veth hands on what a socket sent as one (UDP_SEGMENT).
	for side, s := range map[string]Site{"a": t.A, "b": t.B} {
		wan4, wan6 := lastOctet(s.WAN4, 254), lastOctet(s.WAN6, 254) // the WAN's side of the link
		lanGW6 := lastOctet(s.Host6, 1)
		lines := fmt.Sprintf(`-n GW link add lan type veth peer name eth0 netns HOST
-n GW link add wan type veth peer name wan-SIDE netns WAN
-n GW addr add GWLAN4/16 dev lan
-n GW addr add GWLAN6/64 dev lan nodad
-n GW addr add %[1]s/24 dev wan
-n GW addr add %[2]s/64 dev wan nodad
-n HOST addr add %[3]s/16 dev eth0
-n HOST addr add %[4]s/64 dev eth0 nodad
-n WAN addr add %[5]s/24 dev wan-SIDE
-n WAN addr add %[6]s/64 dev wan-SIDE nodad
-n GW link set lan up
-n GW link set wan gso_max_segs 1 up
-n HOST link set eth0 up
-n WAN link set wan-SIDE up
-n HOST route add default via GWLAN4
-n HOST -6 route add default via GWLAN6
-n GW route add default via %[5]s
-n GW -6 route add default via %[6]s`, s.WAN4, s.WAN6, s.Host4, s.Host6, wan4, wan6)
		lines = strings.NewReplacer("GWLAN4", s.GatewayLAN4.String(), "GWLAN6", lanGW6.String(), "GW", string(s.Gateway),
			"HOST", string(s.Host), "WAN", string(t.WAN), "SIDE", side).Replace(lines)
		if err := ip(strings.Split(lines, "\n")...); err != nil {
			return err
		}
	}
	return nil
}

// lastOctet replaces the last octet of an address.
func lastOctet(a netip.Addr, o byte) netip.Addr {
	b := a.AsSlice()
	b[len(b)-1] = o
	r, _ := netip.AddrFromSlice(b)
	return r
}

// KernelESP really adds an ESP SA in a namespace of its own, once, and returns why that failed, or nil.
var KernelESP = sync.OnceValue(func() error {
	ns := fmt.Sprintf("cyg-probe-%d", os.Getpid())
	if err := ip("netns add " + ns); err != nil {
		return err
	}
	defer ip("netns del " + ns)
	return ip("-n " + ns + " xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x1000 mode tunnel aead rfc4106(gcm(aes)) 0x" + strings.Repeat("11", 36) + " 128")
})
