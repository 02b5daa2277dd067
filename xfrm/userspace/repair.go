package userspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"cygnet/xfrm/netcfg"
)

// repair compares the host with what was made of it and puts back what is missing. It returns a line for people for each kind of loss.
func (d *Driver) repair(ctx context.Context) (lost []string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, nil
	}
	line, err := d.repairDevice()
	if err != nil {
		return nil, err
	}
	lost, errLost := d.host.losses()
	if line != "" {
		lost = append([]string{line}, lost...)
	}
	return lost, errors.Join(errLost, d.host.apply(ctx, d.policyList()))
}

// repairDevice makes the TUN anew when it was deleted, or taken out of the namespace, and sees that it is up.
func (d *Driver) repairDevice() (lost string, err error) {
	link := d.host.dev
	index, up, err := link.look()
	switch {
	case err != nil:
		return "", fmt.Errorf("look at device %s: %w", link.name, err)
	case index != link.index:
		lost = fmt.Sprintf("somebody deleted device %s: made anew", link.name)
		err = d.reopen()
		d.host.linked = false
	case !up:
		lost = fmt.Sprintf("somebody took device %s down: taken up again", link.name)
		d.host.linked = false
	}
	return lost, err
}

// reopen makes the TUN anew.
func (d *Driver) reopen() error {
	dev, err := openTUN(d.config.TUN, d.config.plainTUN)
	if err != nil {
		return err
	}
	err = d.host.attach()
	d.replaceDevice(dev)
	return err
}

// attach makes the host treat the TUN, which is new, as the guards need it.
func (s *steering) attach() error {
	index, _, err := s.dev.look()
	if err != nil || index == 0 {
		return fmt.Errorf("look at device %s: %w", s.dev.name, errors.Join(err, unix.ENODEV))
	}
	s.dev.index = index
	if s.guards == nil {
		return nil
	}
	_, err = s.dev.exempt()
	if s.marked {
		err = errors.Join(err, s.dev.mark())
	}
	return err
}

// losses makes what the steering believes to have done true again, by forgetting what is not there any more. The next apply puts it back.
func (s *steering) losses() (lost []string, err error) {
	rules, ruleErr := s.rules.list()
	if ruleErr == nil {
		if gone := forget(&s.rulesNow, rules); len(gone) > 0 {
			lost = append(lost, fmt.Sprintf("somebody removed our %s: put back; if this is systemd-networkd, set ManageForeignRoutingPolicyRules=no in networkd.conf", some(gone)))
		}
	}
	line, routeErr := s.lostRoutes()
	if line != "" {
		lost = append(lost, line)
	}
	var guardErr error
	if s.guards != nil {
		var guards []guard
		if guards, guardErr = s.guards.list(); guardErr == nil {
			if gone := forget(&s.guardsNow, guards); len(gone) > 0 {
				lost = append(lost, fmt.Sprintf("somebody removed %d of our IPsec policies that refuse clear packets: put back", len(gone)))
			}
		}
		changed, err := s.dev.exempt()
		if changed {
			lost = append(lost, fmt.Sprintf("somebody changed the settings disable_policy or disable_xfrm of device %s: set again", s.dev.name))
		}
		guardErr = errors.Join(guardErr, err)
	}
	return lost, errors.Join(ruleErr, routeErr, guardErr)
}

// forget removes from now what the host does not have, and returns it.
func forget[T comparable](now *[]T, has []T) (gone []T) {
	there := make(map[T]bool, len(has))
	for _, x := range has {
		there[x] = true
	}
	*now = slices.DeleteFunc(*now, func(x T) bool {
		if !there[x] {
			gone = append(gone, x)
		}
		return !there[x]
	})
	return gone
}

// lostRoutes forgets destinations of which a route is missing. Those through a device that is down or new are not somebody's doing.
func (s *steering) lostRoutes() (line string, err error) {
	there, err := s.table.list()
	if err != nil {
		return "", err
	}
	var gone []netcfg.Route
	for dst, routes := range s.routes {
		missing := false
		for _, r := range routes {
			id := routeID{dst: r.Dst, metric: uint32(r.Metric), unreachable: r.Unreachable}
			if !r.Unreachable {
				id.device = s.dev.index
			}
			if there[id] {
				continue
			}
			missing = true
			if s.linked || r.Unreachable {
				gone = append(gone, r)
			}
		}
		if missing {
			delete(s.routes, dst)
		}
	}
	if len(gone) == 0 {
		return "", nil
	}
	slices.SortFunc(gone, func(a, b netcfg.Route) int { return strings.Compare(a.String(), b.String()) })
	return fmt.Sprintf("somebody removed our route %s: put back; if this is systemd-networkd, set ManageForeignRoutes=no in networkd.conf", some(gone)), nil
}

// some names the first of a list.
func some[T fmt.Stringer](list []T) string {
	if len(list) == 1 {
		return list[0].String()
	}
	return fmt.Sprintf("%v and %d more", list[0], len(list)-1)
}
