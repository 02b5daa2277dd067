package kernel

import (
	"fmt"
	"net/netip"

	"cygnet/xfrm"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// family of an address as the kernel numbers it.
func family(a netip.Addr) uint16 {
	if a.Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// address in the kernel's 16 octets; an invalid one is the wildcard.
func address(a netip.Addr) (x nl.XfrmAddress) {
	copy(x[:], a.AsSlice())
	return x
}

// addressOf reads an address of a known family. (The family must not be guessed from the octets: fd00::/8 looks
// like 253.0.0.0.) The wildcard is the zero Addr.
func addressOf(x nl.XfrmAddress, fam uint16) netip.Addr {
	if x == (nl.XfrmAddress{}) {
		return netip.Addr{}
	}
	if fam == unix.AF_INET6 {
		return netip.AddrFrom16(x)
	}
	return netip.AddrFrom4([4]byte(x[:4]))
}

func prefixOf(x nl.XfrmAddress, bits uint8, fam uint16) netip.Prefix {
	if fam == unix.AF_INET6 {
		return netip.PrefixFrom(netip.AddrFrom16(x), int(bits))
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte(x[:4])), int(bits))
}

// selectors gives the kernel selectors that together match what s matches: one, or several when a port range is no
// power of two.
func selectors(s xfrm.Selector) ([]nl.XfrmSelector, error) {
	if !s.Src.IsValid() || !s.Dst.IsValid() || s.Src.Addr().Is4() != s.Dst.Addr().Is4() {
		return nil, fmt.Errorf("selector %v -> %v: both sides need a prefix of one address family", s.Src, s.Dst)
	}
	ports, err := splitPorts(s)
	if err != nil {
		return nil, fmt.Errorf("selector %v -> %v: %w", s.Src, s.Dst, err)
	}
	out := make([]nl.XfrmSelector, len(ports))
	for i, p := range ports {
		out[i] = nl.XfrmSelector{
			Saddr: address(s.Src.Masked().Addr()), PrefixlenS: uint8(s.Src.Bits()),
			Daddr: address(s.Dst.Masked().Addr()), PrefixlenD: uint8(s.Dst.Bits()),
			Family: family(s.Src.Addr()), Proto: s.Proto,
			Sport: htons(p.src.value), SportMask: htons(p.src.mask),
			Dport: htons(p.dst.value), DportMask: htons(p.dst.mask),
		}
	}
	return out, nil
}

// selectorOf reads a kernel selector back. Masks of ports are contiguous when we or the kernel made them.
func selectorOf(k *nl.XfrmSelector) xfrm.Selector {
	src, dst := masked{ntohs(k.Sport), ntohs(k.SportMask)}, masked{ntohs(k.Dport), ntohs(k.DportMask)}
	s := xfrm.Selector{
		Src:   prefixOf(k.Saddr, k.PrefixlenS, k.Family),
		Dst:   prefixOf(k.Daddr, k.PrefixlenD, k.Family),
		Proto: k.Proto, SrcPorts: src.ports(), DstPorts: dst.ports(),
	}
	if isICMP(k.Proto) && src.mask != 0 {
		s.SrcPorts = icmpPorts(src, dst)
		s.DstPorts = s.SrcPorts
	}
	return s
}
