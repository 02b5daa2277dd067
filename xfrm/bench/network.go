// Package bench measures tunnels on one machine: it makes networks of namespaces, starts two cygnetd in them, sends traffic through and reads what the
// processes computed. "ikectl bench" and the ratios to peers in test/bench use it. It needs root, touches nothing outside the namespaces
// that it makes, and leaves nothing behind.
package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Addresses of every network.
var (
	LANA     = netip.MustParsePrefix("10.71.1.0/24")
	LANB     = netip.MustParsePrefix("10.71.2.0/24")
	ClientA  = netip.MustParseAddr("10.71.1.2")
	ClientB  = netip.MustParseAddr("10.71.2.2")
	GatewayA = netip.MustParseAddr("192.0.2.1") // on the WAN
	GatewayB = netip.MustParseAddr("192.0.2.2")
	lanA     = netip.MustParseAddr("10.71.1.1")
	lanB     = netip.MustParseAddr("10.71.2.1")
)

// Network is
//
//	client A ------- gateway A ------ gateway B ------- client B
//	10.71.1.2  10.71.1.1  192.0.2.1  192.0.2.2  10.71.2.1  10.71.2.2
//
// with veth links. Without a tunnel the clients do not reach each other.
type Network struct{ ClientA, GatewayA, GatewayB, ClientB *Namespace }

// NewNetwork makes the four namespaces; name tells those of one process apart and must be short. wanMTU is that of the link between the gateways in octets, that
// of the others is lanMTU.
func NewNetwork(name string, wanMTU, lanMTU int) (*Network, error) {
	w := new(Network)
	for suffix, n := range map[string]**Namespace{"client-a": &w.ClientA, "gw-a": &w.GatewayA, "gw-b": &w.GatewayB, "client-b": &w.ClientB} {
		made, err := newNamespace(fmt.Sprintf("%s%d-%s-%s", prefix, os.Getpid(), name, suffix))
		if err != nil {
			return nil, errors.Join(err, w.Close())
		}
		*n = made
	}
	for _, l := range []link{
		{w.ClientA, "lan", netip.PrefixFrom(ClientA, 24), w.GatewayA, "lan", netip.PrefixFrom(lanA, 24), lanMTU},
		{w.GatewayA, "wan", netip.PrefixFrom(GatewayA, 24), w.GatewayB, "wan", netip.PrefixFrom(GatewayB, 24), wanMTU},
		{w.GatewayB, "lan", netip.PrefixFrom(lanB, 24), w.ClientB, "lan", netip.PrefixFrom(ClientB, 24), lanMTU},
	} {
		if err := l.make(); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	err := errors.Join(
		w.ClientA.Route(LANB, lanA, "lan"), w.ClientB.Route(LANA, lanB, "lan"),
		w.GatewayA.forward(), w.GatewayB.forward(),
	)
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Forward lets the gateways forward between the LANs without a tunnel.
func (w *Network) Forward() error {
	return errors.Join(w.GatewayA.Route(LANB, GatewayB, "wan"), w.GatewayB.Route(LANA, GatewayA, "wan"))
}

// Speaker is a process that may have to say why its tunnel does not work.
type Speaker interface {
	Dead() bool
	Output() string
}

// Carries waits until client A hears from client B, through a tunnel of some processes. When it does not, what these said last is in the error.
func (w *Network) Carries(ctx context.Context, by ...Speaker) error {
	var err error
	until(ctx, patience, func() bool {
		_, err = Echo(w.ClientA, ClientB, 64, 1, 0)
		return err == nil || slices.ContainsFunc(by, Speaker.Dead)
	})
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	err = fmt.Errorf("client A does not hear from client B: %w", err)
	for _, s := range by {
		err = fmt.Errorf("%w\nit said:\n%s", err, last(s.Output()))
	}
	return err
}

// Close removes the namespaces. Processes inside are the caller's.
func (w *Network) Close() error {
	var errs []error
	for _, n := range []*Namespace{w.ClientA, w.GatewayA, w.GatewayB, w.ClientB} {
		if n != nil {
			errs = append(errs, n.remove())
		}
	}
	return errors.Join(errs...)
}

// link is a veth pair between two namespaces.
type link struct {
	left     *Namespace
	name     string
	address  netip.Prefix
	right    *Namespace
	peer     string
	opposite netip.Prefix
	mtu      int
}

func (l *link) make() error {
	peer, err := os.Open(namespaces + "/" + l.right.Name)
	if err != nil {
		return err
	}
	defer peer.Close()
	err = l.left.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = l.name, l.mtu
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: l.peer, PeerMTU: uint32(l.mtu), PeerNamespace: netlink.NsFd(peer.Fd())})
	})
	if err == nil {
		err = errors.Join(l.left.address(l.name, l.address), l.right.address(l.peer, l.opposite))
	}
	if err != nil {
		return fmt.Errorf("link of %s and %s: %w", l.left.Name, l.right.Name, err)
	}
	return nil
}

// address gives a link an address and sets it, and the loopback interface, up.
func (n *Namespace) address(name string, p netip.Prefix) error {
	return n.Do(func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(l, &netlink.Addr{IPNet: ipNet(p)}), netlink.LinkSetUp(lo), netlink.LinkSetUp(l))
	})
}

// Route adds a route through a link; via may be zero.
func (n *Namespace) Route(dst netip.Prefix, via netip.Addr, name string) error {
	return n.Do(func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("%s: link %s: %w", n.Name, name, err)
		}
		r := netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(dst)}
		if via.IsValid() {
			r.Gw = via.AsSlice()
		}
		if err := netlink.RouteReplace(&r); err != nil {
			return fmt.Errorf("%s: route to %s by %s: %w", n.Name, dst, name, err)
		}
		return nil
	})
}

// Configure gives a link, a tunnel's, its MTU in octets and sets it up.
func (n *Namespace) Configure(name string, mtu int) error {
	return n.Do(func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("%s: link %s: %w", n.Name, name, err)
		}
		return errors.Join(netlink.LinkSetMTU(l, mtu), netlink.LinkSetUp(l))
	})
}

// HasLink says whether there is a link of that name.
func (n *Namespace) HasLink(name string) bool {
	return n.Do(func() error { _, err := netlink.LinkByName(name); return err }) == nil
}

func (n *Namespace) forward() error {
	return n.Do(func() error {
		for _, f := range []struct{ name, value string }{
			{"ip_forward", "1"}, {"conf/all/rp_filter", "0"}, {"conf/default/rp_filter", "0"},
		} {
			// /proc/sys/net is that of the thread's namespace.
			if err := os.WriteFile("/proc/sys/net/ipv4/"+f.name, []byte(f.value), 0o644); err != nil {
				return fmt.Errorf("%s: %w (in a container: /proc/sys must be writable)", n.Name, err)
			}
		}
		return nil
	})
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// CheckTUN says why no TUN device can be made, or nil.
func CheckTUN() error {
	f, err := os.OpenFile("/dev/net/tun", unix.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("userspace tunnels need a TUN device: %w (modprobe tun; in a container: --device /dev/net/tun)", err)
	}
	return f.Close()
}
