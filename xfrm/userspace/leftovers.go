package userspace

import (
	"errors"
	"slices"
)

// RemoveRules removes the rules that a userspace driver left in the network namespace of the calling thread and returns each as a line for
// people: for a daemon that has taken its selectors over with another data plane, and for whoever lifts all blocks. With them goes the guard that
// let packets into the TUN, which is bound to a device that is gone. The other guards are policies of our priority band, which the kernel's
// driver lists and removes, and routes are netcfg's to sweep. It must not be called while a Driver is open.
func RemoveRules() (removed []string, err error) {
	removed, err = removeRules()
	return removed, errors.Join(err, removeDeviceGuards())
}

func removeDeviceGuards() error {
	guards, err := openGuards()
	if err != nil {
		return nil // no XFRM, no guards
	}
	defer guards.nl.close()
	list, err := guards.list()
	return errors.Join(err, change(&list, slices.DeleteFunc(slices.Clone(list), func(g guard) bool { return g.device != 0 }), nil, guards.remove))
}

func removeRules() (removed []string, err error) {
	rules, err := openRules()
	if err != nil {
		return nil, err
	}
	defer rules.nl.close()
	list, err := rules.list()
	return removed, errors.Join(err, change(&list, nil, nil, func(r rule) error {
		err := rules.remove(r)
		if err == nil {
			removed = append(removed, r.String())
		}
		return err
	}))
}
