package userspace

import (
	"slices"

	"cygnet/xfrm"
)

// contents is what Apply changes: SAs and policies, with the tables that follow from them. A change costs what it touches, not what there is.
type contents struct {
	sas      map[xfrm.SAID]*sa
	policies map[xfrm.Slot]*policy
	lineages map[uint32]*lineage // by reqid
	births   uint64              // of SAs, in order
	next     tables
}

// lineage holds what belongs together by reqid: outbound SAs in the order of their birth and the outbound policies that ask for one.
type lineage struct {
	sas      []*sa
	policies map[xfrm.Slot]*policy
}

func newContents() contents {
	return contents{
		sas: make(map[xfrm.SAID]*sa), policies: make(map[xfrm.Slot]*policy), lineages: make(map[uint32]*lineage), next: emptyTables(),
	}
}

// tables as they are after the changes so far. The packet path may have them.
func (c *contents) tables() *tables {
	t := c.next
	return &t
}

func (c *contents) lineage(reqID uint32) *lineage {
	l := c.lineages[reqID]
	if l == nil {
		l = &lineage{policies: make(map[xfrm.Slot]*policy)}
		c.lineages[reqID] = l
	}
	return l
}

// addSA must not be called for an id that is taken.
func (c *contents) addSA(id xfrm.SAID, s *sa) {
	c.births++
	s.birth = c.births
	c.putSA(id, s)
	if s.direction == xfrm.In {
		return
	}
	l := c.lineage(s.reqID)
	l.sas = append(l.sas, s)
	for _, p := range l.policies {
		p.asked.Store(0) // answered
	}
	c.bind(s.reqID)
}

func (c *contents) putSA(id xfrm.SAID, s *sa) {
	c.sas[id] = s
	if s.direction == xfrm.In {
		c.next.arrivals = c.next.arrivals.with(arrival{id, s}, func(_, _ *arrival) int { return 1 })
	}
}

func (c *contents) takeSA(id xfrm.SAID) *sa {
	s := c.sas[id]
	delete(c.sas, id)
	if s != nil && s.direction == xfrm.In {
		c.next.arrivals = c.next.arrivals.without(c.next.seed.spi(id.SPI), func(a *arrival) bool { return a.id == id })
	}
	return s
}

// moveSA gives an SA that is there another id.
func (c *contents) moveSA(from, to xfrm.SAID) {
	s := c.takeSA(from)
	c.putSA(to, s)
	c.bind(s.reqID)
}

// removeSA returns what was there; nil: nothing.
func (c *contents) removeSA(id xfrm.SAID) *sa {
	s := c.takeSA(id)
	if s != nil && s.direction == xfrm.Out {
		l := c.lineage(s.reqID)
		l.sas = slices.DeleteFunc(l.sas, func(x *sa) bool { return x == s })
		c.bind(s.reqID)
		c.tidy(s.reqID)
	}
	return s
}

// putPolicy returns what was in the slot; nil: nothing.
func (c *contents) putPolicy(p *policy) (before *policy) {
	before = c.removePolicy(p.Slot)
	c.policies[p.Slot] = p
	if p.Slot.Direction != xfrm.Out {
		return before
	}
	if p.Action == xfrm.Protect {
		c.lineage(p.Template.ReqID).policies[p.Slot] = p
		p.bound = c.server(p)
	}
	c.next.putEntry(p)
	return before
}

// removePolicy returns what was in the slot; nil: nothing.
func (c *contents) removePolicy(slot xfrm.Slot) *policy {
	p := c.policies[slot]
	if p == nil {
		return nil
	}
	delete(c.policies, slot)
	if slot.Direction == xfrm.Out {
		c.next.dropEntry(p)
		if p.Action == xfrm.Protect {
			delete(c.lineage(p.Template.ReqID).policies, slot)
			c.tidy(p.Template.ReqID)
		}
	}
	return p
}

// tidy forgets a lineage that is empty.
func (c *contents) tidy(reqID uint32) {
	if l := c.lineages[reqID]; l != nil && len(l.sas) == 0 && len(l.policies) == 0 {
		delete(c.lineages, reqID)
	}
}

// bind gives the policies of a lineage the SA that serves them now.
func (c *contents) bind(reqID uint32) {
	l := c.lineages[reqID]
	if l == nil {
		return
	}
	for _, p := range l.policies {
		if s := c.server(p); s != p.bound {
			c.next.dropEntry(p)
			p.bound = s
			c.next.putEntry(p)
		}
	}
}

// server of a policy: of several outbound SAs with its reqid the one that the template names is taken, else the latest; nil: there is none.
func (c *contents) server(p *policy) *sa {
	named := c.sas[xfrm.SAID{Dst: p.Template.Dst, SPI: p.Template.SPI, Proto: xfrm.ProtoESP}]
	if named != nil && named.direction == xfrm.Out && named.reqID == p.Template.ReqID {
		return named
	}
	l := c.lineages[p.Template.ReqID]
	if l == nil || len(l.sas) == 0 {
		return nil
	}
	return l.sas[len(l.sas)-1]
}
