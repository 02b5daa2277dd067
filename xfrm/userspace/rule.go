package userspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"cygnet/xfrm"
	"cygnet/xfrm/netcfg"
)

// rule of policy routing (ip-rule(8)). Zero fields match all.
type rule struct {
	v6             bool
	pref           uint32
	local          bool // only what this host itself sends
	from, to       netip.Prefix
	proto          uint8
	sports, dports xfrm.Ports
	notMark        bool // all but packets with Mark
	table          uint32
}

// normal is r as the kernel shows it: what matches everything is not there.
func (r rule) normal() rule {
	for _, p := range []*netip.Prefix{&r.from, &r.to} {
		if p.IsValid() && p.Bits() == 0 {
			*p = netip.Prefix{}
		}
	}
	for _, p := range []*xfrm.Ports{&r.sports, &r.dports} {
		if anyPort(*p) {
			*p = xfrm.Ports{}
		}
	}
	return r
}

func (r rule) String() string {
	s := fmt.Sprintf("rule %d", r.pref)
	if r.v6 {
		s = "IPv6 " + s
	}
	if r.from.IsValid() {
		s += " from " + r.from.String()
	}
	if r.to.IsValid() {
		s += " to " + r.to.String()
	}
	return fmt.Sprintf("%s lookup %d", s, r.table)
}

// Attributes of <linux/fib_rules.h>.
const (
	fraDst        = 1
	fraSrc        = 2
	fraIifname    = 3
	fraPriority   = 6
	fraFwmark     = 10
	fraTable      = 15
	fraFwmask     = 16
	fraProtocol   = 21
	fraIPProto    = 22
	fraSportRange = 23
	fraDportRange = 24

	ruleHeaderLen = 12
	ruleToTable   = 1 // action
	ruleInvert    = 2 // flag
)

// kernelRules are the rules of the network namespace in which they were opened.
type kernelRules struct{ nl *netlink }

func openRules() (*kernelRules, error) {
	nl, err := openNetlink(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open the kernel's rule socket: %w", err)
	}
	return &kernelRules{nl}, nil
}

func (k *kernelRules) add(r rule) error {
	err := k.nl.request(unix.RTM_NEWRULE, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, r.encode(), nil)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add %v: %w", r, err)
	}
	return nil
}

func (k *kernelRules) remove(r rule) error {
	err := k.nl.request(unix.RTM_DELRULE, unix.NLM_F_ACK, r.encode(), nil)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %v: %w", r, err)
	}
	return nil
}

func (k *kernelRules) list() ([]rule, error) {
	var rules []rule
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		err := k.nl.request(unix.RTM_GETRULE, unix.NLM_F_DUMP, append([]byte{family}, make([]byte, ruleHeaderLen-1)...), func(b []byte) {
			if r, ours := decodeRule(b); ours {
				rules = append(rules, r)
			}
		})
		if err != nil && !errors.Is(err, unix.EAFNOSUPPORT) && !errors.Is(err, unix.EOPNOTSUPP) {
			return rules, fmt.Errorf("list rules: %w", err)
		}
	}
	return rules, nil
}

// encode is struct fib_rule_hdr with its attributes.
func (r rule) encode() []byte {
	b := make([]byte, ruleHeaderLen)
	b[0] = unix.AF_INET
	if r.v6 {
		b[0] = unix.AF_INET6
	}
	b[7] = ruleToTable
	if r.notMark {
		binary.NativeEndian.PutUint32(b[8:], ruleInvert)
	}
	b = attribute32(b, fraPriority, r.pref)
	b = attribute32(b, fraTable, r.table)
	b = attribute(b, fraProtocol, []byte{netcfg.RouteProtocol})
	if r.to.IsValid() && r.to.Bits() > 0 {
		b[1] = byte(r.to.Bits())
		b = attribute(b, fraDst, r.to.Addr().AsSlice())
	}
	if r.from.IsValid() && r.from.Bits() > 0 {
		b[2] = byte(r.from.Bits())
		b = attribute(b, fraSrc, r.from.Addr().AsSlice())
	}
	if r.local {
		b = attribute(b, fraIifname, []byte("lo\x00"))
	}
	if r.proto != 0 {
		b = attribute(b, fraIPProto, []byte{r.proto})
	}
	if !anyPort(r.sports) {
		b = attribute(b, fraSportRange, portRange(r.sports))
	}
	if !anyPort(r.dports) {
		b = attribute(b, fraDportRange, portRange(r.dports))
	}
	if r.notMark {
		b = attribute32(b, fraFwmark, Mark)
		b = attribute32(b, fraFwmask, 0xffffffff)
	}
	return b
}

func portRange(p xfrm.Ports) []byte {
	return binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(nil, p.First), p.Last)
}

// decodeRule is false for a rule that is not ours.
func decodeRule(b []byte) (r rule, ours bool) {
	if len(b) < ruleHeaderLen {
		return rule{}, false
	}
	r.v6 = b[0] == unix.AF_INET6
	r.notMark = binary.NativeEndian.Uint32(b[8:])&ruleInvert != 0
	dst, src := int(b[1]), int(b[2])
	attributes(b[ruleHeaderLen:], func(kind uint16, v []byte) {
		switch {
		case kind == fraProtocol && len(v) == 1:
			ours = v[0] == netcfg.RouteProtocol
		case kind == fraPriority && len(v) == 4:
			r.pref = binary.NativeEndian.Uint32(v)
		case kind == fraTable && len(v) == 4:
			r.table = binary.NativeEndian.Uint32(v)
		case kind == fraDst:
			a, _ := netip.AddrFromSlice(v)
			r.to = netip.PrefixFrom(a, dst)
		case kind == fraSrc:
			a, _ := netip.AddrFromSlice(v)
			r.from = netip.PrefixFrom(a, src)
		case kind == fraIifname:
			r.local = true
		case kind == fraIPProto && len(v) == 1:
			r.proto = v[0]
		case kind == fraSportRange && len(v) == 4:
			r.sports = xfrm.Ports{First: binary.NativeEndian.Uint16(v), Last: binary.NativeEndian.Uint16(v[2:])}
		case kind == fraDportRange && len(v) == 4:
			r.dports = xfrm.Ports{First: binary.NativeEndian.Uint16(v), Last: binary.NativeEndian.Uint16(v[2:])}
		}
	})
	return r, ours
}
