package doctor

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// This is the host, or the container, in whose network namespace the program runs.
func This() Host {
	return Host{Has: bindable, Addresses: addresses, Forwards: func(v6 bool) bool { return forwards("/proc/sys/net", v6) }}
}

// bindable asks the kernel, which alone knows all that it takes for its own (net.ipv4.ip_nonlocal_bind, local routes). Any other failure than the
// one that says no counts as yes.
func bindable(a netip.Addr) bool {
	c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
	if err == nil {
		c.Close()
	}
	return !errors.Is(err, unix.EADDRNOTAVAIL)
}

func addresses() (list []netip.Addr) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, x := range all {
		if p, err := netip.ParsePrefix(x.String()); err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			list = append(list, p.Addr())
		}
	}
	return list
}

// forwards: the kernel looks at the switch of the interface on which a packet came; that for all sets those of each.
func forwards(root string, v6 bool) bool {
	family := "ipv4"
	if v6 {
		family = "ipv6"
	}
	files, _ := filepath.Glob(filepath.Join(root, family, "conf/*/forwarding"))
	known := false
	for _, f := range files {
		if name := filepath.Base(filepath.Dir(f)); name == "default" || name == "lo" {
			continue
		}
		if b, err := os.ReadFile(f); err == nil {
			if known = true; string(bytes.TrimSpace(b)) != "0" {
				return true
			}
		}
	}
	return !known
}
