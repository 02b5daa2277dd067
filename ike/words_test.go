package ike

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

// mishap is something that goes wrong, and of which people read.
type mishap struct {
	name string
	pair setup
	do   func(n *network)
}

// answered replaces the payloads of each response of an exchange.
func (n *network) answered(x wire.ExchangeType, change func(ps []wire.Payload) []wire.Payload) {
	n.tamper(func(o *opened) bool {
		if !o.is(x, true) {
			return false
		}
		o.ps = change(o.ps)
		return true
	})
}

func refusal(kind wire.NotifyType, data ...byte) func([]wire.Payload) []wire.Payload {
	return func([]wire.Payload) []wire.Payload { return []wire.Payload{wire.NewNotify(kind, data)} }
}

// initiated is a set-up in which a's exchange gets this answer.
func initiated(x wire.ExchangeType, change func(ps []wire.Payload) []wire.Payload) func(n *network) {
	return func(n *network) {
		n.answered(x, change)
		n.a.step(Initiate{})
		n.run(2*time.Minute, func() bool { return n.a.finish != nil || n.a.sa.Established() })
		n.run(time.Second, nil)
	}
}

// childAnswer has IKE_AUTH accept a, and answer for the child as said.
func childAnswer(kind wire.NotifyType) func(n *network) {
	return initiated(wire.IKEAuth, func(ps []wire.Payload) []wire.Payload { return append(ps[:2:2], wire.NewNotify(kind, nil)) })
}

// then brings the connection up and does something to it.
func then(do func(n *network)) func(n *network) {
	return func(n *network) {
		n.up()
		for _, h := range []*host{n.a, n.b} {
			h.heard = len(h.reports)
		}
		do(n)
		n.run(2*time.Second, nil)
	}
}

// rekeyAnswered has a's rekey of the child, or of the IKE SA, get this answer.
func rekeyAnswered(ike bool, change func(ps []wire.Payload) []wire.Payload) func(n *network) {
	return then(func(n *network) {
		n.answered(wire.CreateChildSA, change)
		n.a.step(Rekey{IKE: ike})
	})
}

// edit changes the first payload of a type.
func edit[P wire.Payload](change func(p P)) func(ps []wire.Payload) []wire.Payload {
	return func(ps []wire.Payload) []wire.Payload {
		p, ok := wire.Find[P](ps)
		if ok {
			change(p)
		}
		return ps
	}
}

// without leaves out a payload.
func without(t wire.PayloadType) func(ps []wire.Payload) []wire.Payload {
	return func(ps []wire.Payload) (list []wire.Payload) {
		for _, p := range ps {
			if p.Type() != t {
				list = append(list, p)
			}
		}
		return list
	}
}

// mishaps by exchange.
func mishaps() (list []mishap) {
	add := func(name string, pair setup, do func(n *network)) { list = append(list, mishap{name, pair, do}) }
	dynamic := setup{a: strings.Replace(strings.Replace(gwA, `address = "192.0.2.1"`, `address = "%any"`, 1), `address = "198.51.100.7"`, `address = "gw-b.example"`, 1)}
	many := setup{a: strings.Replace(gwA, "-ecp256", "-ecp256-x25519", 1), b: gwB}
	for _, kind := range []wire.NotifyType{wire.NotifyNoProposalChosen, wire.NotifyInvalidKEPayload, wire.NotifyInvalidMajorVersion, wire.NotifyInvalidSyntax} {
		add(fmt.Sprintf("IKE_SA_INIT is refused by %v", kind), many, initiated(wire.IKESAInit, refusal(kind, 0, 99)))
	}
	add("IKE_SA_INIT: the peer's key is no point", setup{}, initiated(wire.IKESAInit, edit(func(p *wire.KE) { clear(p.Data) })))
	add("IKE_SA_INIT: a key of another group", setup{}, initiated(wire.IKESAInit, edit(func(p *wire.KE) { p.Group = wire.GroupECP384 })))
	add("IKE_SA_INIT: what was not offered", setup{}, initiated(wire.IKESAInit, edit(func(p *wire.SA) { p.Proposals[0].Transforms[0].KeyBits = 192 })))
	for _, kind := range []wire.NotifyType{wire.NotifyAuthenticationFailed, wire.NotifyInvalidSyntax, 8191} {
		add(fmt.Sprintf("IKE_AUTH is refused by %v", kind), setup{}, initiated(wire.IKEAuth, refusal(kind)))
	}
	for _, kind := range []wire.NotifyType{wire.NotifyNoProposalChosen, wire.NotifyTSUnacceptable, wire.NotifySinglePairRequired, wire.NotifyNoAdditionalSAs, wire.NotifyInternalAddressFailure} {
		add(fmt.Sprintf("the first child is refused by %v", kind), setup{}, childAnswer(kind))
	}
	add("IKE_AUTH: neither a child nor a reason", setup{}, initiated(wire.IKEAuth, func(ps []wire.Payload) []wire.Payload { return ps[:2] }))
	for _, kind := range []wire.NotifyType{wire.NotifyNoProposalChosen, wire.NotifyNoAdditionalSAs, wire.NotifyTemporaryFailure, wire.NotifyChildSANotFound, wire.NotifyInvalidSyntax, wire.NotifyInvalidKEPayload} {
		add(fmt.Sprintf("the rekey of a child is refused by %v", kind), setup{}, rekeyAnswered(false, refusal(kind, 0, 99)))
		add(fmt.Sprintf("the rekey of the IKE SA is refused by %v", kind), setup{}, rekeyAnswered(true, refusal(kind, 0, 99)))
	}
	for _, ike := range []bool{false, true} {
		what := map[bool]string{false: "child", true: "IKE SA"}[ike]
		add("the rekey of the "+what+": a key of another group", setup{}, rekeyAnswered(ike, edit(func(p *wire.KE) { p.Group = wire.GroupECP384 })))
		add("the rekey of the "+what+": the peer's key is no point", setup{}, rekeyAnswered(ike, edit(func(p *wire.KE) { clear(p.Data) })))
		add("the rekey of the "+what+": what was not offered", setup{}, rekeyAnswered(ike, edit(func(p *wire.SA) { p.Proposals[0].Transforms[0].KeyBits = 192 })))
		add("the rekey of the "+what+": no key", setup{}, rekeyAnswered(ike, without(wire.PayloadKE)))
		add("the rekey of the "+what+": the data plane or the job fails", setup{}, then(func(n *network) {
			n.a.internal, n.a.results = true, func(any) any { return nil }
			n.a.step(Rekey{IKE: ike})
		}))
	}
	add("the rekey of the IKE SA: a child", setup{}, rekeyAnswered(true, func(ps []wire.Payload) []wire.Payload {
		ts := policy.WireTS([]policy.TS{packetTS(addrA, 0, xfrm.Ports{})})
		sa := &wire.SA{Proposals: []wire.Proposal{{Number: 1, Protocol: wire.ProtoESP, SPI: []byte{1, 2, 3, 4}, Transforms: []wire.Transform{{Type: wire.TransformESN}}}}}
		return []wire.Payload{sa, ps[1], &wire.TS{Selectors: ts}, &wire.TS{Responder: true, Selectors: ts}}
	}))
	add("a child cannot be rekeyed in its lifetime", setup{}, then(func(n *network) {
		n.a.sa.children[0].tries = 3
		n.a.step(Expire{ID: n.a.sa.children[0].outID(), Hard: true})
	}))
	add("the first address of several does not answer", dynamic, func(n *network) {
		n.a.lookup = []netip.Addr{netip.MustParseAddr("198.51.100.8"), addrB}
		n.a.step(Initiate{})
		n.run(2*time.Minute, func() bool { return n.a.children() == 1 })
	})
	add("the rekey of the IKE SA: SPI zero", setup{}, rekeyAnswered(true, edit(func(p *wire.SA) { clear(p.Proposals[0].SPI) })))
	add("the rekey of a child: other selectors", setup{}, rekeyAnswered(false, edit(func(p *wire.TS) { p.Selectors[0].End = netip.MustParseAddr("10.1.0.255") })))
	asks := []struct {
		name string
		ps   func(n *network) []wire.Payload
	}{
		{"a rekey of the IKE SA without an SPI", func(n *network) []wire.Payload {
			ps, _ := n.a.rekeyOffer(1)
			ps[0].(*wire.SA).Proposals[0].SPI = nil
			return ps
		}},
		{"a rekey of the IKE SA with a key of another group", func(n *network) []wire.Payload {
			ps, _ := n.a.rekeyOffer(1)
			ps[2].(*wire.KE).Group = wire.GroupECP384
			return ps
		}},
		{"a rekey of the IKE SA with a key that is no point", func(n *network) []wire.Payload {
			ps, _ := n.a.rekeyOffer(1)
			clear(ps[2].(*wire.KE).Data)
			return ps
		}},
		{"a rekey of the IKE SA with what is not allowed", func(n *network) []wire.Payload {
			ps, _ := n.a.rekeyOffer(1)
			ps[0].(*wire.SA).Proposals[0].Transforms[0].KeyBits = 128
			return ps
		}},
		{"a rekey of a child that is not there", func(n *network) []wire.Payload {
			return n.a.offer(0x7001, wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoESP, 0x123456))
		}},
		{"a rekey of a child of AH", func(n *network) []wire.Payload {
			return n.a.offer(0x7001, wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoAH, n.a.sa.children[0].spiIn))
		}},
		{"a rekey of a child without an SPI", func(n *network) []wire.Payload { return n.a.offer(0x7001, wire.NewNotify(wire.NotifyRekeySA, nil)) }},
		{"a rekey of a child with narrower selectors", func(n *network) []wire.Payload {
			ps := n.a.offer(0x7001, wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoESP, n.a.sa.children[0].spiIn))
			ps[3].(*wire.TS).Selectors[0].End = netip.MustParseAddr("10.1.0.255")
			return ps
		}},
		{"a child with selectors of nobody", func(n *network) []wire.Payload {
			ps := n.a.offer(0x7001)
			ps[2].(*wire.TS).Selectors[0].Start, ps[2].(*wire.TS).Selectors[0].End = netip.MustParseAddr("10.9.0.0"), netip.MustParseAddr("10.9.0.255")
			return ps
		}},
		{"a child with a key that is no point", func(n *network) []wire.Payload {
			ps := n.a.offer(0x7001, &wire.KE{Group: wire.GroupX25519, Data: make([]byte, 32)})
			ps[1] = &wire.SA{Proposals: policy.OfferESP(n.a.sa.conn.Children[0], 0x7001, true, n.a.config.Caps)}
			return ps
		}},
		{"a child with a key of a group that is not ours", func(n *network) []wire.Payload {
			ps := n.a.offer(0x7001, &wire.KE{Group: wire.GroupMODP1024, Data: make([]byte, 128)})
			ps[1] = &wire.SA{Proposals: policy.OfferESP(n.a.sa.conn.Children[0], 0x7001, true, n.a.config.Caps)}
			return ps
		}},
	}
	for _, c := range asks {
		add("the peer asks for "+c.name, setup{}, then(func(n *network) { n.a.ask(wire.CreateChildSA, c.ps(n)...) }))
	}
	for _, kind := range []wire.NotifyType{wire.NotifyAuthenticationFailed, wire.NotifyInvalidSyntax, wire.NotifyUnsupportedCriticalPayload} {
		add(fmt.Sprintf("the peer ends it by %v", kind), setup{}, then(func(n *network) { n.b.ask(wire.Informational, wire.NewNotify(kind, nil)) }))
	}
	silent := func(n *network) { n.hook = func(datagram) []datagram { return nil } }
	add("nobody answers IKE_SA_INIT", setup{}, func(n *network) {
		silent(n)
		n.a.step(Initiate{})
		n.run(time.Minute, func() bool { return n.a.finish != nil })
	})
	add("nobody answers IKE_AUTH", setup{}, func(n *network) {
		n.a.step(Initiate{})
		n.run(time.Second, func() bool { return n.a.sa.phase.name() == phaseAuthenticating })
		silent(n)
		n.run(2*time.Minute, func() bool { return n.a.finish != nil })
	})
	add("nobody answers any more", setup{}, then(func(n *network) {
		silent(n)
		n.a.step(Rekey{})
		n.run(2*time.Minute, func() bool { return n.a.finish != nil })
	}))
	add("no key can be made", setup{}, func(n *network) {
		n.a.internal, n.a.results = true, func(any) any { return nil }
		n.a.step(Initiate{})
		n.run(time.Second, nil)
	})
	lookUp := func(d ResolveDone) func(n *network) {
		return func(n *network) {
			n.a.sa.Step(n.now, Initiate{}, &Actions{})
			d.Token = n.a.sa.lastToken
			n.a.step(d)
		}
	}
	add("a look-up gives no address", dynamic, lookUp(ResolveDone{Local: addrA}))
	add("a look-up gives an error", dynamic, lookUp(ResolveDone{Err: errors.New("the name server does not answer")}))
	add("a look-up gives no source", dynamic, lookUp(ResolveDone{Remote: []netip.Addr{addrB}}))
	add("a further child that is not configured", setup{}, then(func(n *network) { n.a.internal = true; n.a.step(RaiseChild{Child: "voice"}) }))
	add("a first child that is not configured", setup{}, func(n *network) { n.a.internal = true; n.a.step(Initiate{Children: []string{"voice"}}) })
	add("a rekey of what is not up", setup{}, then(func(n *network) { n.a.step(Rekey{Child: "voice"}) }))
	add("the end of what is not up", setup{}, then(func(n *network) { n.a.step(Lower{Child: "voice"}) }))
	add("the data plane refuses the first child", setup{}, func(n *network) {
		n.b.plane.fail = func(op xfrm.Op) error { return errors.New("out of memory") }
		n.a.step(Initiate{})
		n.run(time.Second, nil)
	})
	add("the data plane refuses the outbound SA of a rekey", setup{}, then(func(n *network) {
		n.b.plane.fail = func(op xfrm.Op) error {
			if add, ok := op.(xfrm.AddSA); ok && add.SA.Direction == xfrm.Out {
				return errors.New("out of memory")
			}
			return nil
		}
		n.a.step(Rekey{})
	}))
	broken := func(h *host, broken func(op xfrm.Op) bool) {
		h.plane.fail = func(op xfrm.Op) error {
			if broken(op) {
				return errors.New("out of memory")
			}
			return nil
		}
	}
	removal := func(op xfrm.Op) bool { _, ok := op.(xfrm.RemoveSA); return ok }
	add("the data plane removes nothing", setup{}, then(func(n *network) { broken(n.a, removal); n.a.step(Lower{Child: "lan"}) }))
	add("the data plane does not remove what was replaced", setup{}, then(func(n *network) {
		n.a.step(Rekey{})
		n.run(time.Second, nil)
		broken(n.a, removal)
		broken(n.b, removal)
	}))
	add("both rekey the IKE SA", setup{}, then(func(n *network) { n.a.rekeyIKE(); n.b.rekeyIKE() }))
	add("both rekey a child", setup{}, then(func(n *network) { n.a.step(Rekey{}); n.b.step(Rekey{}) }))
	add("noise", setup{}, then(func(n *network) {
		n.transmit(datagram{apB, apA, []byte("hello")})
		n.transmit(datagram{apB, apA, encode(n.t, &wire.Message{Header: wire.Header{SPIi: 1, SPIr: 2, MajorVersion: 2, Exchange: wire.Informational}})})
	}))
	return list
}

// TestWords plays what can go wrong, and compares what people read of it with testdata/words.txt: with -update it is written anew, to be read.
func TestWords(t *testing.T) {
	var b strings.Builder
	seen := map[string]bool{}
	for _, m := range mishaps() {
		if seen[m.name] {
			t.Errorf("%q is twice there", m.name)
		}
		seen[m.name] = true
		t.Run(m.name, func(t *testing.T) {
			n := newPair(t, m.pair)
			m.do(n)
			fmt.Fprintf(&b, "%s\n", m.name)
			spis := map[string]string{}
			for _, h := range []*host{n.a, n.b} {
				for i, r := range h.reports {
					if line := labelled(written(h, r), spis); i >= h.heard {
						fmt.Fprintf(&b, "  %s\n", line)
					}
				}
				if f := h.finish; f != nil {
					fmt.Fprintf(&b, "  %s ends, %s: %s (again: %v)\n", h.name, f.Code, labelled(f.Text, spis), f.Retry)
				}
			}
			b.WriteString("\n")
		})
	}
	file := filepath.Join("testdata", "words.txt")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, old := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(old)) {
		if i >= len(got) || i >= len(old) || got[i] != old[i] {
			t.Fatalf("%s:%d is not what is said now (go test ./ike -run TestWords -update, then read the difference):\n got %q\nwant %q", file, i+1, at(got, i), at(old, i))
		}
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "the end"
}

// labelled gives SPIs names in the order in which they are said: they are drawn by chance.
func labelled(line string, names map[string]string) string {
	return regexp.MustCompile(`\b([0-9a-f]{16}|[0-9a-f]{8})\b`).ReplaceAllStringFunc(line, func(spi string) string {
		if names[spi] == "" {
			names[spi] = fmt.Sprintf("s%d", len(names)+1)
		}
		return names[spi]
	})
}

// written is a report in one line.
func written(h *host, r Report) string {
	s := h.name
	for _, about := range []string{r.Child, string(r.Code)} {
		if about != "" {
			s += " " + about
		}
	}
	s += ": " + r.Text
	if r.Hint != "" {
		s += " | hint: " + r.Hint
	}
	if r.Detail != "" {
		s += " | detail: " + r.Detail
	}
	if r.Caller != "" {
		s += " | caller: " + r.Caller
	}
	if r.From.IsValid() {
		s += " | from: " + r.From.String()
	}
	return s
}

// TestReportsNameTheConnection: once it is known which one it is, and on either side.
func TestReportsNameTheConnection(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.a.step(Lower{})
	n.run(10*time.Second, nil)
	for _, h := range []*host{n.a, n.b} {
		known := h == n.a
		for _, r := range h.reports {
			known = known || r.Code == CodeAuthenticated
			if want := h.config.Snapshot.Connections[0].Name; known && r.Connection != want || r.Connection != "" && r.Connection != want {
				t.Errorf("%s: %q is of connection %q", h.name, r.Text, r.Connection)
			}
		}
		if !known {
			t.Errorf("%s never learnt which connection it is", h.name)
		}
	}
}
