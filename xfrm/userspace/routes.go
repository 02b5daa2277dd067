package userspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"cygnet/xfrm/netcfg"
)

// routeID is a route of ours as far as it is compared.
type routeID struct {
	dst         netip.Prefix
	metric      uint32
	unreachable bool
	device      uint32 // 0 when unreachable
}

// routeLister tells which routes of ours stand in our table.
type routeLister interface {
	list() (map[routeID]bool, error)
}

// kernelRoutes are those of the network namespace in which nl was opened.
type kernelRoutes struct{ nl *netlink }

const (
	routeHeaderLen = 12 // struct rtmsg of <linux/rtnetlink.h>
	rtaDst         = 1
	rtaOif         = 4
	rtaPriority    = 6
	rtaTable       = 15
)

func (k kernelRoutes) list() (map[routeID]bool, error) {
	routes := map[routeID]bool{}
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		// A kernel that checks strictly (netlink.go) lists our table alone, others all tables.
		body := attribute32(append([]byte{family}, make([]byte, routeHeaderLen-1)...), rtaTable, Table)
		err := k.nl.request(unix.RTM_GETROUTE, unix.NLM_F_DUMP, body, func(b []byte) {
			if r, ours := decodeRoute(b); ours {
				routes[r] = true
			}
		})
		// ENOENT: the table is not there at all.
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
			return nil, fmt.Errorf("list routes: %w", err)
		}
	}
	return routes, nil
}

// decodeRoute is false for a route that is not ours or not in our table.
func decodeRoute(b []byte) (r routeID, ours bool) {
	if len(b) < routeHeaderLen {
		return routeID{}, false
	}
	any := netip.IPv4Unspecified()
	if b[0] == unix.AF_INET6 {
		any = netip.IPv6Unspecified()
	}
	r = routeID{dst: netip.PrefixFrom(any, 0), unreachable: b[7] == unix.RTN_UNREACHABLE}
	table := uint32(b[4])
	attributes(b[routeHeaderLen:], func(kind uint16, v []byte) {
		switch {
		case kind == rtaDst:
			a, _ := netip.AddrFromSlice(v)
			r.dst = netip.PrefixFrom(a, int(b[1]))
		case kind == rtaTable && len(v) == 4:
			table = binary.NativeEndian.Uint32(v)
		case kind == rtaPriority && len(v) == 4:
			r.metric = binary.NativeEndian.Uint32(v)
		case kind == rtaOif && len(v) == 4:
			r.device = binary.NativeEndian.Uint32(v)
		}
	})
	if r.unreachable {
		r.device = 0 // IPv6 shows the loopback device
	}
	return r, b[5] == netcfg.RouteProtocol && table == Table
}
