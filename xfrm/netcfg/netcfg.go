// Package netcfg brings links, addresses and routes of the host into a wanted state. It is told what an owner (a
// connection, a driver) wants now; it adds what is missing before it removes what the owner wanted earlier.
//
// It never touches what is not ours: routes are ours by RouteProtocol, and a foreign route or address that stands
// where we want one is an error or is left in place.
package netcfg

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// RouteProtocol marks our routes (rtm_protocol; "proto 67" in iproute2). It outlives the process, so that the next
// one finds them.
const RouteProtocol = 67

// Route is one route of ours. Table, Dst and Metric are its identity: a second Route with the same three replaces it.
type Route struct {
	Dst         netip.Prefix
	Link        string     // outgoing link; may be empty with Unreachable
	Src         netip.Addr // preferred source of packets from this host; may be zero
	Via         netip.Addr // gateway of Dst's family; may be zero
	MTU         int        // octets; 0: the link's
	Unreachable bool       // answer with ICMP unreachable instead of sending
	Metric      int        // smaller wins; for IPv6 the kernel turns 0 into 1024
	Table       int        // 0: main
}

// Address is an address on a link, with the length of its on-link prefix.
type Address struct {
	Link   string
	Prefix netip.Prefix
}

// Link is what is wanted of a link that exists; zero values leave things as they are. Nothing of it is undone later.
type Link struct {
	Name       string
	Up         bool
	MTU        int // octets
	TxQueueLen int // packets
}

// Desired is all that one owner wants.
type Desired struct {
	Routes    []Route
	Addresses []Address
	Links     []Link
}

// Host is the network configuration of one network namespace: the one of the thread that called New. It is safe for
// concurrent use.
type Host struct {
	nl *netlink.Handle

	mu     sync.Mutex
	owners map[string]*holding
}

// holding is what one owner holds: its routes in their normal form, and the addresses that we really added for it.
type holding struct {
	routes    map[routeKey]Route
	addresses map[Address]bool // false: it was there before us and stays
}

// New opens the network configuration of the calling thread's network namespace.
func New() (*Host, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open the kernel's route socket: %w", err)
	}
	return &Host{nl: h, owners: map[string]*holding{}}, nil
}

// Close releases the socket. What was set stays.
func (h *Host) Close() { h.nl.Close() }

// Set makes the host as d says, on behalf of owner: links first, then addresses, then routes; then what the same owner
// wanted earlier and wants no longer is removed, unless another owner wants it. It can be repeated at will. When
// something cannot be added nothing is removed, so that an old route never goes before its successor is there.
func (h *Host) Set(ctx context.Context, owner string, d Desired) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	held := h.owners[owner]
	if held == nil {
		held = &holding{routes: map[routeKey]Route{}, addresses: map[Address]bool{}}
		h.owners[owner] = held
	}
	if err := h.add(ctx, held, d); err != nil {
		return err
	}
	err := h.removeUnwanted(ctx, held, d)
	if len(held.routes) == 0 && len(held.addresses) == 0 {
		delete(h.owners, owner)
	}
	return err
}

func (h *Host) add(ctx context.Context, held *holding, d Desired) error {
	var errs []error
	for _, l := range d.Links {
		if err := h.setLink(l); err != nil {
			errs = append(errs, err)
		}
	}
	for _, a := range d.Addresses {
		added, err := h.addAddress(a)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		held.addresses[a] = added || held.addresses[a] || h.addedByOther(held, a)
	}
	for _, r := range d.Routes {
		r = r.normal()
		if err := h.addRoute(r, h.holds(r)); err != nil {
			errs = append(errs, err)
			continue
		}
		held.routes[r.key()] = r
	}
	return errors.Join(append(errs, ctx.Err())...)
}

func (h *Host) removeUnwanted(ctx context.Context, held *holding, d Desired) error {
	wanted := map[routeKey]bool{}
	for _, r := range d.Routes {
		wanted[r.normal().key()] = true
	}
	var errs []error
	for _, k := range sortedKeys(held.routes) {
		if wanted[k] {
			continue
		}
		var err error
		if other, ok := h.routeOf(k, held); !ok {
			err = h.removeRoute(held.routes[k])
		} else if other != held.routes[k] {
			err = h.addRoute(other, false) // ours had replaced it
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		delete(held.routes, k)
	}
	for a, ours := range held.addresses {
		if slices.Contains(d.Addresses, a) {
			continue
		}
		if ours && !h.addressWanted(a, held) {
			if err := h.removeAddress(a); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		delete(held.addresses, a)
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// holds reports whether r, and no other route of its identity, is held: then the kernel has it, or has lost it with
// its link.
func (h *Host) holds(r Route) bool {
	found := false
	for _, o := range h.owners {
		if there, ok := o.routes[r.key()]; ok {
			if there != r {
				return false
			}
			found = true
		}
	}
	return found
}

// routeOf returns the route of identity k that an owner other than except holds.
func (h *Host) routeOf(k routeKey, except *holding) (Route, bool) {
	for _, o := range h.owners {
		if r, ok := o.routes[k]; ok && o != except {
			return r, true
		}
	}
	return Route{}, false
}

func (h *Host) addressWanted(a Address, except *holding) bool {
	for _, o := range h.owners {
		if _, ok := o.addresses[a]; ok && o != except {
			return true
		}
	}
	return false
}

func (h *Host) addedByOther(except *holding, a Address) bool {
	for _, o := range h.owners {
		if o != except && o.addresses[a] {
			return true
		}
	}
	return false
}

// Sweep removes the routes of our protocol number that are neither in keep nor wanted by an owner: what an earlier
// process left behind. Call it after the first Set calls, so that a protected prefix is never without its route.
func (h *Host) Sweep(ctx context.Context, keep []Route) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ours, err := h.routes()
	if err != nil {
		return err
	}
	kept := map[routeKey]bool{}
	for _, r := range keep {
		kept[r.normal().key()] = true
	}
	var errs []error
	for _, r := range ours {
		if _, held := h.routeOf(r.key(), nil); held || kept[r.key()] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		errs = append(errs, h.removeRoute(r))
	}
	return errors.Join(errs...)
}

// Flush removes all routes of our protocol number from the calling thread's network namespace and returns them. It must not be called while
// an owner wants any.
func Flush(ctx context.Context) ([]Route, error) {
	h, err := New()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	before, err := h.Routes()
	if err != nil {
		return nil, err
	}
	if err := h.Sweep(ctx, nil); err != nil {
		after, _ := h.Routes()
		return slices.DeleteFunc(before, func(r Route) bool { return slices.Contains(after, r) }), err
	}
	return before, nil
}

// Routes lists the routes of our protocol number in the calling thread's network namespace, in the order of the
// kernel's dump, with Table and Metric as the kernel shows them.
func Routes(ctx context.Context) ([]Route, error) {
	h, err := New()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return h.Routes()
}
