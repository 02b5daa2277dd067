package policy

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"

	"cygnet/xfrm"
)

// readSelector reads a selector in strongSwan's words: "10.1.0.0/16", "10.1.0.5", "10.1.0.1-10.1.0.9", with "[tcp/443]" or "[udp]" behind it.
// masked is the prefix as it should have been written when bits behind it are set; why says what is wrong.
func readSelector(text string) (t TS, masked, why string) {
	addr, rest, bracket := strings.Cut(strings.TrimSpace(text), "[")
	if strings.TrimSpace(addr) == "" && strings.Contains(rest, ":") {
		return TS{}, "", "is in brackets; write it without brackets"
	}
	if t, masked, why = readRange(strings.TrimSpace(addr)); why != "" {
		return TS{}, "", why
	}
	t.Ports = anyPort()
	if !bracket {
		return t, masked, ""
	}
	inside, ok := strings.CutSuffix(rest, "]")
	if !ok {
		return TS{}, "", `has no "]" at its end`
	}
	protoWord, portWord, hasPorts := strings.Cut(inside, "/")
	if t.Proto, ok = readProto(protoWord); !ok {
		return TS{}, "", "names the unknown protocol " + strconv.Quote(protoWord)
	}
	if hasPorts {
		if t.Ports, ok = readPorts(t.Proto, portWord); !ok {
			return TS{}, "", "has the unknown port " + strconv.Quote(portWord)
		}
	}
	if t.Proto == 0 && t.Ports != anyPort() {
		return TS{}, "", "has a port without a protocol"
	}
	return t, masked, ""
}

// netmask finds a prefix that is written with a mask, as routers have it: "10.1.0.0/255.255.0.0" or with a space between.
func netmask(s string) (netip.Prefix, bool) {
	addr, mask, ok := strings.Cut(strings.Join(strings.Fields(s), "/"), "/")
	a, err := netip.ParseAddr(addr)
	m, maskErr := netip.ParseAddr(mask)
	if !ok || err != nil || maskErr != nil || !a.Is4() || !m.Is4() {
		return netip.Prefix{}, false
	}
	mask4 := m.As4()
	holes := ^binary.BigEndian.Uint32(mask4[:]) // no mask has ones behind a zero
	return netip.PrefixFrom(a, bits.LeadingZeros32(holes)).Masked(), holes&(holes+1) == 0
}

func readRange(s string) (t TS, masked, why string) {
	if p, ok := netmask(s); ok {
		return t, "", "has a netmask; write " + strconv.Quote(p.String())
	}
	switch {
	case strings.Contains(s, "/"):
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return t, "", "is not a prefix"
		}
		if p.Addr().Is4In6() {
			return t, "", "is an IPv4 prefix in IPv6 clothes"
		}
		if m := p.Masked(); m != p {
			masked, p = m.String(), m
		}
		return TS{Start: p.Addr(), End: lastOf(p)}, masked, ""
	case strings.Contains(s, "-"):
		low, high, _ := strings.Cut(s, "-")
		t.Start, why = plainAddr(strings.TrimSpace(low))
		if why == "" {
			t.End, why = plainAddr(strings.TrimSpace(high))
		}
		switch {
		case why != "":
			return t, "", why
		case t.Start.BitLen() != t.End.BitLen():
			return t, "", "begins and ends in different address families"
		case t.Start.Compare(t.End) > 0:
			return t, "", "begins behind its end"
		}
		return t, "", ""
	}
	a, why := plainAddr(s)
	return TS{Start: a, End: a}, "", why
}

func plainAddr(s string) (netip.Addr, string) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return a, "is not an address, prefix or range"
	case a.Zone() != "":
		return a, "has a zone, which a selector cannot have"
	case a.Is4In6():
		return a, "is an IPv4 address in IPv6 clothes"
	}
	return a, ""
}

func readProto(s string) (uint8, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	if s == "any" || s == "%any" {
		return 0, true
	}
	for _, p := range protocols() {
		if p.Name == s {
			return p.Number, true
		}
	}
	n, err := strconv.ParseUint(s, 10, 8)
	return uint8(n), err == nil
}

// readPorts reads "443", "1000-2000", "any", "opaque"; for ICMP a type "8" or type and code "3(1)".
func readPorts(proto uint8, s string) (xfrm.Ports, bool) {
	s = strings.ToLower(strings.TrimSpace(s))
	switch s {
	case "any", "%any":
		return anyPort(), true
	case "opaque", "%opaque":
		return opaque(), true
	}
	if proto == protoICMP || proto == protoICMPv6 {
		return readICMP(s)
	}
	low, high, isRange := strings.Cut(s, "-")
	first, err := strconv.ParseUint(low, 10, 16)
	if err != nil {
		return xfrm.Ports{}, false
	}
	last := first
	if isRange {
		if last, err = strconv.ParseUint(high, 10, 16); err != nil || last < first {
			return xfrm.Ports{}, false
		}
	}
	return xfrm.Ports{First: uint16(first), Last: uint16(last)}, true
}

func readICMP(s string) (xfrm.Ports, bool) {
	typ, code, hasCode := strings.Cut(strings.TrimSuffix(s, ")"), "(")
	n, err := strconv.ParseUint(typ, 10, 8)
	if err != nil || hasCode != strings.HasSuffix(s, ")") {
		return xfrm.Ports{}, false
	}
	if !hasCode {
		return xfrm.Ports{First: uint16(n) << 8, Last: uint16(n)<<8 | 0xff}, true
	}
	c, err := strconv.ParseUint(code, 10, 8)
	return xfrm.Ports{First: uint16(n)<<8 | uint16(c), Last: uint16(n)<<8 | uint16(c)}, err == nil
}
