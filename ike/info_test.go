package ike

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// TestLowerChild from either side: the other deletes its half and says so.
func TestLowerChild(t *testing.T) {
	for _, side := range []string{"a", "b"} {
		n := newPair(t, setup{})
		n.up()
		h, other := n.a, n.b
		if side == "b" {
			h, other = n.b, n.a
		}
		h.step(Lower{Child: "lan", Why: "not needed"})
		n.run(5*time.Second, nil)
		n.empty()
		h.wants(CodeChildDown, "down: not needed")
		other.wants(CodeChildDown, "down: the peer deleted it")
		if !n.a.sa.Established() || !n.b.sa.Established() {
			t.Error("the IKE SA went too")
		}
		h.step(RaiseChild{Child: "lan"})
		n.both(1)
	}
}

// TestTrap_7296_56_DeletesCross: both delete the same child at once; no answer holds a Delete, and nothing is left.
func TestTrap_7296_56_DeletesCross(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	deletes := 0
	n.tamper(func(o *opened) bool {
		if _, ok := wire.Find[*wire.Delete](o.ps); ok && o.Response() {
			deletes++
		}
		return false
	})
	n.a.step(Lower{Child: "lan"})
	n.b.step(Lower{Child: "lan"})
	n.run(15*time.Millisecond, nil) // requests have arrived, answers have not
	for _, h := range []*host{n.a, n.b} {
		for id, s := range h.plane.sas {
			if s.Direction == xfrm.Out {
				t.Errorf("%s: outbound %v is still there", h.name, id)
			}
		}
		if len(h.plane.sas) != 1 {
			t.Errorf("%s: %d SAs, the inbound one is to stay until the answer", h.name, len(h.plane.sas))
		}
	}
	n.run(5*time.Second, nil)
	if deletes != 0 {
		t.Errorf("%d answers hold a Delete", deletes)
	}
	n.empty()
	if !n.a.sa.Established() || !n.b.sa.Established() {
		t.Error("the IKE SA went too")
	}
}

// TestTrap_7296_55_ClosesCross: both close the IKE SA at once.
func TestTrap_7296_55_ClosesCross(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.a.step(Lower{})
	n.b.step(Lower{})
	n.run(20*time.Second, func() bool { return n.a.finish != nil && n.b.finish != nil })
	for _, h := range []*host{n.a, n.b} {
		if h.finish == nil || h.finish.Code != CodeClosed || h.finish.Retry {
			t.Errorf("%s: %+v", h.name, h.finish)
		}
	}
	n.empty()
}

// TestTrap_7296_55_CreateWhileClosing: TEMPORARY_FAILURE.
func TestTrap_7296_55_CreateWhileClosing(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.hook = func(d datagram) []datagram { // the Delete is lost
		if d.from.Addr() == addrB && d.data[wire.HeaderLen-9]&0x20 == 0 {
			return nil
		}
		return []datagram{d}
	}
	n.b.step(Lower{})
	if answer := n.a.ask(wire.CreateChildSA, n.a.offer(0x7777)...); !notified(answer, wire.NotifyTemporaryFailure) {
		t.Errorf("answer %v", answer)
	}
	n.run(time.Minute, func() bool { return n.b.finish != nil })
	if n.b.finish == nil || n.b.finish.Code != CodeClosed {
		t.Errorf("finish %+v", n.b.finish)
	}
}

// TestTrap_7296_56_DeleteIKE: the answer is empty, the children go, the waiting side hears why.
func TestTrap_7296_56_DeleteIKE(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	empty := false
	n.tamper(func(o *opened) bool {
		empty = empty || o.is(wire.Informational, true) && len(o.ps) == 0
		return false
	})
	n.b.step(Lower{Why: "maintenance"})
	n.run(5*time.Second, func() bool { return n.a.finish != nil && n.b.finish != nil })
	if !empty || n.a.finish == nil || n.b.finish == nil || !n.a.finish.Retry || n.b.finish.Retry || n.b.finish.Text != "maintenance" {
		t.Errorf("empty %v, a %+v, b %+v", empty, n.a.finish, n.b.finish)
	}
	n.a.wants(CodeClosed, "closed by the peer")
	n.a.wants(CodeChildDown, "closed by the peer")
	n.empty()
}

// TestTrap_7296_16_EveryInformationalAnswered: empty, not understood, or about what is not there.
func TestTrap_7296_16_EveryInformationalAnswered(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	for _, ps := range [][]wire.Payload{
		nil,
		{wire.NewNotify(60001, []byte("?"))},
		{wire.NewNotify(8191, nil)}, // an unknown error in a request is ignored (trap 61)
		{&wire.Delete{Protocol: wire.ProtoESP, SPIs: []uint32{1, 2, 3}}},
		{&wire.Delete{Protocol: wire.ProtoAH, SPIs: []uint32{n.b.sa.children[0].spiOut}}},
		{&wire.CP{CfgType: wire.CfgRequest}},
		{&wire.KE{Group: 14, Data: []byte{1}}}, // does not belong there: ignored and reported
		{wire.NewNotify(wire.NotifyCookie2, []byte("1234567"))},
	} {
		if answer := n.a.ask(wire.Informational, ps...); answer == nil || len(answer) != 0 || !n.b.sa.Established() || len(n.b.sa.children) != 1 {
			t.Errorf("%v: answer %v", ps, answer)
		}
	}
	found := false
	for _, r := range n.b.reports {
		found = found || r.Code == CodeIgnored && strings.Contains(r.Text, "payloads in INFORMATIONAL that do not belong there")
	}
	if !found {
		t.Error("a stray payload is not reported")
	}
}

// TestTrap_7296_95_Malformed: INVALID_SYNTAX, and both drop the IKE SA without a Delete; an unknown critical payload leaves it.
func TestTrap_7296_95_Malformed(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	if answer := n.a.ask(wire.Informational, &wire.Unknown{PayloadType: 222, Critical: true}); !notified(answer, wire.NotifyUnsupportedCriticalPayload) || !n.b.sa.Established() {
		t.Errorf("critical: %v", answer)
	}
	answer := n.a.ask(wire.CreateChildSA, &wire.Nonce{Data: make([]byte, 32)})
	if !notified(answer, wire.NotifyInvalidSyntax) || n.b.finish == nil || n.b.finish.Code != CodeProtocol {
		t.Errorf("missing payload: %v", answer)
	}
	for _, s := range n.b.sends {
		if m, _ := wire.Decode(s.Data); m.Exchange == wire.Informational && !m.Response() {
			t.Error("a Delete was sent")
		}
	}
	// Octets that are no payloads, under a good checksum (Advisories 1: a traffic selector with a bad length).
	for _, plain := range [][]byte{{0, 0, 0}, {0, 0, 0, 3}, {0, 0, 0xff, 0xff}, {0, 0, 0, 16, 1, 0, 0, 0, 7, 0, 0, 99, 0, 0, 0xff, 0xff}} {
		n := newPair(t, setup{})
		n.up()
		h := n.a.sa.header(wire.Informational, false, uint32(n.a.sa.requests.next))
		data, err := n.a.sa.protect.Seal(h, wire.PayloadTSi, plain, n.a.config.Rand)
		if err != nil {
			t.Fatal(err)
		}
		if answer := n.a.exchange(data); !notified(answer, wire.NotifyInvalidSyntax) || n.b.finish == nil {
			t.Errorf("%v: answer %v", plain, answer)
		}
	}
}

// TestTrap_7296_96_BadResponse: no error message to a response, but the state is cleaned up with a Delete.
func TestTrap_7296_96_BadResponse(t *testing.T) {
	n := newPair(t, two(""))
	n.tamper(func(o *opened) bool {
		if !o.is(wire.CreateChildSA, true) {
			return false
		}
		o.drop(wire.PayloadNonce)
		return true
	})
	n.a.step(Initiate{})
	n.run(time.Minute, func() bool { return n.a.finish != nil && n.b.finish != nil })
	n.a.wants(CodeProtocol, "holds no")
	n.b.wants(CodeClosed, "closed by the peer")
	n.empty()
}

// TestLiveness: an idle peer is asked; traffic on the children makes that needless; a dead peer ends the IKE SA, without a Delete.
func TestLiveness(t *testing.T) {
	count := func(n *network) (requests int) {
		for _, s := range n.a.sends {
			if m, _ := wire.Decode(s.Data); m.Exchange == wire.Informational && !m.Response() {
				requests++
			}
		}
		return requests
	}
	n := newPair(t, setup{b: strings.Replace(gwB, "[connection.site-a.child", "liveness = { idle = \"24h\" }\n[connection.site-a.child", 1)})
	n.up()
	n.run(100*time.Second, nil)
	if got := count(n); got != 3 {
		t.Errorf("%d requests in 100 s with an idle peer", got)
	}
	n.a.usage = UsageDone{Inbound: 5}
	n.run(100*time.Second, nil)
	if got := count(n); got != 3 {
		t.Errorf("%d requests with a busy peer", got)
	}
	n.a.usage = UsageDone{}
	dead := n.now
	n.hook = func(datagram) []datagram { return nil }
	n.run(10*time.Minute, func() bool { return n.a.finish != nil })
	n.a.wants(CodeNoAnswer, "no answer from 198.51.100.7:4500 to 5 INFORMATIONAL (liveness) in 89 s", "the peer is gone")
	if n.a.finish == nil || !n.a.finish.Retry || n.now.Sub(dead) > 2*time.Minute+10*time.Second || count(n) != 8 {
		t.Errorf("after %v: %+v, %d requests", n.now.Sub(dead), n.a.finish, count(n))
	}
	n.a.wants(CodeChildDown)
}

// TestUsageUnanswered: a daemon that does not answer UsageQuery does not stop the check.
func TestUsageUnanswered(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	var out Actions
	n.now = n.now.Add(30 * time.Second)
	n.a.sa.Step(n.now, Wake{}, &out)
	if len(out.List) != 1 {
		t.Fatalf("actions %v", out.List)
	}
	if _, ok := out.List[0].(UsageQuery); !ok {
		t.Fatalf("action %T", out.List[0])
	}
	at, _ := n.a.sa.Deadline()
	out.Reset()
	n.a.sa.Step(at, Wake{}, &out)
	if s, ok := out.List[0].(Send); !ok || at.Sub(n.now) != usageLimit || len(s.Data) == 0 {
		t.Errorf("actions %v", out.List)
	}
}

// TestTrap_7296_13_OutsideWindow: requests outside the window are neither processed nor answered, nor do they prove life.
func TestTrap_7296_13_OutsideWindow(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	next := uint32(n.a.sa.requests.next)
	for _, id := range []uint32{next + 1, next + 2, 0, 0xffffffff} {
		data := n.a.seal(n.a.sa.header(wire.Informational, false, id), []wire.Payload{&wire.Delete{Protocol: wire.ProtoIKE}})
		if answer := n.a.exchange(data); answer != nil || !n.b.sa.Established() {
			t.Errorf("ID %d: %v", id, answer)
		}
	}
}

// TestTrap_7296_9_Repeat: a repeat gets identical octets; another request with the same ID gets nothing.
func TestTrap_7296_9_Repeat(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	h := n.a.sa.header(wire.Informational, false, uint32(n.a.sa.requests.next))
	n.a.sa.requests.next++
	data := n.a.seal(h, nil)
	for range 2 {
		if n.a.exchange(data) == nil {
			t.Fatal("no answer")
		}
	}
	if k := len(n.b.sends); !bytes.Equal(n.b.sends[k-1].Data, n.b.sends[k-2].Data) {
		t.Error("two answers")
	}
	if n.a.exchange(n.a.seal(h, []wire.Payload{&wire.Delete{Protocol: wire.ProtoIKE}})) != nil || !n.b.sa.Established() {
		t.Error("another request with a used ID was taken")
	}
}

// TestTrap_7296_79_LateResponse: responses with an ID that is not outstanding, or a second one, are ignored.
func TestTrap_7296_79_LateResponse(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	before := n.a.sa.Status()
	for _, s := range n.b.sends {
		n.a.step(Packet{Path{n.a.sa.path.Local, n.a.sa.path.Remote}, s.Data})
	}
	for id := range uint32(5) {
		n.a.step(Packet{Path{n.a.sa.path.Local, n.a.sa.path.Remote}, n.b.seal(n.b.sa.header(wire.Informational, true, id), nil)})
	}
	if after := n.a.sa.Status(); after.Phase != before.Phase || len(after.Children) != 1 || n.a.finish != nil {
		t.Errorf("status %+v", after)
	}
}

// TestTrap_7296_15_BadChecksum: a message whose checksum is wrong changes nothing: neither counters nor timers nor the path.
func TestTrap_7296_15_BadChecksum(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	good := n.a.seal(n.a.sa.header(wire.Informational, false, uint32(n.a.sa.requests.next)), nil)
	before, due := n.b.sa.Status(), n.b.sa.lastHeard
	n.now = n.now.Add(time.Second)
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		n.b.step(Packet{Path{n.b.sa.path.Local, n.b.sa.path.Remote}, bad})
	}
	if n.b.sa.lastHeard != due || n.b.sa.responses.next != uint64(n.a.sa.requests.next) || n.b.sa.Status().Path != before.Path || n.b.finish != nil {
		t.Error("something changed")
	}
	n.b.step(Packet{Path{n.b.sa.path.Local, n.b.sa.path.Remote}, good})
	if n.b.sa.lastHeard == due {
		t.Error("the good one was not taken")
	}
}

// TestTrap_7296_60_UnprotectedNotify: nothing unprotected changes an established IKE SA, and none is answered.
func TestTrap_7296_60_UnprotectedNotify(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	sent := len(n.a.sends)
	for _, typ := range []wire.ExchangeType{wire.IKESAInit, wire.IKEAuth, wire.CreateChildSA, wire.Informational} {
		for _, response := range []bool{false, true} {
			for _, kind := range []wire.NotifyType{wire.NotifyInvalidIKESPI, wire.NotifyAuthenticationFailed, wire.NotifyInvalidSyntax, wire.NotifyNoProposalChosen} {
				for id := range uint32(4) {
					h := n.b.sa.header(typ, response, id)
					n.a.step(Packet{Path{n.a.sa.path.Local, n.a.sa.path.Remote}, encode(t, &wire.Message{Header: h, Payloads: []wire.Payload{wire.NewNotify(kind, nil)}})})
				}
			}
		}
	}
	if len(n.a.sends) != sent || !n.a.sa.Established() || n.a.children() != 1 {
		t.Error("something changed")
	}
}

// TestExpire: a child whose lifetime ended in the data plane is deleted at the peer too (trap 80).
func TestExpire(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.a.step(Expire{ID: n.a.sa.children[0].inID()})
	n.run(time.Second+InboundGrace, nil)
	n.both(1)
	n.a.wants(CodeRekeyed)
	n.a.step(Expire{ID: n.a.sa.children[0].inID(), Hard: true})
	n.run(time.Second, nil)
	n.empty()
	n.a.wants(CodeChildDown, "its lifetime ended")
}

// TestLowerChildOnItsWay: a child that is not wanted any more before it is up does not stay.
func TestLowerChildOnItsWay(t *testing.T) {
	for _, wait := range []time.Duration{0, 15 * time.Millisecond, 30 * time.Millisecond, 40 * time.Millisecond} {
		n := newPair(t, two(""))
		n.a.step(Initiate{})
		n.run(wait, nil)
		n.a.step(Lower{Child: "lan"})
		n.run(10*time.Second, nil)
		n.both(1)
		if c := n.a.sa.Status().Children; c[0].Name != "dmz" {
			t.Errorf("after %v: %+v", wait, c)
		}
		n.a.step(RaiseChild{Child: "lan"})
		n.run(5*time.Millisecond, nil)
		n.a.step(Lower{Child: "lan"})
		n.run(10*time.Second, nil)
		n.both(1)
		n.a.step(Lower{Child: "lan"})
		if r := n.a.reports[len(n.a.reports)-1]; r.Code != CodeClosed || r.Text != "is not up" {
			t.Errorf("%+v", r)
		}
	}
	n := newPair(t, setup{})
	n.a.step(Initiate{})
	n.a.step(Lower{Child: "lan"})
	if n.a.finish == nil || n.a.finish.Retry {
		t.Errorf("finish %+v", n.a.finish)
	}
}

// TestDeleteBeforeAnswer: the answer to our CREATE_CHILD_SA is lost, and the peer deletes the child before the answer comes again.
func TestDeleteBeforeAnswer(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.both(1)
	lost := false
	n.hook = func(d datagram) []datagram {
		if h, _ := wire.ParseHeader(d.data); h.Exchange == wire.CreateChildSA && h.Response() && !lost {
			lost = true
			return nil
		}
		return []datagram{d}
	}
	n.a.step(RaiseChild{Child: "dmz"})
	n.run(time.Second, func() bool { return n.b.children() == 2 })
	n.b.step(Lower{Child: "dmz"})
	n.run(time.Minute, nil)
	n.both(1)
	n.a.wants(CodePeerError, "the peer deleted the child before its answer came")
}

// TestCreateWhileLowering: the answer to a CREATE_CHILD_SA comes when the IKE SA is already closing; no child comes up.
func TestCreateWhileLowering(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{Children: []string{"lan"}})
	n.both(1)
	n.a.step(RaiseChild{Child: "dmz"})
	n.run(5*time.Millisecond, nil)
	n.a.step(Lower{})
	n.run(20*time.Second, func() bool { return n.a.finish != nil && n.b.finish != nil })
	if n.a.finish == nil || n.b.finish == nil || n.a.finish.Retry {
		t.Errorf("finish %+v, %+v", n.a.finish, n.b.finish)
	}
	for _, r := range n.a.reports {
		if r.Child == "dmz" && r.Code == CodeChildUp {
			t.Error("the child came up")
		}
	}
	n.empty()
}

// TestLowerWhileOpening and while authenticating: in the latter the peer, which may believe the IKE SA up, is told once it answers.
func TestLowerWhileOpening(t *testing.T) {
	n := newPair(t, setup{})
	n.a.step(Initiate{})
	n.a.step(Lower{})
	if n.a.finish == nil || n.a.finish.Retry {
		t.Errorf("finish %+v", n.a.finish)
	}
	n = newPair(t, setup{})
	n.a.step(Initiate{})
	n.run(time.Second, func() bool { return n.a.sa.phase.name() == phaseAuthenticating })
	n.a.step(Lower{Why: "changed my mind"})
	n.run(time.Minute, func() bool { return n.a.finish != nil && n.b.finish != nil })
	if n.a.finish == nil || n.b.finish == nil || n.a.finish.Text != "changed my mind" || n.a.finish.Retry {
		n.dump()
		t.Fatalf("finish %+v, %+v", n.a.finish, n.b.finish)
	}
	n.empty()
}
