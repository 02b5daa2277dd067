package kernel

import (
	"cygnet/xfrm"

	"github.com/vishvananda/netlink/nl"
)

// parsePolicy reads one kernel policy; false when it is none of ours.
func parsePolicy(content []byte) (p xfrm.Policy, dir uint8, ours bool, err error) {
	attrs, err := parseAttributes(content, nl.SizeofXfrmUserpolicyInfo)
	if err != nil {
		return p, 0, false, err
	}
	info := *nl.DeserializeXfrmUserpolicyInfo(content)
	p = xfrm.Policy{Slot: xfrm.Slot{Direction: xfrm.In, Selector: selectorOf(&info.Sel)}, Priority: info.Priority}
	untag(&p.Slot.Selector, info.Lft.SoftPacketLimit)
	if dir = info.Dir; dir == dirOut {
		p.Slot.Direction = xfrm.Out
	}
	if m := attrs[nl.XFRMA_MARK]; len(m) >= nl.SizeofXfrmMark {
		p.Slot.Mark = nl.DeserializeXfrmMark(m).Value
	}
	p.Slot.IfID, _ = attrs.u32(nl.XFRMA_IF_ID)
	tmpl := attrs[nl.XFRMA_TMPL]
	switch {
	case dir > dirFwd: // a socket's own policy
		return p, dir, false, nil
	case info.Action == actionBlock:
		p.Action = xfrm.Block
	case len(tmpl) < nl.SizeofXfrmUserTmpl:
		p.Action = xfrm.Pass
	default:
		t := *nl.DeserializeXfrmUserTmpl(tmpl)
		p.Template = xfrm.Template{
			Src: addressOf(t.Saddr, t.Family), Dst: addressOf(t.XfrmId.Daddr, t.Family), Mode: modeOf(t.Mode), ReqID: t.Reqid,
		}
		return p, dir, ourReqID(t.Reqid), nil
	}
	return p, dir, p.Priority >= priorityFirst && p.Priority <= priorityLast, nil
}

// spd puts the kernel's policies together to ours: in with fwd, and the pieces of a port range.
type spd struct {
	order []xfrm.Slot
	slots map[xfrm.Slot]*found
}

type found struct {
	policy xfrm.Policy
	pieces int
	mixed  bool // its pieces differ
}

func (s *spd) add(p xfrm.Policy) {
	f := s.slots[p.Slot]
	if f == nil {
		if s.slots == nil {
			s.slots = map[xfrm.Slot]*found{}
		}
		s.slots[p.Slot] = &found{policy: p, pieces: 1}
		s.order = append(s.order, p.Slot)
		return
	}
	f.pieces++
	f.mixed = f.mixed || f.policy != p
}

// policies in the order of the kernel's dump. A slot of which a piece is missing or another is shown with a priority that
// it does not have, the neighbouring one: so it is nobody's match, and is put right or removed.
func (s *spd) policies() []xfrm.Policy {
	var out []xfrm.Policy
	for _, slot := range s.order {
		f := s.slots[slot]
		dirs, _ := kernelDirections(slot.Direction)
		ports, _ := splitPorts(slot.Selector)
		p := f.policy
		if f.mixed || f.pieces != len(dirs)*len(ports) {
			p.Priority ^= 1
		}
		out = append(out, p)
	}
	return out
}
