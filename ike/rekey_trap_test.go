package ike

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/policy"
	"cygnet/xfrm"
)

// refuseRekeys has each CREATE_CHILD_SA answered with one notify, and notes when. The responder's machine knows nothing of it but the message ID.
func (n *network) refuseRekeys(kind wire.NotifyType) (times *[]Time) {
	times = new([]Time)
	n.hook = func(d datagram) []datagram {
		m, err := wire.ParseHeader(d.data)
		if err != nil || m.Exchange != wire.CreateChildSA || m.Response() {
			return []datagram{d}
		}
		sa := n.rewire(d.to.Addr()).sa
		if uint64(m.MessageID) == sa.responses.next {
			*times = append(*times, n.now)
			answer, err := sa.seal(sa.header(wire.CreateChildSA, true, m.MessageID), []wire.Payload{wire.NewNotify(kind, nil)})
			if err != nil {
				n.t.Fatal(err)
			}
			sa.responses.take(m, Path{}, sha256.Sum256(d.data))
			sa.responses.give(answer)
		}
		return []datagram{{d.to, d.from, sa.responses.answer.datagrams[0]}}
	}
	return times
}

// TestTrap_7296_51_RekeyRequest: REKEY_SA first, with the SPI on which the initiator receives; selectors as in use and of no packet (traps 46, 51).
func TestTrap_7296_51_RekeyRequest(t *testing.T) {
	for _, pfs := range []string{"", `pfs = "no"`, `pfs = "ecp256"`} {
		n := newPair(t, setup{
			a: strings.Replace(gwA, `local  = ["10.1.0.0/16"]`, `local  = ["10.0.0.0/8"]`, 1) + pfs + "\n", // B narrows it
			b: gwB + pfs + "\n",
		})
		n.up()
		old := *n.a.sa.children[0]
		var asked []wire.Payload
		n.tamper(func(o *opened) bool {
			if o.is(wire.CreateChildSA, false) {
				asked = o.ps
			}
			return false
		})
		n.a.step(Rekey{Child: "lan"})
		n.rest(n.watch(), 1)
		var kinds []wire.PayloadType
		for _, p := range asked {
			kinds = append(kinds, p.Type())
		}
		want := []wire.PayloadType{wire.PayloadNotify, wire.PayloadSA, wire.PayloadNonce, wire.PayloadKE, wire.PayloadTSi, wire.PayloadTSr}
		if strings.Contains(pfs, "no") {
			want = append(want[:3:3], want[4:]...)
		}
		if fmt.Sprint(kinds) != fmt.Sprint(want) {
			t.Errorf("%s: payloads %v, want %v", pfs, kinds, want)
		}
		re, ok := asked[0].(*wire.Notify)
		if spi, _ := re.ChildSPI(); !ok || re.Kind != wire.NotifyRekeySA || spi != old.spiIn || re.Protocol != wire.ProtoESP {
			t.Errorf("REKEY_SA %+v, want SPI %08x", re, old.spiIn)
		}
		ts, _ := wire.FindTS(asked, false)
		if len(ts.Selectors) != 1 || ts.Selectors[0].Start != netip.MustParseAddr("10.1.0.0") || ts.Selectors[0].End != netip.MustParseAddr("10.1.255.255") {
			t.Errorf("TSi %+v", ts)
		}
	}
}

// TestTrap_7296_46_NarrowerAnswer: an answer that is narrower, or wider, than the old child is not taken: the peer is told to delete what it made, and the old
// child stays until a rekey succeeds.
func TestTrap_7296_46_NarrowerAnswer(t *testing.T) {
	for _, c := range []struct{ end, text string }{{"10.2.0.255", "10.2.0.0/24"}, {"10.3.255.255", "10.2.0.0/15"}} {
		n := newPair(t, setup{a: strings.Replace(gwA, `remote = ["10.2.0.0/16"]`, `remote = ["10.0.0.0/8"]`, 1)})
		n.up()
		f := n.watch()
		bad := true
		n.tamper(func(o *opened) bool {
			ts, ok := wire.FindTS(o.ps, true)
			if !ok || !bad || !o.is(wire.CreateChildSA, true) {
				return false
			}
			ts.Selectors[0].End = netip.MustParseAddr(c.end)
			bad = false
			return true
		})
		n.a.step(Rekey{})
		n.run(3*time.Second, f.look)
		n.a.wants(CodeNoSelectors, "not rekeyed: ", c.text, "the old keys stay in use for 1h", "10.2.0.0/16")
		if n.a.children() != 1 || n.a.rekeys() != 0 || len(n.b.sa.children) != 1 {
			t.Errorf("children %d, %d", len(n.a.sa.children), len(n.b.sa.children))
		}
		n.rest(f, 1)
		if n.a.rekeys() != 1 {
			t.Error("not tried again")
		}
	}
}

// TestTrap_7296_52_MakeBeforeBreak: the responder receives on the new pair before its answer leaves and sends on the old one until it knows that the
// initiator has the new; both receive on the old one a little longer than its Delete.
func TestTrap_7296_52_MakeBeforeBreak(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	oldA, oldB := n.a.sa.children[0], n.b.sa.children[0]
	answered := false
	n.tamper(func(o *opened) bool {
		if o.is(wire.CreateChildSA, true) {
			answered = true
			c := n.b.sa.children[1]
			if _, ok := n.b.plane.sas[c.inID()]; !ok || c.out != absent || oldB.out != installed {
				t.Error("the answer left before the inbound SA was there, or the outbound one was used too soon")
			}
		}
		if d, ok := wire.Find[*wire.Delete](o.ps); ok && o.is(wire.Informational, false) {
			if c := n.a.sa.children[1]; d.SPIs[0] != oldA.spiIn || c.in != installed || c.out != installed || oldA.in != installed || oldA.out != absent {
				t.Errorf("the Delete %v left while new in %v out %v, old in %v out %v", d.SPIs, c.in, c.out, oldA.in, oldA.out)
			}
		}
		return false
	})
	f := n.watch()
	n.a.step(Rekey{})
	n.run(InboundGrace, f.look)
	for h, id := range map[*host]xfrm.SAID{n.a: oldA.inID(), n.b: oldB.inID()} {
		if _, ok := h.plane.sas[id]; !ok {
			t.Errorf("%s: the old inbound SA went with the Delete", h.name)
		}
	}
	n.rest(f, 1)
	if !answered {
		t.Error("no rekey")
	}
}

// TestTrap_7296_52_LateAnswer: as long as the answer is not known to have arrived the responder sends on the old pair, however often it is lost.
func TestTrap_7296_52_LateAnswer(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	f := n.watch()
	n.hook = func(d datagram) []datagram {
		if h, err := wire.ParseHeader(d.data); err == nil && h.Exchange == wire.CreateChildSA && h.Response() {
			return nil
		}
		return []datagram{d}
	}
	n.a.step(Rekey{})
	n.run(25*time.Second, f.look)
	n.hook = nil
	n.rest(f, 1)
	if n.a.rekeys() != 1 || n.b.rekeys() != 1 {
		t.Errorf("rekeys %d, %d", n.a.rekeys(), n.b.rekeys())
	}
}

// TestTrap_7296_53_LowestNonceLoses: of two rekeys that cross, the one with the lowest of the four nonces is closed by the side that began it, and the other's
// initiator deletes the old child. Each side begins the losing one in some runs.
func TestTrap_7296_53_LowestNonceLoses(t *testing.T) {
	losers := map[string]int{}
	for seed := range uint64(16) {
		n := newPair(t, setup{seed: seed})
		n.up()
		old := map[uint32]bool{n.a.sa.children[0].spiIn: true, n.b.sa.children[0].spiIn: true}
		least, loser := []byte(nil), (*host)(nil)
		deletes, requests := map[string]string{}, 0
		n.tamper(func(o *opened) bool {
			began := o.from
			if o.Response() {
				began = map[*host]*host{n.a: n.b, n.b: n.a}[o.from]
			}
			if x, ok := wire.Find[*wire.Nonce](o.ps); ok && (least == nil || bytes.Compare(x.Data, least) < 0) {
				least, loser = x.Data, began
			}
			if o.is(wire.CreateChildSA, false) {
				requests++
			}
			if d, ok := wire.Find[*wire.Delete](o.ps); ok && !o.Response() {
				deletes[o.from.name] = map[bool]string{true: "old", false: "new"}[old[d.SPIs[0]]]
			}
			return false
		})
		f := n.watch()
		n.a.step(Rekey{})
		n.b.step(Rekey{})
		n.rest(f, 1)
		winner := map[*host]*host{n.a: n.b, n.b: n.a}[loser]
		if !winner.sa.children[0].initiated || deletes[winner.name] != "old" || deletes[loser.name] != "new" || requests != 2 {
			t.Errorf("seed %d: %s has the lowest nonce; deletes %v, %d requests", seed, loser.name, deletes, requests)
		}
		losers[loser.name]++
	}
	if losers["a"] == 0 || losers["b"] == 0 {
		t.Errorf("losers %v", losers)
	}
}

// TestTrap_7296_53_AllOffsets: the peer's rekey begins, or its request arrives, at any time during ours.
func TestTrap_7296_53_AllOffsets(t *testing.T) {
	for offset := range 50 {
		for run := range uint64(4) {
			n := newPair(t, setup{seed: run / 2})
			n.up()
			f := n.watch()
			pause := time.Duration(offset) * time.Millisecond
			n.a.step(Rekey{})
			if run%2 == 0 {
				n.after(pause, func() { n.b.step(Rekey{}) })
			} else {
				n.b.step(Rekey{})
				n.hook = func(d datagram) []datagram {
					if d.from.Addr() == addrA {
						return []datagram{d}
					}
					n.hook = nil
					n.after(n.delay+pause, func() { n.deliver(d) })
					return nil
				}
			}
			n.rest(f, 1)
			if k := n.a.rekeys(); k > 2 {
				t.Errorf("offset %d ms, run %d: %d rekeys where two were asked for", offset, run, k)
			}
		}
	}
}

// TestTrap_7296_53_OtherRule: a peer that closes the wrong one of two does not leave us mute.
func TestTrap_7296_53_OtherRule(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	old := n.b.sa.children[0]
	ps := n.a.offer(0x7777, wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoESP, old.spiOut)) // its nonce is all zeros: the lowest
	n.b.step(Rekey{})
	n.a.ask(wire.CreateChildSA, ps...)
	n.run(time.Second, nil)
	var mine *child
	for _, c := range n.b.sa.children {
		if c.initiated && c.rekeys == old {
			mine = c
		}
	}
	if mine == nil {
		t.Fatal("the two did not cross")
	}
	n.a.ask(wire.Informational, &wire.Delete{Protocol: wire.ProtoESP, SPIs: []uint32{mine.spiOut}})
	n.run(time.Second, nil)
	if c := n.b.sa.childByOutbound(0x7777); c == nil || c.out != installed {
		t.Errorf("the peer's child is mute: %+v", c)
	}
}

// TestTrap_7296_51_NotFound: CHILD_SA_NOT_FOUND: the child goes without a Delete, and is made anew.
func TestTrap_7296_51_NotFound(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	old := n.a.sa.children[0]
	n.b.sa.dropChildForTest(n.b, n.b.sa.children[0])
	n.a.step(Rekey{})
	n.run(10*time.Second, nil)
	n.both(1)
	if c := n.a.sa.children[0]; c == old || c.spiIn == old.spiIn || !c.up {
		t.Error("the child was not made anew")
	}
	for _, s := range n.a.sends {
		if m, _ := wire.Decode(s.Data); m.Exchange == wire.Informational {
			t.Error("a Delete for what the peer does not have")
		}
	}
}

// dropChildForTest forgets a child without telling anyone.
func (sa *SA) dropChildForTest(h *host, c *child) {
	var out Actions
	sa.out, sa.now = &out, h.net.now
	sa.dropChild(c, "lost")
	sa.out = nil
	for _, a := range out.List {
		h.act(sa, a)
	}
}

// TestTrap_7296_57_HardLimit: a child that reaches its hard limit is not used any more, and where rekeys have failed the IKE SA is closed. A failing
// rekey does no harm before.
func TestTrap_7296_57_HardLimit(t *testing.T) {
	for kind, code := range map[wire.NotifyType]Code{wire.NotifyNoProposalChosen: CodeNoProposal, wire.NotifyTSUnacceptable: CodeNoSelectors, wire.NotifyInvalidKEPayload: CodePeerError} {
		n := newPair(t, living("rekey_time = \"10m\"\nlife_time = \"11m\"\npfs = \"x25519\""))
		n.up()
		f := n.watch()
		tries := n.refuseRekeys(kind)
		n.run(11*time.Minute-time.Second, f.look)
		n.a.wants(code, "not rekeyed: ", "the old keys stay in use for ")
		if len(*tries) < 4 || n.a.finish != nil || n.a.children() != 1 {
			t.Errorf("%v: %d tries, finish %v, %d children", kind, len(*tries), n.a.finish, n.a.children())
		}
		f.off = true
		n.run(10*time.Second, nil)
		for _, h := range []*host{n.a, n.b} {
			if h.finish == nil || !h.finish.Retry || h.finish.Code != CodeExpired && h.finish.Code != CodeClosed {
				t.Errorf("%v: %s: finish %+v", kind, h.name, h.finish)
			}
		}
		n.empty()
	}
	t.Run("no rekey wanted", func(t *testing.T) {
		n := newPair(t, setup{a: gwA + "rekey_time = \"0\"\nlife_time = \"10m\"\n"})
		n.up()
		n.run(10*time.Minute-time.Second, nil)
		if n.a.children() != 1 {
			t.Error("too early")
		}
		n.run(20*time.Second, nil)
		n.a.wants(CodeChildDown, "its lifetime ended")
		if !n.a.sa.Established() {
			t.Error("the IKE SA went")
		}
		n.empty()
	})
}

// TestTrap_7296_57_DeadIsNotUsed: from the hard limit on, not only from the peer's answer on.
func TestTrap_7296_57_DeadIsNotUsed(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.a.step(Expire{ID: n.a.sa.children[0].outID(), Hard: true})
	if len(n.a.plane.sas) != 0 {
		t.Errorf("%d SAs are left", len(n.a.plane.sas))
	}
}

// TestTrap_7296_57_Jitter: the time of a rekey is drawn.
func TestTrap_7296_57_Jitter(t *testing.T) {
	at := map[Time]bool{}
	for seed := range uint64(8) {
		n := newPair(t, setup{seed: seed})
		n.up()
		for _, h := range []*host{n.a, n.b} {
			c := h.sa.children[0]
			if d := c.rekeyAt.Sub(c.since); d > time.Hour || d < 54*time.Minute || c.endAt.Sub(c.since) != 66*time.Minute {
				t.Errorf("rekey after %v, end after %v", d, c.endAt.Sub(c.since))
			}
			at[c.rekeyAt] = true
		}
	}
	if len(at) != 16 {
		t.Errorf("%d different times", len(at))
	}
}

// TestTrap_7296_59_RekeyNoAdditionalSAs: a peer that cannot rekey gets a new IKE SA beside the old one.
func TestTrap_7296_59_RekeyNoAdditionalSAs(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.refuseRekeys(wire.NotifyNoAdditionalSAs)
	f := n.watch()
	n.a.step(Rekey{})
	n.run(time.Second, f.look)
	n.a.wants(CodeReauth, "NO_ADDITIONAL_SAS")
	if n.a.children() != 1 {
		t.Error("the old child went")
	}
}

// TestBusyPeerThatIsSlow: the pause begins with the answer TEMPORARY_FAILURE, however late that comes.
func TestBusyPeerThatIsSlow(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.delay = 4 * time.Second
	tries := n.refuseRekeys(wire.NotifyTemporaryFailure)
	n.a.step(Rekey{})
	n.run(time.Minute, func() bool { return len(*tries) == 2 })
	if len(*tries) != 2 || (*tries)[1].Sub((*tries)[0]) < n.delay+rekeyPause {
		t.Errorf("tried at %v", *tries)
	}
}

// TestTrap_7296_91_TemporaryFailureOfRekey: tried again with growing pauses; after minutes the IKE SA is closed.
func TestTrap_7296_91_TemporaryFailureOfRekey(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	f := n.watch()
	tries := n.refuseRekeys(wire.NotifyTemporaryFailure)
	n.a.step(Rekey{})
	n.run(150*time.Second, f.look)
	if n.a.finish != nil || n.a.children() != 1 {
		t.Fatal("it ended too early")
	}
	pauses := []time.Duration{}
	for i, at := range (*tries)[1:] {
		pauses = append(pauses, at.Sub((*tries)[i]))
	}
	if len(pauses) < 3 || pauses[0] < rekeyPause || pauses[2] <= pauses[0] || len(pauses) > 8 {
		t.Errorf("pauses %v", pauses)
	}
	f.off = true
	n.run(3*time.Minute, nil)
	n.a.wants(CodePeerError, "TEMPORARY_FAILURE")
	if n.a.finish == nil || !n.a.finish.Retry {
		t.Errorf("finish %+v", n.a.finish)
	}
	n.empty()
}

// TestTrap_7296_91_BusyForAMoment: a peer that is busy once gets the rekey later.
func TestTrap_7296_91_BusyForAMoment(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	f := n.watch()
	once := true
	n.tamper(func(o *opened) bool {
		if once && o.is(wire.CreateChildSA, false) {
			once = false
			n.b.sa.children[0].deleting = true // as if it were closing it
			n.after(time.Second, func() { n.b.sa.children[0].deleting = false })
		}
		return false
	})
	n.a.step(Rekey{})
	n.rest(f, 1)
	if n.a.rekeys() != 1 || n.b.rekeys() != 1 {
		t.Errorf("rekeys %d, %d", n.a.rekeys(), n.b.rekeys())
	}
}

// TestTrap_7296_94_SameKind: a rekey keeps mode, algorithms, encapsulation, selectors and policy slots.
func TestTrap_7296_94_SameKind(t *testing.T) {
	for _, more := range []string{"", `esp = "aes128-sha256"`, `esp = "chacha20poly1305-noesn"`} {
		s := living(more)
		s.a = strings.Replace(s.a, "ike    =", "encapsulation = \"always\"\nike    =", 1)
		n := newPair(t, s)
		n.up()
		old := map[*host]*child{n.a: n.a.sa.children[0], n.b: n.b.sa.children[0]}
		f := n.watch()
		n.b.step(Rekey{})
		n.rest(f, 1)
		for h, o := range old {
			c := h.sa.children[0]
			if c.suite != o.suite || c.encap != o.encap || !c.encap || c.reqid != o.reqid || fmt.Sprint(c.local, c.remote) != fmt.Sprint(o.local, o.remote) || len(h.plane.pols) != 2 {
				t.Errorf("%s: %+v became %+v", h.name, o, c)
			}
		}
	}
}

// TestRekeyDataplaneRefuses: each op of a rekey fails once on each side. The old child goes on, and a later rekey succeeds.
func TestRekeyDataplaneRefuses(t *testing.T) {
	for _, side := range []string{"a", "b"} {
		for k := range 4 {
			n := newPair(t, setup{})
			n.up()
			h := map[string]*host{"a": n.a, "b": n.b}[side]
			count := 0
			h.plane.fail = func(op xfrm.Op) error {
				switch op.(type) {
				case xfrm.AddSA, xfrm.PutPolicy:
					if count++; count-1 == k {
						return errors.New("no memory")
					}
				}
				return nil
			}
			f := n.watch()
			f.off = side == "b" && k > 0 // there the old one is gone when the new outbound SA fails
			n.a.step(Rekey{})
			n.run(40*time.Second, f.look)
			h.wants(CodeDataplane, "no memory")
			if f.off {
				continue
			}
			n.rest(f, 1)
			if n.a.rekeys() == 0 {
				t.Errorf("%s, op %d: no later rekey", side, k)
			}
		}
	}
}

// TestRekeyGroupRemembered: after one wrong guess the next rekeys begin with the group that the peer takes.
func TestRekeyGroupRemembered(t *testing.T) {
	n := newPair(t, setup{a: gwA + "pfs = \"x25519-ecp256\"\n", b: gwB + "pfs = \"ecp256\"\n"})
	n.up()
	var groups []wire.GroupID
	n.tamper(func(o *opened) bool {
		if ke, ok := wire.Find[*wire.KE](o.ps); ok && o.is(wire.CreateChildSA, false) {
			groups = append(groups, ke.Group)
		}
		return false
	})
	for range 3 {
		n.a.step(Rekey{})
		n.run(5*time.Second, nil)
	}
	if n.a.rekeys() != 3 || fmt.Sprint(groups) != fmt.Sprint([]wire.GroupID{wire.GroupX25519, wire.GroupECP256, wire.GroupECP256, wire.GroupECP256}) {
		t.Errorf("%d rekeys, groups %v", n.a.rekeys(), groups)
	}
}

// TestRekeyOfNothing: what is not up, or not there, has no keys to replace.
func TestRekeyOfNothing(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.a.step(Lower{Child: "lan"})
	n.run(time.Second, nil)
	for _, name := range []string{"", "lan", "nonesuch"} {
		n.a.reports = nil
		n.a.step(Rekey{Child: name})
		n.a.wants(CodeClosed, "no keys to replace")
	}
}

// TestLowerDuringRekey: a child that is lowered while its successor is on its way goes with it.
func TestLowerDuringRekey(t *testing.T) {
	for ms := range 40 {
		n := newPair(t, setup{})
		n.up()
		n.a.step(Rekey{})
		n.after(time.Duration(ms)*time.Millisecond, func() { n.a.step(Lower{Child: "lan"}) })
		n.run(10*time.Second, nil)
		if !n.a.sa.Established() || !n.b.sa.Established() || len(n.a.sa.children)+len(n.b.sa.children) != 0 {
			n.dump()
			t.Fatalf("after %d ms: children %d, %d", ms, len(n.a.sa.children), len(n.b.sa.children))
		}
		n.empty()
	}
}

// TestPolicyLimits: what is counted follows the suite.
func TestPolicyLimits(t *testing.T) {
	n := newPair(t, living("esp = \"aes256gcm16-noesn\"\nrekey_bytes = 2_000_000"))
	n.up()
	for id, s := range n.a.plane.sas {
		switch {
		case s.HardBytes != 2_200_000 || s.HardPackets >= 1<<32 || s.HardPackets == 0:
			t.Errorf("%v: hard %d octets, %d packets", id, s.HardBytes, s.HardPackets)
		case s.SoftBytes > 2_000_000 || s.SoftBytes < 1_800_000 || s.SoftPackets == 0 || s.SoftPackets >= s.HardPackets:
			t.Errorf("%v: soft %d octets, %d packets", id, s.SoftBytes, s.SoftPackets)
		}
	}
	if l := (policy.ChildLifetime{Packets: 1 << 40}).Limits(xfrm.Suite{ESN: true}); l.SoftPackets != 1<<40 || l.SoftBytes == 0 {
		t.Errorf("%+v", l)
	}
}
