package fetch

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// forbidden are the addresses that nobody is asked at: they lie on this host or its link, or stand for an IPv4 address that cannot be told from them.
var forbidden = [...]netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("240.0.0.0/4"), // 255.255.255.255 among them
	netip.MustParsePrefix("::/96"),       // ::, ::1, and the IPv4-compatible ones (RFC 4291 section 2.5.5.1)
	netip.MustParsePrefix("::ffff:0:0:0/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), // NAT64 by a prefix of the site's own (RFC 8215)
	netip.MustParsePrefix("2001::/32"),      // Teredo
	netip.MustParsePrefix("2002::/16"),      // 6to4
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("ff00::/8"),
}

// nat64 is the well-known prefix, which stands for global IPv4 addresses alone (RFC 6052 section 3.1).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// allowed refuses addresses that only this host or its link has: a name in a certificate must not reach what outsiders cannot. It looks at the address that is dialled,
// not at the name. own tells this host's addresses, now: they come and go.
func allowed(address string, own func() ([]netip.Addr, error)) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := a.Addr().Unmap().WithZone("")
	meant := ip
	if nat64.Contains(ip) {
		b := ip.As16()
		if meant = netip.AddrFrom4([4]byte(b[12:])); meant.IsPrivate() {
			return fmt.Errorf("its address %s is a NAT64 form of %s, which is none of the Internet", ip, meant)
		}
	}
	hosts, err := own()
	if err != nil {
		return fmt.Errorf("whether its address %s is one of this host is not known: %w", ip, err)
	}
	within := func(p netip.Prefix) bool { return p.Contains(meant) }
	if slices.ContainsFunc(forbidden[:], within) || slices.Contains(hosts, meant) {
		return fmt.Errorf("its address %s is one of this host or its link", ip)
	}
	return nil
}

// ownAddresses are those of this host's interfaces.
func ownAddresses() (list []netip.Addr, err error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				list = append(list, ip.Unmap())
			}
		}
	}
	return list, nil
}
