// Package doctor looks whether a host fits its configuration, with or without a daemon. What it finds are warnings: an address may come later, and a
// gateway of one host need not forward. It changes nothing, and sends nothing.
package doctor

import (
	"fmt"
	"net/netip"
	"strings"

	"cygnet/policy"
)

// Host is what is asked of a host. This is the one that the program runs on.
type Host struct {
	Has       func(netip.Addr) bool // it has this address, and can send from it
	Addresses func() []netip.Addr   // those that it has, for hints; loopback and link-local ones left out
	Forwards  func(v6 bool) bool    // it forwards packets of the family on at least one interface, or this cannot be known
}

// Check compares a configuration with a host. Each thing is told once, with the first connection that it concerns.
func Check(h Host, s *policy.Snapshot) (problems []policy.Problem) {
	problems = append(problems, h.addresses(s)...)
	return append(problems, h.forwarding(s)...)
}

// addresses looks for local addresses that the host lacks: nothing could be sent from them.
func (h Host) addresses(s *policy.Snapshot) (problems []policy.Problem) {
	at := make(map[netip.Addr]int) // index of its problem, or -1
	more := make(map[int]int)
	for _, c := range s.Connections {
		a := c.Local.Address
		if !a.IsValid() {
			continue
		}
		i, seen := at[a]
		switch {
		case seen && i >= 0:
			more[i]++
		case seen:
		case h.Has(a):
			at[a] = -1
		default:
			at[a] = len(problems)
			problems = append(problems, h.warn(c.File, lineOf(c.Lines, c.Line, "local.address", "local"), "no-such-address", h.addressHint(),
				"connection %s sends from %s, which is no address of this host now", c.Name, a))
		}
	}
	for i, n := range more {
		what := "connections"
		if n == 1 {
			what = "connection"
		}
		problems[i].Text += fmt.Sprintf(" (and %d more %s)", n, what)
	}
	return problems
}

func (h Host) addressHint() string {
	hint := `write an address of this host, or "%any" for whichever leads to the peer`
	const most = 8
	var list []string
	for _, a := range h.Addresses() {
		list = append(list, a.String())
	}
	switch {
	case len(list) > most:
		hint += "; it has " + strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	case len(list) > 0:
		hint += "; it has " + strings.Join(list, ", ")
	}
	return hint
}

// forwarding looks for networks behind this host to which it forwards nothing.
func (h Host) forwarding(s *policy.Snapshot) (problems []policy.Problem) {
	for _, family := range []struct {
		v6           bool
		name, sysctl string
	}{{false, "IPv4", "net.ipv4.ip_forward"}, {true, "IPv6", "net.ipv6.conf.all.forwarding"}} {
		c, ch, ts := h.behind(s, family.v6)
		if ch == nil || h.Forwards(family.v6) {
			continue
		}
		problems = append(problems, h.warn(ch.File, lineOf(ch.Lines, ch.Line, "local"), "no-forwarding", fmt.Sprintf("sysctl -w %s=1, and for every boot a line %s = 1 in /etc/sysctl.d/90-cygnet.conf", family.sysctl, family.sysctl),
			"this host forwards no %s packets, so that %s of connection %s, child %s, is not reached through it", family.name, ts, c.Name, ch.Name))
	}
	return problems
}

// behind finds the first child with a local selector that is more than an address of this host itself.
func (h Host) behind(s *policy.Snapshot, v6 bool) (*policy.Connection, *policy.Child, policy.TS) {
	for _, c := range s.Connections {
		for _, ch := range c.Children {
			for _, ts := range ch.Local {
				if ts.Start.Is6() == v6 && (ts.Start != ts.End || !h.Has(ts.Start)) {
					return c, ch, ts
				}
			}
		}
	}
	return nil, nil, policy.TS{}
}

func (h Host) warn(file string, line int, code, hint, format string, args ...any) policy.Problem {
	return policy.Problem{File: file, Line: line, Code: code, Text: fmt.Sprintf(format, args...), Hint: hint, Warning: true}
}

// lineOf the first of the keys that was given, or of the table.
func lineOf(lines map[string]int, line int, keys ...string) int {
	for _, k := range keys {
		if l := lines[k]; l > 0 {
			return l
		}
	}
	return line
}
