package kernel

import (
	"fmt"

	"cygnet/xfrm"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// The kernel's directions of a policy. Ours are two: what comes from the peer is checked "in" when it is for this host,
// "fwd" when it goes on, and one policy In is both.
const (
	dirIn, dirOut, dirFwd = 0, 1, 2
)

func kernelDirections(d xfrm.Direction) ([]uint8, error) {
	switch d {
	case xfrm.In:
		return []uint8{dirIn, dirFwd}, nil
	case xfrm.Out:
		return []uint8{dirOut}, nil
	}
	return nil, fmt.Errorf("direction %d: neither in nor out", d)
}

const (
	actionAllow, actionBlock = 0, 1
	anyAlgorithm             = ^uint32(0) // any algorithm will do: the SA is found by its reqid
)

// putPolicy gives the requests that fill p's slot, whether it is empty or not (UPDPOLICY does both, in one step).
func putPolicy(p *xfrm.Policy) ([]*request, error) {
	dirs, err := kernelDirections(p.Slot.Direction)
	if err != nil {
		return nil, err
	}
	sels, err := selectors(p.Slot.Selector)
	if err != nil {
		return nil, err
	}
	info := nl.XfrmUserpolicyInfo{Priority: p.Priority, Action: actionAllow}
	if p.Action == xfrm.Block {
		info.Action = actionBlock
	}
	info.Lft = nl.XfrmLifetimeCfg{
		SoftByteLimit: nl.XFRM_INF, HardByteLimit: nl.XFRM_INF,
		SoftPacketLimit: tag(p.Slot.Selector, len(sels)), HardPacketLimit: nl.XFRM_INF,
	}
	var tmpl []byte
	if p.Action == xfrm.Protect {
		if tmpl, err = template(p); err != nil {
			return nil, err
		}
	}
	var out []*request
	for _, dir := range dirs {
		for _, sel := range sels {
			info.Sel, info.Dir = sel, dir
			r := newRequest(nl.XFRM_MSG_UPDPOLICY, unix.NLM_F_ACK).body(info.Serialize())
			if tmpl != nil {
				r.attr(nl.XFRMA_TMPL, tmpl)
			}
			out = append(out, slotAttributes(r, p.Slot))
		}
	}
	return out, nil
}

// template of a Protect policy: one SA, found by outer addresses and reqid, and required.
func template(p *xfrm.Policy) ([]byte, error) {
	t := p.Template
	switch {
	case t.ReqID == 0:
		return nil, fmt.Errorf("a template without reqid would take any SA")
	case t.Src.IsValid() && t.Dst.IsValid() && t.Src.Is4() != t.Dst.Is4():
		return nil, fmt.Errorf("outer addresses %v -> %v: both must be of one address family", t.Src, t.Dst)
	}
	fam := family(p.Slot.Selector.Src.Addr()) // with no outer address known yet: the inner family
	if t.Dst.IsValid() {
		fam = family(t.Dst)
	} else if t.Src.IsValid() {
		fam = family(t.Src)
	}
	x := nl.XfrmUserTmpl{
		XfrmId: nl.XfrmId{Daddr: address(t.Dst), Proto: xfrm.ProtoESP}, Saddr: address(t.Src),
		Family: fam, Reqid: t.ReqID, Mode: modeNumber(t.Mode),
		Aalgos: anyAlgorithm, Ealgos: anyAlgorithm, Calgos: anyAlgorithm,
	}
	return append([]byte(nil), x.Serialize()...), nil
}

// slotAttributes appends what belongs to a policy's identity beside direction and selector.
func slotAttributes(r *request, s xfrm.Slot) *request {
	if s.Mark != 0 {
		m := nl.XfrmMark{Value: s.Mark, Mask: ^uint32(0)}
		r.attr(nl.XFRMA_MARK, m.Serialize())
	}
	if s.IfID != 0 {
		r.attr32(nl.XFRMA_IF_ID, s.IfID)
	}
	return r
}

// removePolicy gives the requests that empty a slot.
func removePolicy(s xfrm.Slot) ([]*request, error) {
	dirs, err := kernelDirections(s.Direction)
	if err != nil {
		return nil, err
	}
	sels, err := selectors(s.Selector)
	if err != nil {
		return nil, err
	}
	var out []*request
	for _, dir := range dirs {
		for _, sel := range sels {
			id := nl.XfrmUserpolicyId{Sel: sel, Dir: dir}
			out = append(out, slotAttributes(newRequest(nl.XFRM_MSG_DELPOLICY, unix.NLM_F_ACK).body(id.Serialize()), s))
		}
	}
	return out, nil
}

func listPolicies() *request { return newRequest(nl.XFRM_MSG_GETPOLICY, unix.NLM_F_DUMP) }
