package netcfg

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ipv6DefaultMetric is what the kernel stores for an IPv6 route without a metric (IP6_RT_PRIO_USER).
const ipv6DefaultMetric = 1024

// routeKey is what the kernel takes for a route's identity.
type routeKey struct {
	table, metric int
	dst           netip.Prefix
}

func (r Route) key() routeKey { return routeKey{r.Table, r.Metric, r.Dst} }

// normal is r as the kernel will show it.
func (r Route) normal() Route {
	r.Dst = r.Dst.Masked()
	if r.Table == 0 {
		r.Table = unix.RT_TABLE_MAIN
	}
	if r.Metric == 0 && r.Dst.Addr().Is6() {
		r.Metric = ipv6DefaultMetric
	}
	return r
}

func (r Route) String() string {
	var b strings.Builder
	if r.Unreachable {
		b.WriteString("unreachable ")
	}
	b.WriteString(r.Dst.String())
	for _, f := range []struct {
		name string
		set  bool
		v    any
	}{
		{"via", r.Via.IsValid(), r.Via}, {"dev", r.Link != "", r.Link}, {"src", r.Src.IsValid(), r.Src},
		{"metric", r.Metric != 0, r.Metric}, {"mtu", r.MTU != 0, r.MTU},
		{"table", r.Table != 0 && r.Table != unix.RT_TABLE_MAIN, r.Table},
	} {
		if f.set {
			fmt.Fprintf(&b, " %s %v", f.name, f.v)
		}
	}
	return b.String()
}

func sortedKeys(m map[routeKey]Route) []routeKey {
	keys := make([]routeKey, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b routeKey) int {
		if c := a.dst.Addr().Compare(b.dst.Addr()); c != 0 {
			return c
		}
		return (a.dst.Bits()-b.dst.Bits())<<1 + min(1, max(-1, a.metric-b.metric))
	})
	return keys
}

// addRoute makes the kernel have r (in normal form). held: an owner holds exactly r already.
func (h *Host) addRoute(r Route, held bool) error {
	k, err := h.encodeRoute(r)
	if err != nil {
		return fmt.Errorf("route %v: %w", r, err)
	}
	// First with NLM_F_EXCL, so that a foreign route of the same identity is never replaced.
	err = h.nl.RouteAdd(k)
	if err == nil || held && errors.Is(err, unix.EEXIST) {
		return nil
	}
	if !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add route %v: %w%s", r, err, hint(err, r))
	}
	there, err := h.find(r.key())
	if err != nil {
		return fmt.Errorf("route %v: look at the one that is there: %w", r, err)
	}
	for _, t := range there {
		if t.Protocol != RouteProtocol {
			return fmt.Errorf("add route %v: another route to it is there (proto %v, not ours): remove that one or give it another metric: %w",
				r, t.Protocol, unix.EEXIST)
		}
	}
	if len(there) == 1 {
		if now, err := h.decodeRoute(there[0]); err == nil && now == r {
			return nil
		}
	}
	if err := h.nl.RouteReplace(k); err != nil {
		return fmt.Errorf("replace route %v: %w%s", r, err, hint(err, r))
	}
	return nil
}

// removeRoute removes r; that it is gone already is no error.
func (h *Host) removeRoute(r Route) error {
	// The link is left out: it may be gone, or exist anew under another index. Scope NOWHERE stands for any.
	err := h.nl.RouteDel(&netlink.Route{
		Dst: ipNet(r.Dst), Table: r.Table, Priority: r.Metric, Protocol: RouteProtocol, Type: routeType(r), Scope: netlink.SCOPE_NOWHERE,
	})
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove route %v: %w", r, err)
	}
	return nil
}

// Routes lists our routes in h's network namespace.
func (h *Host) Routes() ([]Route, error) { return h.routes() }

func (h *Host) routes() ([]Route, error) {
	ours, err := h.nl.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: RouteProtocol},
		netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var out []Route
	for _, k := range ours {
		r, err := h.decodeRoute(k)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// find lists the routes with identity k, ours or not.
func (h *Host) find(k routeKey) ([]netlink.Route, error) {
	family := netlink.FAMILY_V4
	if k.dst.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	all, err := h.nl.RouteListFiltered(family, &netlink.Route{Table: k.table, Dst: ipNet(k.dst)}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r netlink.Route) bool { return r.Priority != k.metric }), nil
}

func routeType(r Route) int {
	if r.Unreachable {
		return unix.RTN_UNREACHABLE
	}
	return unix.RTN_UNICAST
}

func (h *Host) encodeRoute(r Route) (*netlink.Route, error) {
	k := &netlink.Route{
		Dst: ipNet(r.Dst), Table: r.Table, Priority: r.Metric, Protocol: RouteProtocol, Type: routeType(r), MTU: r.MTU,
	}
	switch {
	case !r.Dst.IsValid():
		return nil, errors.New("no destination")
	case r.Link == "" && !r.Unreachable:
		return nil, errors.New("no outgoing link")
	case r.Via.IsValid() && r.Via.Is4() != r.Dst.Addr().Is4():
		return nil, fmt.Errorf("gateway %v is not of the destination's address family", r.Via)
	case r.Src.IsValid() && r.Src.Is4() != r.Dst.Addr().Is4():
		return nil, fmt.Errorf("source %v is not of the destination's address family", r.Src)
	}
	if r.Link != "" {
		l, err := h.link(r.Link)
		if err != nil {
			return nil, err
		}
		k.LinkIndex = l.Attrs().Index
	}
	if r.Src.IsValid() {
		k.Src = r.Src.AsSlice()
	}
	if r.Via.IsValid() {
		k.Gw = r.Via.AsSlice()
	} else if r.Dst.Addr().Is4() && !r.Unreachable {
		k.Scope = netlink.SCOPE_LINK
	}
	return k, nil
}

func (h *Host) decodeRoute(k netlink.Route) (Route, error) {
	r := Route{
		Dst: prefix(k.Dst, k.Family), Src: addr(k.Src), Via: addr(k.Gw), MTU: k.MTU,
		Unreachable: k.Type == unix.RTN_UNREACHABLE, Metric: k.Priority, Table: k.Table,
	}
	if k.LinkIndex == 0 || r.Unreachable { // an unreachable IPv6 route shows the loopback link
		return r, nil
	}
	l, err := h.nl.LinkByIndex(k.LinkIndex)
	if err != nil {
		return Route{}, fmt.Errorf("route %v: link %d: %w", r, k.LinkIndex, err)
	}
	r.Link = l.Attrs().Name
	return r, nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// prefix of n; a default route has none in the dump.
func prefix(n *net.IPNet, family int) netip.Prefix {
	bits := 0
	if n != nil {
		bits, _ = n.Mask.Size()
	}
	if bits == 0 && family == netlink.FAMILY_V4 {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	if bits == 0 {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(addr(n.IP), bits)
}

// addr of ip, whose length tells the family; an IPv6 route to an IPv4-mapped prefix stays IPv6.
func addr(ip net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(ip)
	return a
}

// hint tells what to look at for the errors that people meet.
func hint(err error, r Route) string {
	switch {
	case errors.Is(err, unix.EINVAL) && r.Src.IsValid():
		return fmt.Sprintf(" (is %v an address of this host?)", r.Src)
	case errors.Is(err, unix.ENETUNREACH) && r.Via.IsValid():
		return fmt.Sprintf(" (the gateway %v is not reachable by link %s)", r.Via, r.Link)
	case errors.Is(err, unix.ENETDOWN):
		return fmt.Sprintf(" (link %s is down)", r.Link)
	case errors.Is(err, unix.EPERM):
		return " (CAP_NET_ADMIN is needed)"
	}
	return ""
}
