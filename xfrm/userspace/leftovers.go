package userspace

import "errors"

// RemoveRules removes the rules that a userspace driver left in the network namespace of the calling thread, for a daemon that has taken its
// selectors over with another data plane: guards are policies of our priority band there, which its ledger compares, and routes are netcfg's
// to sweep. It must not be called while a Driver is open.
func RemoveRules() error {
	rules, err := openRules()
	if err != nil {
		return err
	}
	defer rules.nl.close()
	list, err := rules.list()
	return errors.Join(err, change(&list, nil, nil, rules.remove))
}
