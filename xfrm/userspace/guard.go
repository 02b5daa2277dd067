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

// guard is a policy of the kernel's for clear packets: what a Protect or Block policy covers is refused (RFC 4301 section 5), whether it arrives
// for this host, is to be forwarded, or would leave by a device that is not the TUN because somebody changed the routing. Packets into and out
// of the TUN are exempt by settings of that device, IKE and sealed ones by policies of the transport's sockets. Kernels without ESP have the
// policies all the same.
type guard struct {
	dir      byte
	src, dst netip.Prefix
	proto    uint8
	sport    masked
	dport    masked
	device   uint32 // index of the only device by which packets leave; 0: any
	mark     uint32 // only packets with it; 0: all
	ifID     uint32 // always 0 in ours
	allow    bool
	tunnel   bool // by an SA of the kernel's: never ours, but of a kernel data plane before
	priority uint32
}

// slot is what the kernel takes for a policy's identity.
func (g guard) slot() guard {
	g.allow, g.tunnel, g.priority = false, false, 0
	return g
}

// masked is how the kernel knows ports: the bits of port under mask.
type masked struct{ port, mask uint16 }

// Priorities and reqids of ours in the kernel, as the ledger has them; priorityFirst is before all others.
const (
	priorityFirst = 0x00100000
	priorityLast  = 0x001fffff
	reqIDFirst    = 0x43590000
	reqIDLast     = 0x4359ffff
)

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

	dirIn, dirOut, dirForward = 0, 1, 2

	actionBlock   = 1
	attrTemplates = 5
	attrMark      = 21
	attrIfID      = 31

	templateLen    = 64
	offTemplateReq = 44
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
	b[offDir] = g.dir
	if !g.allow {
		b[offAction] = actionBlock
	}
	if err := k.nl.request(msgUpdatePolicy, unix.NLM_F_ACK, g.putIdentity(b), nil); err != nil {
		return fmt.Errorf("guard against clear packets %v -> %v: %w", g.src, g.dst, err)
	}
	return nil
}

func (k *kernelGuards) remove(g guard) error {
	b := make([]byte, policyIDLen)
	g.putSelector(b)
	b[policyIDLen-4] = g.dir
	err := k.nl.request(msgDeletePolicy, unix.NLM_F_ACK, g.putIdentity(b), nil)
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
	binary.NativeEndian.PutUint32(b[48:], g.device)
}

// putIdentity appends what belongs to a policy's identity beside the selector: struct xfrm_mark (value and mask) and the interface.
func (g *guard) putIdentity(b []byte) []byte {
	if g.mark != 0 {
		b = attribute(b, attrMark, binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, g.mark), math.MaxUint32))
	}
	if g.ifID != 0 {
		b = attribute32(b, attrIfID, g.ifID)
	}
	return b
}

// decodeGuard is false for a policy that is not ours: of another band of priorities, or by SAs whose reqid is not in our range. Those that a
// kernel data plane put before us are ours.
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
	g.priority, g.device = binary.NativeEndian.Uint32(b[offPriority:]), binary.NativeEndian.Uint32(b[48:])
	g.dir, g.allow = b[offDir], b[offAction] != actionBlock
	ours = g.dir <= dirForward && g.priority >= priorityFirst && g.priority <= priorityLast
	attributes(b[policyLen:], func(kind uint16, v []byte) {
		switch {
		case kind == attrTemplates && len(v) >= templateLen:
			g.tunnel = true
			reqID := binary.NativeEndian.Uint32(v[offTemplateReq:])
			ours = ours && reqID >= reqIDFirst && reqID <= reqIDLast
		case kind == attrMark && len(v) == 8:
			g.mark = binary.NativeEndian.Uint32(v)
		case kind == attrIfID && len(v) == 4:
			g.ifID = binary.NativeEndian.Uint32(v)
		}
	})
	return g, ours
}
