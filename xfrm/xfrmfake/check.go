package xfrmfake

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// check says what is wrong with an op by itself, or "".
func check(op xfrm.Op) string {
	switch o := op.(type) {
	case xfrm.AddSA:
		return checkSA(o.SA)
	case xfrm.UpdateSA:
		return first(checkID(o.ID), checkEncap(&o.Encap))
	case xfrm.MoveSA:
		return first(checkID(o.ID), checkPair(o.Src, o.Dst), checkEncap(o.Encap))
	case xfrm.RemoveSA:
		return checkID(o.ID)
	case xfrm.PutPolicy:
		return checkPolicy(o.Policy)
	case xfrm.RemovePolicy:
		return checkSlot(o.Slot)
	case nil:
		return "no op at all"
	}
	return fmt.Sprintf("unknown op %T", op)
}

func first(wrong ...string) string { return cmp.Or(wrong...) }

func checkID(id xfrm.SAID) string {
	switch {
	case !id.Dst.IsValid() || id.Dst.IsUnspecified() || id.Dst.Is4In6():
		return fmt.Sprintf("destination %v is no address", id.Dst)
	case id.SPI < 256: // RFC 4303 section 2.1
		return fmt.Sprintf("SPI %d is reserved", id.SPI)
	case id.Proto != xfrm.ProtoESP:
		return fmt.Sprintf("protocol %d is not ESP", id.Proto)
	}
	return ""
}

func checkPair(src, dst netip.Addr) string {
	if !src.IsValid() || !dst.IsValid() || src.Is4() != dst.Is4() {
		return fmt.Sprintf("outer addresses %v and %v are no pair", src, dst)
	}
	return ""
}

func checkEncap(e *xfrm.Encap) string {
	if e != nil && (e.SrcPort == 0 || e.DstPort == 0) {
		return fmt.Sprintf("encapsulation ports %d and %d", e.SrcPort, e.DstPort)
	}
	return ""
}

func checkDirection(d xfrm.Direction) string {
	if d != xfrm.In && d != xfrm.Out {
		return fmt.Sprintf("direction %d", d)
	}
	return ""
}

func checkSA(s xfrm.SA) string {
	wrong := first(checkID(s.ID), checkPair(s.Src, s.ID.Dst), checkEncap(s.Encap), checkDirection(s.Direction))
	if wrong != "" {
		return wrong
	}
	encr, integ, err := alg.KeyLens(s.Suite.Encr, s.Suite.KeyBits, s.Suite.Integ)
	switch {
	case err != nil:
		return err.Error()
	case s.EncrKey.Len() != encr || s.IntegKey.Len() != integ:
		return fmt.Sprintf("keys of %d and %d octets, want %d and %d", s.EncrKey.Len(), s.IntegKey.Len(), encr, integ)
	case s.ReqID == 0:
		return "no reqid"
	case s.Src.IsUnspecified():
		return "outer source is not known"
	case s.Direction == xfrm.Out && s.Replay != 0:
		return "an outbound SA has no replay window"
	case len(s.Selectors) == 0 && s.Mode == xfrm.Tunnel:
		return "no selectors"
	}
	for _, sel := range s.Selectors {
		if wrong := checkSelector(sel); wrong != "" {
			return wrong
		}
	}
	return ""
}

func checkSlot(s xfrm.Slot) string {
	return first(checkDirection(s.Direction), checkSelector(s.Selector))
}

func checkSelector(s xfrm.Selector) string {
	switch {
	case !s.Src.IsValid() || !s.Dst.IsValid() || s.Src.Addr().Is4() != s.Dst.Addr().Is4():
		return fmt.Sprintf("prefixes %v and %v are no pair", s.Src, s.Dst)
	case s.Src != s.Src.Masked() || s.Dst != s.Dst.Masked():
		return fmt.Sprintf("prefixes %v and %v are not masked", s.Src, s.Dst)
	}
	return ""
}

func checkPolicy(p xfrm.Policy) string {
	if wrong := checkSlot(p.Slot); wrong != "" {
		return wrong
	}
	t := p.Template
	switch {
	case p.Action > xfrm.Pass:
		return fmt.Sprintf("action %d", p.Action)
	case p.Priority == 0:
		return "no priority"
	case p.Action != xfrm.Protect && t != (xfrm.Template{}):
		return "a template without protection"
	case p.Action == xfrm.Protect && t.ReqID == 0:
		return "a template without reqid"
	case p.Action == xfrm.Protect:
		return checkPair(t.Src, t.Dst)
	}
	return ""
}

// canonical: the zero value of Ports means any port, as {0, 65535} does.
func canonical(s xfrm.Slot) xfrm.Slot {
	for _, p := range []*xfrm.Ports{&s.Selector.SrcPorts, &s.Selector.DstPorts} {
		if *p == (xfrm.Ports{}) {
			*p = xfrm.Ports{First: 0, Last: 65535}
		}
	}
	return s
}

func byPriority(a, b xfrm.Policy) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), strings.Compare(fmt.Sprint(a.Slot), fmt.Sprint(b.Slot)))
}
