package ike

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/suite"
	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
	"cygnet/xfrm/alg"
)

// TestLowerUnanswered: the operator takes it down while IKE_AUTH waits for its answer, which never comes: the end says what the operator said.
func TestLowerUnanswered(t *testing.T) {
	for name, silent := range map[string]time.Duration{"at once": 0, "when the tries are over": 38 * time.Second} {
		n := newPair(t, setup{})
		n.a.step(Initiate{})
		n.run(time.Second, func() bool { return n.a.sa.phase.name() == phaseAuthenticating })
		n.hook = func(datagram) []datagram { return nil }
		n.run(silent, nil)
		n.a.step(Lower{Why: "changed my mind"})
		asked := n.now
		n.run(time.Minute, func() bool { return n.a.finish != nil })
		f := n.a.finish
		if f == nil || f.Code != CodeClosed || f.Text != "changed my mind" || f.Retry || n.now.Sub(asked) > closingLimit {
			t.Errorf("%s: %+v after %v", name, f, n.now.Sub(asked))
		}
	}
}

// TestRemoveWhileMoving: a child goes while the data plane still moves its SAs to a new address: both names are removed, since either may be the true one.
func TestRemoveWhileMoving(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	sa := n.b.sa
	c := sa.children[0]
	old := []xfrm.SAID{c.inID(), c.outID()}
	var out Actions
	sa.now, sa.out = n.now, &out
	from := sa.path
	sa.path.Local, sa.path.Remote = netip.MustParseAddrPort("203.0.113.2:500"), netip.MustParseAddrPort("203.0.113.1:500")
	sa.moveChild(c, from)
	moved := []xfrm.SAID{c.inID(), c.outID()}
	sa.remove(c, true, true)
	if c.path != sa.path || c.placed != from {
		t.Errorf("path %v, placed %v", c.path, c.placed)
	}
	batches := []xfrm.Batch{}
	for _, x := range out.List {
		batches = append(batches, x.(SADB).Batch)
	}
	if len(batches) != 2 {
		t.Fatalf("%d batches", len(batches))
	}
	want := []xfrm.SAID{moved[0], old[0], moved[1], old[1]}
	if got := batches[1].Remove; !slices.Equal(got, want) {
		t.Errorf("removed %v, want %v", got, want)
	}
	out.Reset()
	if sa.remove(c, true, true); len(out.List) != 0 || c.in != absent || c.out != absent {
		t.Errorf("removed twice: %+v", out.List)
	}
	// The data plane refuses to move them: they have their old names.
	sa.resume(sa.lastToken-1, SADBDone{Token: sa.lastToken - 1, Err: errors.New("no memory")})
	if c.path != from {
		t.Errorf("not moved, and yet the path is %v", c.path)
	}
	// Once the data plane has answered there is one name.
	sa.path, c.path, c.placed, c.in = from, from, from, installed
	out.Reset()
	sa.remove(c, true, false)
	if got := out.List[0].(SADB).Batch.Remove; !slices.Equal(got, old[:1]) {
		t.Errorf("removed %v, want %v", got, old[:1])
	}
}

// TestPeerWentOn: a rekeyed child sends from the peer's next request on, which shows that it has the new pair; not after a Delete alone of something else.
func TestPeerWentOn(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.tamper(func(o *opened) bool { return false })
	n.a.ask(wire.CreateChildSA, append([]wire.Payload{wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoESP, n.a.sa.children[0].spiIn)}, n.a.offer(0x7001)...)...)
	if len(n.b.sa.children) != 2 {
		t.Fatalf("%d children", len(n.b.sa.children))
	}
	c := n.b.sa.children[1]
	if c.out != absent || c.outboundDue == 0 {
		t.Fatalf("outbound %v, due %v", c.out, c.outboundDue)
	}
	n.a.ask(wire.Informational, &wire.Delete{Protocol: wire.ProtoESP, SPIs: []uint32{0x9999}})
	if c.out != absent {
		t.Error("a Delete has it send")
	}
	n.a.ask(wire.Informational)
	if c.out != installed || c.outboundDue != 0 {
		t.Errorf("the peer went on: outbound %v, due %v", c.out, c.outboundDue)
	}
}

// TestAuthLifetimeIsTold.
func TestAuthLifetimeIsTold(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.b.ask(wire.Informational, wire.NewNotify(wire.NotifyAuthLifetime, []byte{0, 0, 0, 90}))
	n.a.wants(CodeIgnored, "the peer wants us to authenticate anew within 90 s (AUTH_LIFETIME)")
}

// TestEndAtAnyTime: the IKE SA reaches its end at any millisecond of an exchange of ours, or of the peer's, while keys are computed and messages are on their way:
// the exchange makes way, the peer hears the Delete, nothing is left, and no key either.
func TestEndAtAnyTime(t *testing.T) {
	for what, ev := range map[string]Event{"child": Rekey{}, "IKE SA": Rekey{IKE: true}, "further child": RaiseChild{Child: "dmz"}} {
		for _, by := range []string{"a", "b"} {
			for ms := range 50 {
				n := newPair(t, two(""))
				n.a.step(Initiate{Children: []string{"lan"}})
				n.both(1)
				n.run(time.Second, nil)
				ends := n.a.sa
				ends.life.over = n.now.Add(time.Duration(ms) * time.Millisecond)
				n.side(by).step(ev)
				n.run(time.Second, nil)
				if what == "IKE SA" { // the peer may have handed the children over already, and must find out that nobody is there
					n.run(4*time.Minute, nil)
				}
				if !ends.finished && n.a.sa == ends || n.a.sa == ends && n.b.finish == nil {
					t.Errorf("%s by %s, after %d ms: a %+v, b %+v", what, by, ms, n.a.finish, n.b.finish)
				}
				n.run(5*time.Second, nil)
				n.paired()
			}
		}
	}
}

// TestAnswerToNobody: what answers a question that nobody has asked is wiped and forgotten, and so is what comes after the end.
func TestAnswerToNobody(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	for range 2 {
		key := alg.NewSecret([]byte("a shared secret"))
		n.a.step(JobDone{Token: 999, Result: keyPair{shared: key}})
		if !wiped(key) {
			t.Error("not wiped")
		}
		n.a.step(Lower{Silent: true})
	}
}

// TestGivenUp: a job or a look-up that is never answered ends the attempt in time, with the first address and with each further one.
func TestGivenUp(t *testing.T) {
	s := setup{a: strings.Replace(gwA, `address = "198.51.100.7"`, `address = "gw-b.example"`, 1)}
	n := newPair(t, s)
	n.a.internal = true
	n.a.sa.Step(n.now, Initiate{}, &Actions{})
	begun := n.now
	n.run(time.Hour, func() bool { return n.a.finish != nil })
	if n.now.Sub(begun) != openingLimit {
		t.Errorf("given up after %v", n.now.Sub(begun))
	}
	n = lone(t, s)
	n.a.lookup = []netip.Addr{netip.MustParseAddr("198.51.100.8"), addrB}
	n.a.step(Initiate{})
	n.run(time.Minute, func() bool { return len(n.a.texts(CodeSent)) > 6 })
	if p := n.a.sa.phase.(*opening); p.limit != n.now.Add(openingLimit) {
		t.Errorf("the second address is given up in %v", p.limit.Sub(n.now))
	}
}

// TestNoRepeatWhileKeyIsMade: after INVALID_KE_PAYLOAD the old request is not sent again.
func TestNoRepeatWhileKeyIsMade(t *testing.T) {
	n := newPair(t, setup{a: strings.Replace(gwA, "-ecp256", "-ecp256-x25519", 1)})
	n.hook = func(d datagram) []datagram {
		m, err := wire.Decode(d.data)
		if err != nil || len(n.a.sends) > 1 {
			return nil
		}
		h := m.Header
		h.Flags = wire.FlagResponse
		return []datagram{{apB, apA, encode(t, &wire.Message{Header: h, Payloads: []wire.Payload{wire.NewNotify(wire.NotifyInvalidKEPayload, []byte{0, 31})}})}}
	}
	n.a.step(Initiate{})
	n.run(time.Second/2, func() bool { return len(n.a.texts(CodeIgnored)) > 0 })
	if n.a.sa.requests.waiting() {
		t.Error("the old request would be repeated")
	}
}

// TestHeirGivesUp: an IKE SA that a rekey made, and that never hears whether it inherits, ends in time.
func TestHeirGivesUp(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.a.step(Rekey{IKE: true})
	var heir *SA
	n.run(time.Second, func() bool { return len(n.b.others) > 0 })
	for _, sa := range n.b.machines() {
		if sa.initiator == n.b.sa.initiator && sa != n.b.sa || sa.next.pending != 0 {
			heir = sa
		}
	}
	if heir == nil {
		heir = n.b.sa
	}
	heir.next.pending = n.now.Add(pendingLimit)
	n.hook = func(datagram) []datagram { return nil }
	var out Actions
	at, ok := heir.Deadline()
	if !ok || at > n.now.Add(pendingLimit) {
		t.Fatalf("deadline %v, %v", at, ok)
	}
	heir.Step(n.now.Add(pendingLimit), Wake{}, &out)
	if heir.phase.name() != phaseClosing {
		t.Errorf("it is %s", heir.phase.name())
	}
}

// TestHeirTakesThePath of its predecessor, which may have moved since it was made, unless it has heard of the peer itself.
func TestHeirTakesThePath(t *testing.T) {
	for heard, follows := range map[uint64]bool{0: true, 1: false} {
		n := newPair(t, setup{still: true})
		n.up()
		sa := n.a.sa
		var out Actions
		sa.now, sa.out = n.now, &out
		nonce := make([]byte, 32)
		keys, err := suite.Derive(sa.suite, alg.NewSecret([]byte("secret")), nonce, nonce, 5, 6)
		if err != nil {
			t.Fatal(err)
		}
		h, err := sa.birth(keys, 5, 6, true, nonce, nonce)
		if err != nil {
			t.Fatal(err)
		}
		h.sa.responses.next = heard
		sa.path.Remote, sa.nat.remote = netip.MustParseAddrPort("203.0.113.1:500"), true
		sa.bequeath(h, false)
		if (h.sa.path == sa.path) != follows || h.sa.nat.remote != follows {
			t.Errorf("heard %d messages: path %v, NAT %+v", heard, h.sa.path, h.sa.nat)
		}
	}
}

// TestAllHeirsDead: an IKE SA whose heirs are all dead lives on, unless the peer has deleted it.
func TestAllHeirsDead(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		n := newPair(t, setup{})
		n.up()
		sa := n.a.sa
		var out Actions
		sa.now, sa.out = n.now, &out
		sa.next.heirs, sa.next.deleted = []*heir{{sa: &SA{finished: true, phase: &established{}}}}, deleted
		sa.decide()
		if sa.finished != deleted || len(sa.next.heirs) != 0 {
			t.Errorf("deleted %v: finished %v", deleted, sa.finished)
		}
	}
}

// TestOwnPorts: a daemon whose ports are its own uses them, for IKE_SA_INIT and behind a NAT, and guesses what the peer's are.
func TestOwnPorts(t *testing.T) {
	sa := &SA{config: Config{Snapshot: &policy.Snapshot{Daemon: policy.Daemon{Port: 1500, NATTPort: 5500}}}, conn: &policy.Connection{}}
	for _, c := range []struct{ configured, local, remote, laterLocal, laterRemote uint16 }{
		{0, 1500, 500, 5500, 4500},
		{500, 1500, 500, 5500, 4500},
		{1500, 1500, 1500, 5500, 5500},
		{7777, 5500, 7777, 5500, 7777},
	} {
		sa.conn.Remote.Port = c.configured
		sa.path = sa.firstPath(addrA, addrB)
		if sa.path.Local.Port() != c.local || sa.path.Remote.Port() != c.remote {
			t.Errorf("port %d: first path %v", c.configured, sa.path)
		}
		sa.moveToNATT()
		if sa.path.Local.Port() != c.laterLocal || sa.path.Remote.Port() != c.laterRemote {
			t.Errorf("port %d: behind a NAT %v", c.configured, sa.path)
		}
	}
}

// TestSurplusIsPassedOn: the end that was planned for a child is that of the one which replaces it.
func TestSurplusIsPassedOn(t *testing.T) {
	for _, planned := range []Time{0, 7} {
		old, next := &child{surplus: planned}, &child{surplus: 3}
		next.replaces = old
		(&SA{initiator: true}).takesOver(old, next)
		want := planned
		if planned == 0 {
			want = 3
		}
		if next.surplus != want || next.replaces != nil {
			t.Errorf("planned %v: %v", planned, next.surplus)
		}
	}
}

// TestEqualMeansBothWays: neither of two sets of selectors may lie within the other alone.
func TestEqualMeansBothWays(t *testing.T) {
	wide := []policy.TS{packetTS(addrA, 0, xfrm.Ports{})}
	narrow := []policy.TS{packetTS(addrA, 6, xfrm.Ports{First: 1, Last: 2})}
	if same(wide, narrow) || same(narrow, wide) || !same(wide, wide) {
		t.Error("not the same")
	}
}

// TestQuietPauseStartsOver once something came in.
func TestQuietPauseStartsOver(t *testing.T) {
	n := quietPair(t)
	n.a.sa.quiet.pause = 20 * time.Second
	n.a.sa.now = n.now
	n.a.sa.onUsage(UsageDone{Inbound: 1, LastIn: n.now})
	if n.a.sa.quiet.pause != 0 {
		t.Errorf("pause %v", n.a.sa.quiet.pause)
	}
}

// TestUsageOfWhatIsInstalled: only SAs that are there are asked about.
func TestUsageOfWhatIsInstalled(t *testing.T) {
	for _, c := range []struct{ in, out install }{{absent, absent}, {installing, installing}, {installed, absent}, {absent, installed}, {installed, installed}} {
		in, out := (&SA{children: []*child{{in: c.in, out: c.out}}}).installedSAs()
		if (len(in) == 1) != (c.in == installed) || (len(out) == 1) != (c.out == installed) {
			t.Errorf("%+v: %d in, %d out", c, len(in), len(out))
		}
	}
}

// TestKeysThatCannotBe: a suite that no keys can be derived for ends the attempt on either side, with the reason.
func TestKeysThatCannotBe(t *testing.T) {
	n := newPair(t, setup{})
	n.a.internal, n.b.internal = true, true
	n.a.step(Initiate{})
	n.run(3*time.Millisecond, nil)
	var out Actions
	a := n.a.sa
	a.now, a.out = n.now, &out
	x := a.requests.current.(*initExchange)
	x.conclude(a, &message{Header: wire.Header{SPIr: 2}}, suite.IKE{}, alg.NewSecret([]byte("secret")), make([]byte, 32))
	if !a.finished {
		t.Error("a goes on")
	}
	b := NewResponder(n.b.config)
	b.now, b.out = n.now, &out
	b.respondInit(&message{Header: wire.Header{SPIi: 1}}, n.b.config.Snapshot.Connections, wire.Proposal{Number: 1, Protocol: wire.ProtoIKE, Transforms: []wire.Transform{{Type: wire.TransformESN}}}, suite.IKE{},
		bothHalves(wire.GroupX25519, make([]byte, 64), append([]byte{9}, make([]byte, 31)...)), make([]byte, 32))
	if !b.finished {
		t.Error("b goes on")
	}
	texts := []string{}
	for _, x := range out.List {
		if r, ok := x.(Report); ok && r.Code == CodeInternal {
			texts = append(texts, r.Text)
		}
	}
	if len(texts) != 2 || !strings.Contains(texts[0], "cannot derive keys: ") || !strings.Contains(texts[1], "cannot answer IKE_SA_INIT: ") {
		t.Errorf("said %q", texts)
	}
	n.a.sa = nil
}

// TestLoweredBeforeTheAnswer: a responder that is told to close while it still installs the first child says so after its answer to IKE_AUTH, not before:
// the initiator would drop that and hear of the end a second later.
func TestLoweredBeforeTheAnswer(t *testing.T) {
	n := newPair(t, setup{})
	n.a.step(Initiate{})
	n.run(time.Minute, func() bool { return len(n.b.claims) == 1 })
	n.b.step(Lower{Why: "it was taken down here"})
	begun := n.now
	n.run(time.Minute, func() bool { return n.a.finish != nil })
	if took := n.now.Sub(begun); n.a.finish == nil || took > 500*time.Millisecond {
		n.dump()
		t.Errorf("the initiator hears of the end after %v: %v", took, n.a.finish)
	}
}
