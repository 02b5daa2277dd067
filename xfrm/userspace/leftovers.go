package userspace

import "errors"

// RemoveLeftovers removes the rules and guards of ours from the network namespace of the calling thread, whoever left them: for the start of a daemon
// that uses another data plane, and for a clean removal of the software. Routes are netcfg's to sweep. It must not be called while a Driver is open.
func RemoveLeftovers() error {
	rules, err := openRules()
	if err != nil {
		return err
	}
	defer rules.nl.close()
	list, err := rules.list()
	errs := []error{err, change(&list, nil, nil, rules.remove)}
	guards, err := openGuards()
	if err != nil {
		return errors.Join(errs...) // a kernel without policies has none of ours
	}
	defer guards.nl.close()
	left, err := guards.list()
	return errors.Join(append(errs, err, change(&left, nil, nil, guards.remove))...)
}
