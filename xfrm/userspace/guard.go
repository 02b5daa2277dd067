package userspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"golang.org/x/sys/unix"

	"cygnet/xfrm"
)

// guard is a policy of the kernel's for packets that arrive in clear: what a Protect or Block policy covers is refused (RFC 4301 section 5.2),
// whether it is for this host or to be forwarded. Packets out of the TUN, which came sealed, are exempt by a setting of that device, IKE by
// policies of its sockets. Kernels without ESP have the policies all the same.
type guard struct {
	forward  bool // else: for this host
	src, dst netip.Prefix
	proto    uint8
	sport    masked
	dport    masked
	mark     uint32 // only packets with it; 0: all
	allow    bool
	priority uint32
}

// slot is what the kernel takes for a policy's identity.
func (g guard) slot() guard {
	g.allow, g.priority = false, 0
	return g
}

// masked is how the kernel knows ports: the bits of port under mask.
type masked struct{ port, mask uint16 }

// Priorities of ours in the kernel, as the ledger has them; and the one that is before all others.
const (
	priorityFirst = 0x00100000
	priorityLast  = 0x001fffff
)

// planGuards mirrors the policies: an outbound one guards the way back. marked: what comes out of the TUN bears innerMark; without it IPv6 packets
// for this host itself cannot be told from clear ones and are not guarded.
func planGuards(policies []xfrm.Policy, marked bool) []guard {
	var list []guard
	seen := map[guard]bool{}
	put := func(g guard) {
		for _, g.forward = range []bool{false, true} {
			possible := g.forward || marked || g.dst.Addr().Is4()
			if possible && !seen[g.slot()] {
				seen[g.slot()] = true
				list = append(list, g)
			}
		}
	}
	v6 := false
	for i := range policies {
		p := &policies[i]
		in := p.Slot.Selector
		if p.Slot.Direction == xfrm.Out {
			in.Src, in.Dst, in.SrcPorts, in.DstPorts = in.Dst, in.Src, in.DstPorts, in.SrcPorts
		}
		v6 = v6 || in.Src.Addr().Is6()
		for _, s := range masks(in.SrcPorts) {
			for _, d := range masks(in.DstPorts) {
				put(guard{src: in.Src, dst: in.Dst, proto: in.Proto, sport: s, dport: d, allow: p.Action == xfrm.Pass, priority: p.Priority})
			}
		}
		// As for routes: hosts of the local prefix reach each other although the remote prefix covers them.
		if p.Action != xfrm.Pass && in.Src.Bits() < in.Dst.Bits() && in.Src.Contains(in.Dst.Addr()) {
			put(guard{src: in.Dst, dst: in.Dst, allow: true, priority: priorityFirst})
		}
	}
	if v6 {
		// Router and neighbour discovery and redirects (RFC 4861) work the link, whatever the selectors cover.
		any := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		for kind := uint16(133); kind <= 137; kind++ {
			put(guard{src: any, dst: any, proto: protoICMPv6, sport: masked{kind, math.MaxUint16}, allow: true, priority: priorityFirst})
		}
		put(guard{src: any, dst: any, mark: innerMark, allow: true, priority: priorityFirst})
	}
	return list
}

// masks covers a range of ports by ports with masks. OPAQUE has none: the kernel cannot say it.
func masks(r xfrm.Ports) []masked {
	if anyPort(r) {
		return []masked{{}}
	}
	var list []masked
	for first, last := uint32(r.First), uint32(r.Last); first <= last; {
		size := uint32(1)
		for first&size == 0 && size < 1<<16 && first+2*size-1 <= last {
			size *= 2
		}
		list = append(list, masked{uint16(first), uint16(-size)})
		first += size
	}
	return list
}

// Numbers of <linux/xfrm.h>: messages, then sizes and offsets in octets, the same on all architectures with 8 octet alignment.
const (
	msgDeletePolicy = 0x14
	msgGetPolicy    = 0x15
	msgUpdatePolicy = 0x19

	selectorLen = 56
	policyLen   = 168 // struct xfrm_userpolicy_info
	policyIDLen = 64  // struct xfrm_userpolicy_id

	offPriority = 152
	offDir      = 160
	offAction   = 161

	dirIn, dirForward = 0, 2
	actionBlock       = 1
	attrTemplates     = 5
	attrMark          = 21
)

// kernelGuards are the policies of the network namespace in which they were opened.
type kernelGuards struct{ nl *netlink }

// openGuards fails where the kernel has no XFRM.
func openGuards() (*kernelGuards, error) {
	nl, err := openNetlink(unix.NETLINK_XFRM)
	if err != nil {
		return nil, fmt.Errorf("the kernel has no IPsec policies: %w", err)
	}
	k := &kernelGuards{nl}
	if _, err := k.list(); err != nil {
		return nil, errors.Join(err, nl.close())
	}
	return k, nil
}

func (k *kernelGuards) add(g guard) error {
	b := make([]byte, policyLen)
	g.putSelector(b)
	for n := range 4 { // no limits of octets and packets
		binary.NativeEndian.PutUint64(b[selectorLen+8*n:], math.MaxUint64)
	}
	binary.NativeEndian.PutUint32(b[offPriority:], g.priority)
	b[offDir] = g.dir()
	if !g.allow {
		b[offAction] = actionBlock
	}
	if err := k.nl.request(msgUpdatePolicy, unix.NLM_F_ACK, g.putMark(b), nil); err != nil {
		return fmt.Errorf("guard against clear packets %v -> %v: %w", g.src, g.dst, err)
	}
	return nil
}

func (k *kernelGuards) remove(g guard) error {
	b := make([]byte, policyIDLen)
	g.putSelector(b)
	b[policyIDLen-4] = g.dir()
	err := k.nl.request(msgDeletePolicy, unix.NLM_F_ACK, g.putMark(b), nil)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove the guard against clear packets %v -> %v: %w", g.src, g.dst, err)
	}
	return nil
}

func (k *kernelGuards) list() ([]guard, error) {
	var list []guard
	err := k.nl.request(msgGetPolicy, unix.NLM_F_DUMP, make([]byte, policyIDLen), func(b []byte) {
		if g, ours := decodeGuard(b); ours {
			list = append(list, g)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the kernel's IPsec policies: %w", err)
	}
	return list, nil
}

func (g *guard) dir() byte {
	if g.forward {
		return dirForward
	}
	return dirIn
}

// putSelector writes struct xfrm_selector.
func (g *guard) putSelector(b []byte) {
	copy(b, g.dst.Addr().AsSlice())
	copy(b[16:], g.src.Addr().AsSlice())
	for n, v := range []uint16{g.dport.port, g.dport.mask, g.sport.port, g.sport.mask} {
		binary.BigEndian.PutUint16(b[32+2*n:], v)
	}
	family := uint16(unix.AF_INET)
	if g.dst.Addr().Is6() {
		family = unix.AF_INET6
	}
	binary.NativeEndian.PutUint16(b[40:], family)
	b[42], b[43], b[44] = byte(g.dst.Bits()), byte(g.src.Bits()), g.proto
}

// putMark appends struct xfrm_mark: value and mask.
func (g *guard) putMark(b []byte) []byte {
	if g.mark == 0 {
		return b
	}
	return attribute(b, attrMark, binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, g.mark), math.MaxUint32))
}

// decodeGuard is false for a policy that is not ours: of another band of priorities, outbound, or one that uses SAs.
func decodeGuard(b []byte) (g guard, ours bool) {
	if len(b) < policyLen {
		return guard{}, false
	}
	switch binary.NativeEndian.Uint16(b[40:]) {
	case unix.AF_INET:
		g.dst = netip.PrefixFrom(netip.AddrFrom4([4]byte(b[:4])), int(b[42]))
		g.src = netip.PrefixFrom(netip.AddrFrom4([4]byte(b[16:20])), int(b[43]))
	case unix.AF_INET6:
		g.dst = netip.PrefixFrom(netip.AddrFrom16([16]byte(b[:16])), int(b[42]))
		g.src = netip.PrefixFrom(netip.AddrFrom16([16]byte(b[16:32])), int(b[43]))
	default:
		return guard{}, false
	}
	port := func(n int) masked {
		return masked{binary.BigEndian.Uint16(b[n:]), binary.BigEndian.Uint16(b[n+2:])}
	}
	g.dport, g.sport, g.proto = port(32), port(36), b[44]
	g.priority = binary.NativeEndian.Uint32(b[offPriority:])
	g.forward, g.allow = b[offDir] == dirForward, b[offAction] != actionBlock
	ours = (b[offDir] == dirIn || g.forward) && g.priority >= priorityFirst && g.priority <= priorityLast
	attributes(b[policyLen:], func(kind uint16, v []byte) {
		ours = ours && kind != attrTemplates
		if kind == attrMark && len(v) == 8 {
			g.mark = binary.NativeEndian.Uint32(v)
		}
	})
	return g, ours
}
