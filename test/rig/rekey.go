package rig

import (
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Renewer is an end that can be told to renew keys, and shows what it has.
type Renewer interface {
	End
	// Rekey has the child rekeyed by this end.
	Rekey() error
	// RekeyIKE has the IKE SA rekeyed by this end.
	RekeyIKE() error
	// Shown is all that the end has, in whatever state.
	Shown() (Shown, error)
}

var _, _, _ Renewer = (*CygnetEnd)(nil), (*Swan)(nil), (*Libreswan)(nil)

// Rekey implements Renewer.
func (c *CygnetEnd) Rekey() error { return c.told("rekey", "s2s", "--child", "lan") }

// RekeyIKE implements Renewer.
func (c *CygnetEnd) RekeyIKE() error { return c.told("rekey", "s2s", "--ike") }

// Rekey implements Renewer.
func (s *Swan) Rekey() error {
	_, err := s.swanctl("--rekey", "--child", "lan")
	return err
}

// RekeyIKE implements Renewer.
func (s *Swan) RekeyIKE() error {
	_, err := s.swanctl("--rekey", "--ike", "s2s")
	return err
}

// Pairs counts the child's pairs of SAs that strongSwan shows, in whatever state.
func (s *Swan) Pairs() int {
	out, _ := s.swanctl("--list-sas", "--raw")
	return strings.Count(out, "spi-in=")
}

// Rekey implements Renewer.
func (l *Libreswan) Rekey() error {
	_, err := l.ipsec("whack", "--asynchronous", "--rekey-child", "--name", "s2s")
	return err
}

// RekeyIKE implements Renewer.
func (l *Libreswan) RekeyIKE() error {
	_, err := l.ipsec("whack", "--asynchronous", "--rekey-ike", "--name", "s2s")
	return err
}

// Shown implements Renewer. Libreswan does not show the SPIs of IKE SAs: they are named by its own numbers.
func (l *Libreswan) Shown() (s Shown, err error) {
	out, err := l.ipsec("whack", "--showstates")
	for _, m := range regexp.MustCompile(`(#\d+): .*_IKE_SA\b`).FindAllStringSubmatch(out, -1) {
		s.IKE = append(s.IKE, m[1])
	}
	for _, m := range regexp.MustCompile(`esp\.([0-9a-f]+)@\S+ esp\.([0-9a-f]+)@\S+`).FindAllStringSubmatch(out, -1) {
		s.Children = append(s.Children, fmt.Sprintf("%08s/%08s", m[2], m[1])) // the peer's comes first
	}
	return s.sorted(), err
}

// KernelSPIs lists those of the ESP SAs in a namespace's kernel, as Shown has them.
func KernelSPIs(ns NS) (list []string, err error) {
	out, err := output(exec.Command("ip", "-n", string(ns), "xfrm", "state"))
	for _, m := range regexp.MustCompile(`proto esp spi 0x([0-9a-f]+)`).FindAllStringSubmatch(out, -1) {
		list = append(list, m[1])
	}
	slices.Sort(list)
	return list, err
}

// XfrmStat is a counter of /proc/net/xfrm_stat.
func XfrmStat(ns NS, name string) (int, error) {
	out, err := ns.Output("cat", "/proc/net/xfrm_stat")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(find(out, name+`\s+(\d+)`))
}
