package ledger

import "cygnet/xfrm"

// content is the policy that the deciding claim asks for.
func (s *slot) content() xfrm.Policy {
	c := s.claims[0]
	p := xfrm.Policy{Slot: c.Slot, Action: c.Action, Priority: Priority(c.Slot.Selector)}
	if c.Action == xfrm.Protect {
		p.Template = c.Template
	}
	return p
}

// ours tells policies and SAs that cygnet installed, now or in an earlier life, from others': templates by reqid, the rest by priority.
func ours(p xfrm.Policy) bool {
	if p.Action == xfrm.Protect {
		return ourReqID(p.Template.ReqID)
	}
	return p.Priority >= PriorityFirst && p.Priority <= PriorityLast
}

func ourReqID(id uint32) bool { return id >= ReqIDFirst && id <= ReqIDLast }

// same compares what a driver holds with what it was told. The SPI in a template is a hint that the kernel does not keep.
func same(held, told xfrm.Policy) bool {
	held.Slot = canonical(held.Slot)
	if held.Template.SPI == 0 {
		told.Template.SPI = 0
	}
	return held == told
}
