package netcfg

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// Path is how this host reaches a destination: the matching route's prefix (Dst), its link, gateway and, as Src, the
// source that the kernel takes.
type Path struct {
	Route
	Ours bool // the route is of our protocol number
}

// Lookup says how this host reaches dst now.
func (h *Host) Lookup(ctx context.Context, dst netip.Addr) (Path, error) {
	if err := ctx.Err(); err != nil {
		return Path{}, err
	}
	match, err := h.nl.RouteGetWithOptions(dst.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil {
		return Path{}, fmt.Errorf("no route to %v: %w", dst, err)
	}
	got, err := h.nl.RouteGet(dst.AsSlice())
	if err != nil {
		return Path{}, fmt.Errorf("no route to %v: %w", dst, err)
	}
	if len(match) != 1 || len(got) != 1 {
		return Path{}, fmt.Errorf("route to %v: the kernel answers with %d routes", dst, len(got))
	}
	r, err := h.decodeRoute(got[0])
	if err != nil {
		return Path{}, err
	}
	r.Dst = prefix(match[0].Dst, match[0].Family)
	r.Metric, r.Table = match[0].Priority, match[0].Table
	return Path{r, match[0].Protocol == RouteProtocol}, nil
}

// Addresses returns those of this host in its network namespace, both families.
func (h *Host) Addresses(ctx context.Context) ([]netip.Addr, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all, err := h.nl.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	out := make([]netip.Addr, 0, len(all))
	for _, k := range all {
		out = append(out, addr(k.IP).Unmap())
	}
	return out, nil
}

// AddressIn returns an address of this host inside p, preferring none over one that is loopback's own (127.0.0.1, ::1)
// or link-local; false when there is none.
func (h *Host) AddressIn(ctx context.Context, p netip.Prefix) (netip.Addr, bool, error) {
	if err := ctx.Err(); err != nil {
		return netip.Addr{}, false, err
	}
	family := netlink.FAMILY_V4
	if p.Addr().Is6() {
		family = netlink.FAMILY_V6
	}
	all, err := h.nl.AddrList(nil, family)
	if err != nil {
		return netip.Addr{}, false, fmt.Errorf("list addresses: %w", err)
	}
	for _, k := range all {
		a := addr(k.IP).Unmap()
		if p.Contains(a) && !a.IsLoopback() && !a.IsLinkLocalUnicast() {
			return a, true, nil
		}
	}
	return netip.Addr{}, false, nil
}
