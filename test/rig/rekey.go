package rig

import "strings"

// Rekey begins a rekey of the child.
func (s *Swan) Rekey() error {
	_, err := s.swanctl("--rekey", "--child", "lan")
	return err
}

// Pairs counts the child's pairs of SAs that strongSwan shows, in whatever state.
func (s *Swan) Pairs() int {
	out, _ := s.swanctl("--list-sas", "--raw")
	return strings.Count(out, "spi-in=")
}
