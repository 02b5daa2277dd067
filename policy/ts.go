package policy

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// IP protocol numbers whose "ports" are type and code (RFC 7296 section 3.13.1).
const (
	protoICMP   = 1
	protoICMPv6 = 58
)

func anyPort() xfrm.Ports { return xfrm.Ports{First: 0, Last: 65535} }

// opaque is the port of packets that show none, such as later fragments (RFC 7296 section 3.13.1).
func opaque() xfrm.Ports { return xfrm.Ports{First: 65535, Last: 0} }

// WireTS converts for a TSi or TSr payload.
func WireTS(ts []TS) []wire.TrafficSelector {
	out := make([]wire.TrafficSelector, 0, len(ts))
	for _, t := range ts {
		w := wire.TrafficSelector{
			TSType: wire.TSIPv4AddrRange, Protocol: t.Proto, StartPort: t.Ports.First, EndPort: t.Ports.Last, Start: t.Start, End: t.End,
		}
		if t.Start.Is6() {
			w.TSType = wire.TSIPv6AddrRange
		}
		out = append(out, w)
	}
	return out
}

// fromWire converts what a peer sent. Selectors of other types and those that contradict themselves are left out, as RFC 7296 section 2.9
// has it for unknown types.
func fromWire(ws []wire.TrafficSelector) (out []TS) {
	for _, w := range ws {
		t := TS{Start: w.Start, End: w.End, Proto: w.Protocol, Ports: xfrm.Ports{First: w.StartPort, Last: w.EndPort}}
		if (w.TSType == wire.TSIPv4AddrRange || w.TSType == wire.TSIPv6AddrRange) && t.sound() {
			out = append(out, t)
		}
	}
	return out
}

// sound: one family, addresses and ports in order, and no ports without a protocol (RFC 7296 section 3.13.1).
func (t TS) sound() bool {
	plain := t.Start.IsValid() && t.End.IsValid() && t.Start.BitLen() == t.End.BitLen() && t.Start.Zone() == "" && t.End.Zone() == "" &&
		!t.Start.Is4In6() && !t.End.Is4In6() && t.Start.Compare(t.End) <= 0
	ports := t.Ports == opaque() || t.Ports.First <= t.Ports.Last
	return plain && ports && (t.Proto != 0 || t.Ports == anyPort())
}

// String is like "10.1.0.0/16" or "10.1.0.0-10.1.0.9 tcp/443".
func (t TS) String() string {
	var addr string
	p, isPrefix := t.prefix()
	switch {
	case t.Start == t.End:
		addr = t.Start.String()
	case isPrefix:
		addr = p.String()
	default:
		addr = t.Start.String() + "-" + t.End.String()
	}
	if t.Proto == 0 {
		return addr
	}
	if t.Ports == anyPort() {
		return addr + " " + protoName(t.Proto)
	}
	return addr + " " + protoName(t.Proto) + "/" + portsText(t.Proto, t.Ports)
}

func portsText(proto uint8, p xfrm.Ports) string {
	icmp := proto == protoICMP || proto == protoICMPv6
	switch {
	case p == opaque():
		return "opaque"
	case icmp && p.First == p.Last:
		return fmt.Sprintf("%d(%d)", p.First>>8, p.First&0xff)
	case icmp && p.First>>8 == p.Last>>8 && p.First&0xff == 0 && p.Last&0xff == 0xff:
		return fmt.Sprint(p.First >> 8)
	case icmp:
		return fmt.Sprintf("%d(%d)-%d(%d)", p.First>>8, p.First&0xff, p.Last>>8, p.Last&0xff)
	case p.First == p.Last:
		return fmt.Sprint(p.First)
	}
	return fmt.Sprintf("%d-%d", p.First, p.Last)
}

// selectorsText prints a list, bounded because peers may send many.
func selectorsText(ts []TS) string {
	const shown = 8
	var parts []string
	for i, t := range ts {
		if i == shown {
			parts = append(parts, fmt.Sprintf("and %d more", len(ts)-i))
			break
		}
		parts = append(parts, t.String())
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// prefix is the range as one prefix, when it is one.
func (t TS) prefix() (netip.Prefix, bool) {
	if t.Start.BitLen() != t.End.BitLen() || !t.Start.IsValid() {
		return netip.Prefix{}, false
	}
	p := largestPrefix(t.Start, t.End)
	return p, lastOf(p) == t.End
}

// allAddresses: 0.0.0.0/0 or ::/0.
func (t TS) allAddresses() bool {
	p, ok := t.prefix()
	return ok && p.Bits() == 0
}

// meet is the intersection: addresses, protocol and ports.
func (t TS) meet(o TS) (TS, bool) {
	if t.Start.BitLen() != o.Start.BitLen() {
		return TS{}, false
	}
	r := TS{Start: later(t.Start, o.Start), End: earlier(t.End, o.End)}
	if r.Start.Compare(r.End) > 0 {
		return TS{}, false
	}
	var ok bool
	if r.Proto, ok = meetProto(t.Proto, o.Proto); !ok {
		return TS{}, false
	}
	r.Ports, ok = meetPorts(t.Ports, o.Ports)
	return r, ok
}

func meetProto(a, b uint8) (uint8, bool) {
	switch {
	case a == 0:
		return b, true
	case b == 0 || a == b:
		return a, true
	}
	return 0, false
}

// meetPorts: OPAQUE is within "any" alone (RFC 4301 section 4.4.1.1).
func meetPorts(a, b xfrm.Ports) (xfrm.Ports, bool) {
	switch {
	case a == anyPort():
		return b, true
	case b == anyPort() || a == b:
		return a, true
	case a == opaque() || b == opaque():
		return xfrm.Ports{}, false
	}
	r := xfrm.Ports{First: max(a.First, b.First), Last: min(a.Last, b.Last)}
	return r, r.First <= r.Last
}

// within says whether the list covers all of t. Several selectors may cover it together, as long as each covers the protocol and the ports.
func (t TS) within(list []TS) bool {
	at := t.Start
	for {
		i := slices.IndexFunc(list, func(o TS) bool {
			m, ok := o.meet(TS{Start: at, End: at, Proto: t.Proto, Ports: t.Ports})
			return ok && m.Proto == t.Proto && m.Ports == t.Ports
		})
		switch {
		case i < 0:
			return false
		case list[i].End.Compare(t.End) >= 0:
			return true
		}
		at = list[i].End.Next()
	}
}

func later(a, b netip.Addr) netip.Addr {
	if a.Less(b) {
		return b
	}
	return a
}

func earlier(a, b netip.Addr) netip.Addr {
	if a.Less(b) {
		return a
	}
	return b
}

// largestPrefix is the largest prefix that begins at start and does not pass end.
func largestPrefix(start, end netip.Addr) netip.Prefix {
	n := start.BitLen() - trailingZeros(start)
	for {
		p := netip.PrefixFrom(start, n)
		if lastOf(p).Compare(end) <= 0 {
			return p
		}
		n++
	}
}

func trailingZeros(a netip.Addr) (n int) {
	b := a.AsSlice()
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0 {
			return n + bits.TrailingZeros8(b[i])
		}
		n += 8
	}
	return n
}

// lastOf is the last address of a masked prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
