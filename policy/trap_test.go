package policy

import (
	"slices"
	"testing"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// Transforms as a peer might send them.
func encr(id, bits uint16) wire.Transform {
	return wire.Transform{Type: wire.TransformEncr, ID: id, KeyBits: bits}
}
func integ(id uint16) wire.Transform { return wire.Transform{Type: wire.TransformInteg, ID: id} }
func prf(id wire.PRFID) wire.Transform {
	return wire.Transform{Type: wire.TransformPRF, ID: uint16(id)}
}
func esn(id uint16) wire.Transform { return wire.Transform{Type: wire.TransformESN, ID: id} }

func ikeOf(ts ...wire.Transform) wire.Proposal {
	return wire.Proposal{Number: 1, Protocol: wire.ProtoIKE, Transforms: ts}
}

func espOf(ts ...wire.Transform) wire.Proposal {
	return wire.Proposal{Number: 1, Protocol: wire.ProtoESP, SPI: []byte{1, 2, 3, 4}, Transforms: ts}
}

func classicIKE() []wire.Transform {
	return []wire.Transform{encr(wire.EncrAESCBC, 256), prf(wire.PRFHMACSHA256), integ(wire.IntegSHA256_128), group(wire.GroupMODP2048)}
}

func classicESP() []wire.Transform {
	return []wire.Transform{encr(wire.EncrAESCBC, 256), integ(wire.IntegSHA256_128), esn(wire.ESNNo)}
}

// with replaces the transforms of one type.
func with(ts []wire.Transform, more ...wire.Transform) []wire.Transform {
	out := slices.DeleteFunc(slices.Clone(ts), func(t wire.Transform) bool { return t.Type == more[0].Type })
	return append(out, more...)
}

// without drops a type.
func without(ts []wire.Transform, typ wire.TransformType) []wire.Transform {
	return slices.DeleteFunc(slices.Clone(ts), func(t wire.Transform) bool { return t.Type == typ })
}

func takesIKE(t *testing.T, ps ...wire.Proposal) (wire.Proposal, bool) {
	t.Helper()
	p, _, m := ChooseIKE([]*Connection{conn(t, "", "", "")}, ps)
	return p, m == nil
}

func takesESP(t *testing.T, create bool, ps ...wire.Proposal) (ESPChoice, bool) {
	t.Helper()
	c, m := ChooseESP(conn(t, "", "", "").Children[0], ps, create, 0, allCaps())
	return c, m == nil
}

func checksIKE(t *testing.T, ps ...wire.Proposal) bool {
	t.Helper()
	_, m := CheckIKE(OfferIKE(conn(t, "", "", "")), ps)
	return m == nil
}

func TestTrap_7296_25_AnswerIsOneOffer(t *testing.T) {
	good := ikeOf(classicIKE()...)
	good.Number = 2 // the classic one of our defaults
	if !checksIKE(t, good) {
		t.Fatal("a lawful answer is refused")
	}
	change := func(f func(*wire.Proposal)) wire.Proposal {
		p := good
		p.Transforms = slices.Clone(good.Transforms)
		f(&p)
		return p
	}
	for name, answer := range map[string][]wire.Proposal{
		"no proposal":               {},
		"two proposals":             {good, good},
		"a number of no offer":      {change(func(p *wire.Proposal) { p.Number = 7 })},
		"the number of another":     {change(func(p *wire.Proposal) { p.Number = 1 })},
		"another protocol":          {change(func(p *wire.Proposal) { p.Protocol = wire.ProtoESP })},
		"an SPI where none was":     {change(func(p *wire.Proposal) { p.SPI = make([]byte, 8) })},
		"another key length":        {change(func(p *wire.Proposal) { p.Transforms = with(p.Transforms, encr(wire.EncrAESCBC, 512)) })},
		"no key length":             {change(func(p *wire.Proposal) { p.Transforms = with(p.Transforms, encr(wire.EncrAESCBC, 0)) })},
		"two ciphers":               {change(func(p *wire.Proposal) { p.Transforms = append(p.Transforms, encr(wire.EncrAESCBC, 128)) })},
		"the same cipher twice":     {change(func(p *wire.Proposal) { p.Transforms = append(p.Transforms, p.Transforms[0]) })},
		"no integrity":              {change(func(p *wire.Proposal) { p.Transforms = without(p.Transforms, wire.TransformInteg) })},
		"no PRF":                    {change(func(p *wire.Proposal) { p.Transforms = without(p.Transforms, wire.TransformPRF) })},
		"no group":                  {change(func(p *wire.Proposal) { p.Transforms = without(p.Transforms, wire.TransformKE) })},
		"an algorithm not offered":  {change(func(p *wire.Proposal) { p.Transforms = with(p.Transforms, integ(wire.IntegSHA1_96)) })},
		"an attribute we know not":  {change(func(p *wire.Proposal) { p.Transforms[0].Unusable = true })},
		"a transform type too many": {change(func(p *wire.Proposal) { p.Transforms = append(p.Transforms, esn(wire.ESNNo)) })},
	} {
		if checksIKE(t, answer...) {
			t.Errorf("the answer is accepted: %s", name)
		}
	}
	p, ok := takesIKE(t, wire.Proposal{Number: 9, Protocol: wire.ProtoIKE, SPI: []byte{1, 2, 3, 4, 5, 6, 7, 8}, Transforms: append(classicIKE(), group(wire.GroupECP256))})
	if !ok || p.Number != 9 || len(p.SPI) != 8 || len(p.Transforms) != 4 {
		t.Errorf("our answer: %+v", p)
	}
}

func TestTrap_7296_26_SPISize(t *testing.T) {
	for n := range 10 {
		p := ikeOf(classicIKE()...)
		p.SPI = make([]byte, n)
		if _, ok := takesIKE(t, p); ok != (n == 0 || n == 8) {
			t.Errorf("IKE with an SPI of %d octets: %v", n, ok)
		}
		p = espOf(classicESP()...)
		p.SPI = []byte{9, 9, 9, 9, 9, 9, 9, 9, 9, 9}[:n]
		if _, ok := takesESP(t, false, p); ok != (n == 4) {
			t.Errorf("ESP with an SPI of %d octets: %v", n, ok)
		}
	}
	p := espOf(classicESP()...)
	for _, spi := range [][]byte{{0, 0, 0, 0}, {0, 0, 0, 255}} { // RFC 4303 section 2.1
		p.SPI = spi
		if _, ok := takesESP(t, false, p); ok {
			t.Errorf("reserved SPI %x is accepted", spi)
		}
	}
	p.SPI = []byte{0xfe, 0xdc, 0xba, 0x98}
	if c, ok := takesESP(t, false, p); !ok || c.SPI != 0xfedcba98 {
		t.Errorf("SPI %x", c.SPI)
	}
}

func TestTrap_7296_27_KeyLength(t *testing.T) {
	if _, ok := takesIKE(t, ikeOf(append(classicIKE(), encr(wire.EncrAESCBC, 0))...)); ok {
		t.Error("AES without key length does not refuse the proposal")
	}
	chacha := []wire.Transform{encr(wire.EncrChaCha20Poly1305, 256), prf(wire.PRFHMACSHA256), group(wire.GroupX25519)}
	if _, ok := takesIKE(t, ikeOf(chacha...)); ok {
		t.Error("ChaCha20-Poly1305 with a key length is accepted")
	}
	if _, ok := takesIKE(t, ikeOf(with(chacha, encr(wire.EncrChaCha20Poly1305, 0))...)); !ok {
		t.Error("ChaCha20-Poly1305 is refused")
	}
	odd := prf(wire.PRFHMACSHA256)
	odd.KeyBits = 256
	if _, ok := takesIKE(t, ikeOf(with(classicIKE(), odd)...)); ok {
		t.Error("a PRF with a key length is accepted")
	}
	for _, p := range append(OfferIKE(conn(t, "", "", "")), OfferESP(conn(t, "", "", "").Children[0], 256, true, allCaps())...) {
		for _, x := range p.Transforms {
			if aes := x.Type == wire.TransformEncr && x.ID != wire.EncrChaCha20Poly1305; aes != (x.KeyBits != 0) {
				t.Errorf("we offer %v", x)
			}
		}
	}
}

func TestTrap_7296_28_Unknown(t *testing.T) {
	unusable := encr(wire.EncrAESGCM16, 256)
	unusable.Unusable = true
	unknown := wire.Transform{Type: 200, ID: 1}
	for _, c := range []struct {
		name string
		ts   []wire.Transform
		ok   bool
	}{
		{"unknown transform ID beside a known one", append(classicIKE(), encr(999, 128), prf(999), integ(999), group(999)), true},
		{"unknown transform ID alone", with(classicIKE(), group(999)), false},
		{"unknown attribute on one of two", append(classicIKE(), unusable), true},
		{"unknown attribute on the only one", with(classicIKE(), unusable), false},
		{"unknown transform type", append(classicIKE(), unknown), false},
		{"ESN in an IKE proposal", append(classicIKE(), esn(0)), false},
		{"a further key exchange", append(classicIKE(), wire.Transform{Type: wire.TransformADDKE1, ID: 36}), false},
		{"a further key exchange, or none", append(classicIKE(), wire.Transform{Type: wire.TransformADDKE1, ID: 36}, wire.Transform{Type: wire.TransformADDKE1}), true},
		{"no cipher", without(classicIKE(), wire.TransformEncr), false},
		{"no PRF", without(classicIKE(), wire.TransformPRF), false},
		{"no group", without(classicIKE(), wire.TransformKE), false},
		{"nothing", nil, false},
	} {
		if _, ok := takesIKE(t, ikeOf(c.ts...)); ok != c.ok {
			t.Errorf("%s: %v", c.name, ok)
		}
		if p, ok := takesIKE(t, ikeOf(c.ts...), wire.Proposal{Number: 2, Protocol: wire.ProtoIKE, Transforms: classicIKE()}); !ok || !c.ok && p.Number != 2 {
			t.Errorf("%s: the next proposal is not tried", c.name)
		}
	}
}

func TestTrap_7296_29_AEAD(t *testing.T) {
	aead := []wire.Transform{encr(wire.EncrAESGCM16, 256), prf(wire.PRFHMACSHA256), group(wire.GroupX25519)}
	for _, c := range []struct {
		name string
		ts   []wire.Transform
		ok   bool
	}{
		{"no INTEG", aead, true},
		{"NONE", append(slices.Clone(aead), integ(wire.IntegNone)), true},
		{"INTEG with AEAD alone", append(slices.Clone(aead), integ(wire.IntegSHA256_128)), false},
		{"both kinds of ciphers with INTEG: the classic one", append(classicIKE(), encr(wire.EncrAESGCM16, 256)), true},
		{"classic without INTEG", without(classicIKE(), wire.TransformInteg), false},
		{"classic with NONE", with(classicIKE(), integ(wire.IntegNone)), false},
	} {
		p, ok := takesIKE(t, ikeOf(c.ts...))
		if ok != c.ok {
			t.Errorf("%s: %v", c.name, ok)
		}
		hasInteg := slices.ContainsFunc(p.Transforms, func(x wire.Transform) bool { return x.Type == wire.TransformInteg })
		if ok && hasInteg == isAEAD(p.Transforms[0]) {
			t.Errorf("%s: answered %s", c.name, describeOne(p))
		}
	}
	if !checksIKE(t, ikeOf(append(slices.Clone(aead), integ(wire.IntegNone))...)) {
		t.Error("NONE in the answer is refused")
	}
	for _, p := range OfferIKE(conn(t, "", "", "")) {
		kinds := map[bool]bool{}
		for _, x := range p.Transforms {
			if x.Type == wire.TransformEncr {
				kinds[isAEAD(x)] = true
			}
		}
		if len(kinds) != 1 {
			t.Errorf("one proposal holds both kinds of ciphers: %s", describeOne(p))
		}
	}
}

func TestTrap_7296_30_ESN(t *testing.T) {
	if _, ok := takesESP(t, false, espOf(without(classicESP(), wire.TransformESN)...)); ok {
		t.Error("ESP without ESN transform is accepted")
	}
	for id, want := range map[uint16]bool{wire.ESNNo: false, wire.ESNYes: true} {
		if c, ok := takesESP(t, false, espOf(with(classicESP(), esn(id))...)); !ok || c.Suite.ESN != want {
			t.Errorf("ESN %d alone: %v, %v", id, ok, c.Suite.ESN)
		}
	}
	if c, ok := takesESP(t, false, espOf(with(classicESP(), esn(wire.ESNNo), esn(wire.ESNYes))...)); !ok || !c.Suite.ESN {
		t.Error("of both ESN is preferred")
	}
	ch := conn(t, "", "aes256-sha256-esn", "").Children[0]
	if _, m := ChooseESP(ch, []wire.Proposal{espOf(classicESP()...)}, false, 0, allCaps()); m == nil {
		t.Error("no ESN is accepted where the configuration says esn")
	}
}

func TestTrap_7296_31_Groups(t *testing.T) {
	// IKE_AUTH: a group is as if absent.
	if c, ok := takesESP(t, false, espOf(append(classicESP(), group(wire.GroupMODP1024))...)); !ok || c.Group != 0 || slices.ContainsFunc(c.Proposal.Transforms, func(x wire.Transform) bool { return x.Type == wire.TransformKE }) {
		t.Errorf("IKE_AUTH: %v %+v", ok, c)
	}
	// CREATE_CHILD_SA: only NONE was offered, so NONE is answered; a group that is not ours is refused.
	if c, ok := takesESP(t, true, espOf(append(classicESP(), group(wire.GroupNone))...)); !ok || c.Group != 0 || !slices.Contains(c.Proposal.Transforms, group(wire.GroupNone)) {
		t.Errorf("NONE: %v %+v", ok, c)
	}
	if _, ok := takesESP(t, true, espOf(append(classicESP(), group(wire.GroupMODP1024))...)); ok {
		t.Error("MODP-1024 is accepted")
	}
	// The initiator: an answer with NONE, or without, to an offer that has it among others.
	offered := OfferESP(conn(t, "", "", "").Children[0], 0x01020304, true, allCaps())
	answer := espOf(classicESP()...)
	answer.Number = 2
	for _, a := range []wire.Proposal{answer, {Number: 2, Protocol: wire.ProtoESP, SPI: answer.SPI, Transforms: append(classicESP(), group(wire.GroupNone))}} {
		if c, m := CheckESP(offered, []wire.Proposal{a}); m != nil || c.Group != 0 {
			t.Errorf("%s: %v", describeOne(a), m)
		}
	}
	strict := OfferESP(conn(t, "", "", "yes").Children[0], 0x01020304, true, allCaps())
	if _, m := CheckESP(strict, []wire.Proposal{answer}); m == nil {
		t.Error("an answer without group is accepted although one was demanded")
	}
	plain := OfferESP(conn(t, "", "", "").Children[0], 0x01020304, false, allCaps())
	if _, m := CheckESP(plain, []wire.Proposal{{Number: 2, Protocol: wire.ProtoESP, SPI: answer.SPI, Transforms: append(classicESP(), group(wire.GroupMODP2048))}}); m == nil {
		t.Error("an answer with a group is accepted although none was offered")
	}
}

func TestTrap_7296_32_IKENeedsGroup(t *testing.T) {
	if _, ok := takesIKE(t, ikeOf(with(classicIKE(), group(wire.GroupNone))...)); ok {
		t.Error("NONE is accepted for an IKE SA")
	}
	answer := ikeOf(with(classicIKE(), group(wire.GroupNone))...)
	answer.Number = 2
	if checksIKE(t, answer) {
		t.Error("NONE is accepted in the answer for an IKE SA")
	}
	if OffersGroup(OfferIKE(conn(t, "", "", "")), wire.GroupNone) {
		t.Error("NONE is offered for an IKE SA")
	}
}

func TestTrap_7296_44_Narrowing(t *testing.T) {
	us := &Connection{Name: "site-b", Children: []*Child{child(t, "lan", "10.1.0.0/16", "10.2.0.0/16"), child(t, "more", "10.3.0.0/16", "10.2.0.0/16")}}
	_, i, r, m := Narrow(us, WireTS(list(t, "10.2.0.5 0.0.0.0/0")), WireTS(list(t, "10.3.0.9 0.0.0.0/0")))
	if m != nil || !Within(list(t, "10.2.0.5"), i) || !Within(list(t, "10.3.0.9"), r) {
		t.Errorf("the first selectors are not in %v <-> %v, %v", i, r, m)
	}
	unknown := append([]wire.TrafficSelector{{TSType: wire.TSFCAddrRange, Raw: []byte{1}}}, WireTS(list(t, "10.2.0.0/16"))...)
	if _, i, _, m := Narrow(us, unknown, WireTS(list(t, "10.1.0.0/16"))); m != nil || len(i) != 1 {
		t.Errorf("an unknown selector type is not ignored: %v, %v", i, m)
	}
	if _, _, _, m := Narrow(us, unknown[:1], WireTS(list(t, "10.1.0.0/16"))); m == nil || m.Notify != wire.NotifyTSUnacceptable {
		t.Errorf("unknown selector types alone: %v", m)
	}
}

func TestTrap_7296_45_AnswerOutside(t *testing.T) {
	ch := child(t, "lan", "10.1.0.0/16", "10.2.0.0/16")
	if _, _, m := CheckNarrowed(ch, WireTS(list(t, "10.1.0.0/16")), WireTS(list(t, "10.0.0.0/8"))); m == nil {
		t.Error("an answer wider than the offer is accepted")
	}
	if _, _, m := CheckNarrowed(ch, WireTS(list(t, "10.1.0.0/16")), append(WireTS(list(t, "10.2.0.0/16")), wire.TrafficSelector{TSType: wire.TSSecLabel, Raw: []byte{1}})); m == nil {
		t.Error("an answer with a selector that was not offered is accepted")
	}
}

func TestTrap_7296_46_RekeyNotNarrower(t *testing.T) {
	old := list(t, "10.2.0.0/16")
	if Within(old, list(t, "10.2.0.0/17")) || !Within(old, list(t, "10.2.0.0/17 10.2.128.0/17")) || Within(old, list(t, "10.2.0.0/18 10.2.192.0/18")) || Within(old, list(t, "10.2.0.0/16[tcp]")) {
		t.Error("Within")
	}
}

func TestTrap_7296_47_SelectorsOnTheWire(t *testing.T) {
	ok := WireTS(list(t, "10.2.0.0/16"))[0]
	for name, change := range map[string]func(*wire.TrafficSelector){
		"start behind end":            func(w *wire.TrafficSelector) { w.Start, w.End = w.End, w.Start },
		"two families":                func(w *wire.TrafficSelector) { w.End = list(t, "2001:db8::1")[0].End },
		"ports without a protocol":    func(w *wire.TrafficSelector) { w.StartPort, w.EndPort = 443, 443 },
		"ports the wrong way round":   func(w *wire.TrafficSelector) { w.Protocol, w.StartPort, w.EndPort = 6, 9, 1 },
		"no address":                  func(w *wire.TrafficSelector) { *w = wire.TrafficSelector{TSType: wire.TSIPv4AddrRange} },
		"another type with addresses": func(w *wire.TrafficSelector) { w.TSType = wire.TSFCAddrRange },
	} {
		w := ok
		change(&w)
		if got := fromWire([]wire.TrafficSelector{w}); len(got) != 0 {
			t.Errorf("%s: read as %v", name, got)
		}
	}
	w := WireTS(list(t, "10.1.0.0/16"))[0]
	if w.StartPort != 0 || w.EndPort != 65535 || w.Protocol != 0 {
		t.Errorf("any port and protocol are sent as %+v", w)
	}
	if w := WireTS(list(t, "10.1.0.0/16[tcp/opaque]"))[0]; w.StartPort != 65535 || w.EndPort != 0 {
		t.Errorf("OPAQUE is sent as %+v", w)
	}
	if w := WireTS(list(t, "10.1.0.0/16[icmp/3(1)]"))[0]; w.StartPort != 0x0301 || w.EndPort != 0x0301 {
		t.Errorf("ICMP type 3 code 1 is sent as %+v", w)
	}
}

func TestTrap_7296_48_RangeIsSplit(t *testing.T) {
	for _, s := range Selectors(list(t, "10.1.0.1-10.1.0.9"), list(t, "10.2.0.0/16")) {
		p := TS{Start: s.Src.Addr(), End: lastOf(s.Src), Ports: xfrm.Ports{Last: 65535}}
		if !p.within(list(t, "10.1.0.1-10.1.0.9")) {
			t.Errorf("%v is wider than the range", s.Src)
		}
	}
}

func TestTrap_7296_82_GroupOfNoProposal(t *testing.T) {
	ch := conn(t, "", "", "").Children[0]
	c, m := ChooseESP(ch, []wire.Proposal{espOf(append(classicESP(), group(wire.GroupECP256))...)}, true, wire.GroupX25519, allCaps())
	if m != nil || c.Group != wire.GroupECP256 {
		t.Errorf("a KE payload of a group in no proposal decides: %v, %v", c.Group, m)
	}
}

func TestTrap_7296_84_OnlyConfigured(t *testing.T) {
	us := conn(t, "aes256-sha512-ecp384", "aes256gcm16-esn", "no")
	for _, text := range []string{"aes256-sha256-ecp384", "aes128-sha512-ecp384", "aes256-sha512-ecp256", "aes256gcm16-prfsha512-ecp384"} {
		if _, _, m := ChooseIKE([]*Connection{us}, offer(t, text, wire.ProtoIKE)); m == nil {
			t.Errorf("%s is accepted though it is not configured", text)
		}
	}
	for _, text := range []string{"aes128gcm16", "aes256-sha256", "chacha20poly1305", "aes256gcm16-noesn"} {
		if _, m := ChooseESP(us.Children[0], offer(t, text, wire.ProtoESP), false, 0, allCaps()); m == nil {
			t.Errorf("%s is accepted though it is not configured", text)
		}
	}
}
