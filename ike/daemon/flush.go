package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"

	"cygnet/ike/control"
	"cygnet/xfrm/kernel"
	"cygnet/xfrm/netcfg"
	"cygnet/xfrm/userspace"
)

// Flush removes all that a cygnetd left in this network namespace: routes by our protocol number with the rules that lead to them, policies by
// reqid and priority band, SAs by reqid. It returns a line for each, also with an error. It opens what "drop" keeps closed, so a living
// daemon, told by its control socket, its hold on the network namespace or its TUN device, is an error, and nothing is removed.
func Flush(ctx context.Context, socket, tun string) (removed []string, err error) {
	server, err := control.Listen(socket, nil) // held meanwhile, so that no daemon starts
	if err != nil {
		return nil, fmt.Errorf("nothing was removed: %w; stop it first, or take the connection out of the configuration and: ikectl reload", err)
	}
	defer server.Close()
	release, err := exclusive(workName)
	if err != nil {
		return nil, fmt.Errorf("nothing was removed: %w, or name its socket with --socket", err)
	}
	defer release()
	if _, err := net.InterfaceByName(tun); err == nil {
		return nil, fmt.Errorf("nothing was removed: the TUN device %s exists, so a cygnetd with another control socket is running; name it with --socket, or stop it", tun)
	}
	rules, ruleErr := userspace.RemoveRules()
	removed = append(removed, rules...)
	routes, routeErr := netcfg.Flush(ctx)
	for _, r := range routes {
		removed = append(removed, "route "+r.String())
	}
	tables, tableErr := kernel.Flush(ctx)
	return append(removed, tables...), errors.Join(ruleErr, routeErr, tableErr)
}
