package kernel

import (
	"context"
	"fmt"
	"net/netip"

	"cygnet/xfrm"
	"cygnet/xfrm/netcfg"
)

// routes leads packets to the outbound policies. The kernel looks for a route to the packet's destination before it looks
// at policies: without any route the packet never gets there, and with the default route alone a packet of this
// host's own takes an outer address as its source, which no selector covers.
type routes struct {
	host *netcfg.Host
	own  bool
}

func openRoutes(h *netcfg.Host) (*routes, error) {
	if h != nil {
		return &routes{host: h}, nil
	}
	h, err := netcfg.New()
	if err != nil {
		return nil, err
	}
	return &routes{host: h, own: true}, nil
}

func (r *routes) close() {
	if r.own {
		r.host.Close()
	}
}

// owner names a slot to netcfg.
func owner(s xfrm.Slot) string { return fmt.Sprintf("policy %+v", s) }

// follow sets the route that p needs, if it needs one, and gives up the one that its slot had.
func (r *routes) follow(ctx context.Context, p *xfrm.Policy) error {
	if p.Slot.Direction != xfrm.Out {
		return nil
	}
	var want netcfg.Desired
	if p.Action == xfrm.Protect && p.Template.Mode == xfrm.Tunnel && p.Template.Dst.IsValid() {
		list, err := r.needed(ctx, p)
		if err != nil {
			return fmt.Errorf("route for policy %v -> %v: %w", p.Slot.Selector.Src, p.Slot.Selector.Dst, err)
		}
		want.Routes = list
	}
	return r.host.Set(ctx, owner(p.Slot), want)
}

// leave gives up the route of a slot.
func (r *routes) leave(ctx context.Context, s xfrm.Slot) error {
	if s.Direction != xfrm.Out {
		return nil
	}
	return r.host.Set(ctx, owner(s), netcfg.Desired{})
}

// needed is decided thus: a remote prefix to which the administrator has a route, other than the default route, is left
// alone. Else it gets one, by the way that leads to the peer, if there is no route at all or if this host has an address
// of its own inside the local selector, which then is the source.
func (r *routes) needed(ctx context.Context, p *xfrm.Policy) ([]netcfg.Route, error) {
	remote := p.Slot.Selector.Dst
	now, err := r.host.Lookup(ctx, remote.Addr())
	there := err == nil
	if there && !now.Ours && now.Dst.Bits() > 0 && covers(now.Dst, remote) {
		return nil, nil
	}
	src, hasSrc, err := r.host.AddressIn(ctx, p.Slot.Selector.Src)
	if err != nil {
		return nil, err
	}
	if there && !now.Ours && !hasSrc {
		return nil, nil
	}
	way, err := r.host.Lookup(ctx, p.Template.Dst)
	if err != nil {
		return nil, err
	}
	route := netcfg.Route{Link: way.Link}
	if hasSrc {
		route.Src = src
	}
	if way.Via.IsValid() && way.Via.Is4() == remote.Addr().Is4() {
		route.Via = way.Via
	}
	var out []netcfg.Route
	for _, dst := range besideDefault(remote) {
		route.Dst = dst
		out = append(out, route)
	}
	return out, nil
}

// covers reports whether all of p lies in wide.
func covers(wide, p netip.Prefix) bool { return wide.Bits() <= p.Bits() && wide.Contains(p.Addr()) }

// besideDefault keeps the host's default route in place: "everything" is two halves, each more specific.
func besideDefault(p netip.Prefix) []netip.Prefix {
	if p.Bits() > 0 {
		return []netip.Prefix{p}
	}
	if p.Addr().Is4() {
		return []netip.Prefix{netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1")}
	}
	return []netip.Prefix{netip.MustParsePrefix("::/1"), netip.MustParsePrefix("8000::/1")}
}
