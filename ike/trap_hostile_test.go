package ike

import (
	"bytes"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// The classes of mistakes that other daemons had to publish, each by the number of one of them.

// firstRequest is an initiator's IKE_SA_INIT request.
func firstRequest(t *testing.T) (*network, []byte) {
	n := newPair(t, setup{})
	n.hook = func(datagram) []datagram { return nil }
	n.a.step(Initiate{})
	n.run(5*time.Millisecond, nil)
	if len(n.a.sends) != 1 {
		t.Fatalf("%d messages", len(n.a.sends))
	}
	return n, n.a.sends[0].Data
}

// stranger gives a new responder a first message and returns what it sends.
func (n *network) stranger(data []byte) []Send {
	b := newHost(n, "b", 0xb, n.b.config.Snapshot, n.b.config.Caps, 1)
	n.b = b
	b.sa = NewResponder(b.config)
	b.step(Packet{Path{apB, apA}, bytes.Clone(data)})
	n.run(3*time.Millisecond, nil)
	return b.sends
}

// TestCVE_2013_4564_EveryLength: a message that is cut anywhere is not answered, the first one as little as a protected one.
func TestCVE_2013_4564_EveryLength(t *testing.T) {
	n, request := firstRequest(t)
	for k := range request {
		if sends := n.stranger(request[:k]); len(sends) != 0 || n.b.finish == nil {
			t.Errorf("%d octets of a first message: %d answers, finish %+v", k, len(sends), n.b.finish)
		}
	}
	n = newPair(t, setup{})
	n.up()
	data := n.a.seal(n.a.sa.header(wire.Informational, false, uint32(n.a.sa.requests.next)), []wire.Payload{&wire.Delete{Protocol: wire.ProtoIKE}})
	sent := len(n.b.sends)
	for k := range data {
		n.b.step(Packet{Path{apB, apA}, data[:k]})
		put := bytes.Clone(data[:k])
		if k >= wire.HeaderLen { // with the length put right
			put[27], put[26] = byte(k), byte(k>>8)
			n.b.step(Packet{Path{apB, apA}, put})
		}
	}
	if len(n.b.sends) != sent || !n.b.sa.Established() {
		t.Error("a part of a protected message was taken")
	}
}

// TestCVE_2015_3204_EveryBit: any bit of the first message changed: at most one answer, and nothing breaks. Reserved ones do not matter.
func TestCVE_2015_3204_EveryBit(t *testing.T) {
	n, request := firstRequest(t)
	for k := range request {
		for bit := range 8 {
			bad := bytes.Clone(request)
			bad[k] ^= 1 << bit
			if sends := n.stranger(bad); len(sends) > 1 {
				t.Errorf("octet %d, bit %d: %d answers", k, bit, len(sends))
			}
		}
	}
	for name, k := range map[string]int{"reserved bits of the flags": 19, "reserved bits of the SA payload": 29} {
		bad := bytes.Clone(request)
		bad[k] ^= 0x47 // all but initiator, version, response and critical
		if sends := n.stranger(bad); len(sends) != 1 {
			t.Errorf("%s: %d answers", name, len(sends))
		}
	}
}

// TestCVE_2014_9221_EveryGroup: a key of any group, with and without a proposal that names it: only what is allowed is answered with a key.
func TestCVE_2014_9221_EveryGroup(t *testing.T) {
	n, request := firstRequest(t)
	try := func(g wire.GroupID, offered bool) {
		m, err := wire.Decode(request)
		if err != nil {
			t.Fatal(err)
		}
		ke, _ := wire.Find[*wire.KE](m.Payloads)
		offer, _ := wire.Find[*wire.SA](m.Payloads)
		ke.Group = g
		for i := range offer.Proposals[0].Transforms {
			if x := &offer.Proposals[0].Transforms[i]; offered && x.Type == wire.TransformKE {
				x.ID = uint16(g)
			}
		}
		for _, s := range n.stranger(encode(t, m)) {
			answer, err := wire.Decode(s.Data)
			if err != nil {
				t.Fatal(err)
			}
			if has(answer.Payloads, wire.PayloadKE) != (g == wire.GroupECP256) {
				t.Errorf("group %d, offered %v: answer %v", g, offered, answer.Payloads)
			}
		}
	}
	list := []int{65535, 1023, 1024, 1025, 1026}
	for g := range 300 {
		list = append(list, g, 300+g*217)
	}
	for _, g := range list {
		try(wire.GroupID(g), true)
		try(wire.GroupID(g), false)
	}
}

// TestCVE_2013_6076_Fragment: a fragment, whole by itself or with nothing before it, is not taken as long as fragmentation is not agreed.
func TestCVE_2013_6076_Fragment(t *testing.T) {
	n := newPair(t, setup{b: keyed(gwB, `fragmentation = "no"`)})
	n.up()
	first, plain, err := wire.AppendPayloads(nil, []wire.Payload{&wire.Delete{Protocol: wire.ProtoIKE}})
	if err != nil {
		t.Fatal(err)
	}
	h := n.a.sa.header(wire.Informational, false, uint32(n.a.sa.requests.next))
	for _, f := range [][2]uint16{{1, 1}, {1, 2}, {2, 2}, {64, 64}} {
		data, err := n.a.sa.protect.SealFragment(h, first, f[0], f[1], plain, n.a.config.Rand)
		if err != nil {
			t.Fatal(err)
		}
		if answer := n.a.exchange(data); answer != nil || !n.b.sa.Established() {
			t.Errorf("fragment %d of %d: answer %v", f[0], f[1], answer)
		}
	}
	if answer := n.a.ask(wire.Informational); answer == nil {
		t.Error("the message ID was used up by fragments")
	}
}

// TestCVE_2015_3991_OldPayloads: payload types of IKEv1 are unknown here: skipped, or refused when critical.
func TestCVE_2015_3991_OldPayloads(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	for typ := wire.PayloadType(1); typ < wire.PayloadSA; typ++ {
		if answer := n.a.ask(wire.Informational, &wire.Unknown{PayloadType: typ, Body: make([]byte, 12)}); answer == nil || len(answer) != 0 {
			t.Fatalf("type %d: answer %v", typ, answer)
		}
		answer := n.a.ask(wire.Informational, &wire.Unknown{PayloadType: typ, Critical: true})
		if no, ok := wire.FindNotify(answer, wire.NotifyUnsupportedCriticalPayload); !ok || !bytes.Equal(no.Data, []byte{byte(typ)}) {
			t.Fatalf("type %d, critical: answer %v", typ, answer)
		}
	}
}

// TestCVE_2023_38712_RepeatedDelete: one SPI several times in one message is one child; what is gone can be deleted again.
func TestCVE_2023_38712_RepeatedDelete(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	in, out := n.b.sa.children[0].spiIn, n.b.sa.children[0].spiOut
	twice := &wire.Delete{Protocol: wire.ProtoESP, SPIs: []uint32{out, out, out}}
	answer := n.a.ask(wire.Informational, twice, twice)
	if d := wire.All[*wire.Delete](answer); len(d) != 1 || len(d[0].SPIs) != 1 || d[0].SPIs[0] != in {
		t.Errorf("answer %v", answer)
	}
	if answer := n.a.ask(wire.Informational, twice); answer == nil || len(answer) != 0 {
		t.Errorf("of what is gone: %v", answer)
	}
	if len(n.b.plane.sas) != 0 || !n.b.sa.Established() {
		t.Errorf("%d SAs", len(n.b.plane.sas))
	}
	both := []wire.Payload{&wire.Delete{Protocol: wire.ProtoIKE}, &wire.Delete{Protocol: wire.ProtoIKE}, twice}
	if answer := n.a.ask(wire.Informational, both...); answer == nil || len(answer) != 0 || n.b.finish == nil {
		t.Errorf("the IKE SA twice: %v, finish %+v", answer, n.b.finish)
	}
}

// TestCVE_2025_9242_LongIdentity: the longest identity that a message holds is refused like a wrong one.
func TestCVE_2025_9242_LongIdentity(t *testing.T) {
	for _, size := range []int{2049, 60000} {
		for _, typ := range []wire.IDType{wire.IDFQDN, wire.IDKeyID, wire.IDIPv4Addr, wire.IDDERASN1DN} {
			n := newPair(t, setup{})
			var answers [][]wire.Payload
			n.tamper(func(o *opened) bool {
				if o.is(wire.IKEAuth, true) {
					answers = append(answers, o.ps)
				}
				if !o.is(wire.IKEAuth, false) {
					return false
				}
				for i, p := range o.ps {
					if p.Type() == wire.PayloadIDi {
						o.ps[i] = wire.NewID(false, typ, bytes.Repeat([]byte{'a'}, size))
					}
				}
				return true
			})
			n.fails()
			if len(answers) != 1 || !notified(answers[0], wire.NotifyAuthenticationFailed) {
				t.Errorf("type %d, %d octets: answers %v", typ, size, answers)
			}
			for _, r := range n.b.reports {
				if len(r.Text) > 2000 {
					t.Errorf("type %d: a report of %d octets", typ, len(r.Text))
				}
			}
		}
	}
}
