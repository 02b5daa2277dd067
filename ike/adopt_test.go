package ike

import (
	"slices"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// TestIKERekeyWords: each side says whose doing it was.
func TestIKERekeyWords(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.b.rekeyIKE()
	n.run(time.Second, nil)
	n.one(1)
	n.b.wants(CodeIKERekeyed, "rekeyed by us")
	n.a.wants(CodeIKERekeyed, "rekeyed by the peer")
}

// TestIKERekeyUnwilling: answers of peers that do not rekey, and what we make of them.
func TestIKERekeyUnwilling(t *testing.T) {
	for _, c := range []struct {
		kind   wire.NotifyType
		gone   bool
		reauth int
	}{
		{wire.NotifyInvalidSyntax, true, 0},
		{wire.NotifyNoAdditionalSAs, false, 1},
		{wire.NotifyNoProposalChosen, false, 0},
	} {
		n := newPair(t, setup{})
		n.up()
		n.b.sa.config.DrawSPI = func() wire.SPI { return 0 } // b cannot, and says NO_ADDITIONAL_SAS
		n.tamper(func(o *opened) bool {
			if o.is(wire.CreateChildSA, true) {
				if !notified(o.ps, wire.NotifyNoAdditionalSAs) {
					t.Errorf("without an SPI the answer is %v", o.ps)
				}
				o.ps = []wire.Payload{wire.NewNotify(c.kind, nil)}
				return true
			}
			return false
		})
		n.a.rekeyIKE()
		n.run(time.Second, nil)
		if (n.a.finish != nil) != c.gone || len(n.a.reauth) != c.reauth {
			t.Errorf("%v: finish %v, reauthentication %v", c.kind, n.a.finish, n.a.reauth)
		}
		if !c.gone {
			n.one(1)
		}
	}
}

// TestIKERekeyWithoutSPI: where none can be drawn the rekey fails, and nothing else.
func TestIKERekeyWithoutSPI(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.a.sa.config.DrawSPI = nil
	n.a.internal = true
	n.a.rekeyIKE()
	n.run(time.Second, nil)
	n.one(1)
	n.a.wants(CodeInternal, "cannot be rekeyed")
}

// loserDeletes tells whether a datagram is a Delete, sent by its own maker, of the IKE SA that loses when both sides rekey.
func (n *network) loserDeletes(d datagram) bool {
	h, _ := wire.ParseHeader(d.data)
	from := n.rewire(d.from.Addr())
	sa := from.machine(senderSPI(h))
	return sa != from.sa && h.Exchange == wire.Informational && sa.next.replaced == nil && sa.initiator
}

// TestIKERekeyLoserStays: no Delete of the IKE SA that lost arrives. After a minute the other side deletes it.
func TestIKERekeyLoserStays(t *testing.T) {
	for seed := range uint64(4) {
		s := setup{seed: seed}
		n := newPair(t, s)
		n.up()
		n.a.rekeyIKE()
		n.b.rekeyIKE()
		n.hook = func(d datagram) []datagram {
			if n.loserDeletes(d) {
				return nil
			}
			return []datagram{d}
		}
		n.run(50*time.Second, nil)
		if len(n.a.others) != 1 || len(n.b.others) != 1 {
			t.Fatalf("a has %d further IKE SAs, b %d, want one each", len(n.a.others), len(n.b.others))
		}
		n.run(20*time.Second, nil)
		n.one(1)
	}
}

// TestIKERekeyLoserUnknown: a peer does not know the IKE SA that lost before it has our answer to its own rekey. That answer is lost, so that it takes none of our Deletes
// until it has asked again; the first after that is taken.
func TestIKERekeyLoserUnknown(t *testing.T) {
	for seed := range uint64(4) {
		n := newPair(t, setup{seed: seed})
		n.up()
		known := n.now.Add(8 * time.Second)
		n.hook = func(d datagram) []datagram {
			if n.now < known && n.loserDeletes(d) {
				return nil
			}
			return []datagram{d}
		}
		n.a.rekeyIKE()
		n.b.rekeyIKE()
		n.run(15*time.Second, nil)
		n.one(1)
	}
}

// TestIKERekeyOldStays: the Delete of the IKE SA that was replaced never arrives. It goes all the same, at both ends.
func TestIKERekeyOldStays(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	old := n.a.sa.Status().SPIi
	n.hook = func(d datagram) []datagram {
		if h, _ := wire.ParseHeader(d.data); h.SPIi == old && h.Exchange == wire.Informational {
			return nil
		}
		return []datagram{d}
	}
	n.a.rekeyIKE()
	n.run(time.Minute, nil)
	if len(n.a.others) != 1 || len(n.b.others) != 1 {
		t.Errorf("a has %d further IKE SAs, b %d", len(n.a.others), len(n.b.others))
	}
	n.run(40*time.Second, nil)
	if len(n.a.others) != 0 {
		t.Error("a has sent its Delete as often as it may, and waits on")
	}
	n.run(3*time.Minute, nil)
	n.one(1)
}

// TestIKERekeyLateDelete: the peer deletes a child on the IKE SA that was replaced. The new one deletes it properly.
func TestIKERekeyLateDelete(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{})
	n.both(2)
	held := true
	n.hook = func(d datagram) []datagram { // a's Delete of the old IKE SA waits
		if h, _ := wire.ParseHeader(d.data); held && d.from.Addr() == addrA && h.Exchange == wire.Informational && !h.Response() {
			return nil
		}
		return []datagram{d}
	}
	n.a.rekeyIKE()
	n.run(time.Second, nil)
	previous := n.b.others[0]
	c := n.b.sa.children[0]
	h := previous.header(wire.Informational, false, uint32(previous.requests.next))
	data, err := previous.sealWhole(h, []wire.Payload{&wire.Delete{Protocol: wire.ProtoESP, SPIs: []uint32{c.spiIn}}})
	if err != nil {
		t.Fatal(err)
	}
	n.transmit(datagram{apB, apA, data})
	held = false
	n.run(time.Minute, nil)
	n.one(1)
	if n.a.sa.children[0].config.Name == c.config.Name {
		t.Error("another child went")
	}
}

// TestIKERekeyPendingHears: b has not noticed a's rekey and uses the new IKE SA at once, while for a it is not decided who inherits: a new child has to wait,
// and a Delete is remembered.
func TestIKERekeyPendingHears(t *testing.T) {
	n := newPair(t, two(""))
	n.a.step(Initiate{})
	n.both(2)
	old := n.a.sa.Status().SPIi
	hold := true
	n.hook = func(d datagram) []datagram {
		h, _ := wire.ParseHeader(d.data)
		if hold && h.SPIi == old && (d.from.Addr() == addrA && !h.Response() || d.from.Addr() == addrB && h.Exchange == wire.Informational) {
			return nil // neither a's request nor b's Delete of the old
		}
		return []datagram{d}
	}
	n.a.rekeyIKE()
	n.run(3*time.Millisecond, nil)
	n.b.rekeyIKE()
	n.run(200*time.Millisecond, nil)
	if n.a.sa.next.replaced != nil || len(n.a.sa.next.heirs) != 1 || n.b.sa.next.pending != 0 || !n.b.sa.initiator {
		t.Fatalf("a: %+v", n.a.sa.next)
	}
	heir := n.a.sa.next.heirs[0].sa
	n.b.step(Lower{Child: "dmz"})
	n.run(200*time.Millisecond, nil)
	if len(heir.early) != 1 || n.a.children() != 2 {
		t.Errorf("the Delete is not remembered: %v", heir.early)
	}
	n.b.step(Rekey{Child: "lan"})
	n.run(200*time.Millisecond, nil)
	if n.a.children() != 2 || len(heir.children) != 0 {
		t.Error("a child was made on an IKE SA that has not inherited")
	}
	hold = false
	n.run(5*time.Minute, nil)
	n.one(1)
}

// TestHeirEndsWithItsPredecessor: an IKE SA ends before it is decided who inherits. The heir, which has nothing, ends at once too.
func TestHeirEndsWithItsPredecessor(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	n.hook = func(d datagram) []datagram {
		if h, _ := wire.ParseHeader(d.data); d.from.Addr() == addrA && !h.Response() {
			return nil // a's own rekey stays unanswered
		}
		return []datagram{d}
	}
	n.a.rekeyIKE()
	n.run(3*time.Millisecond, nil)
	n.b.rekeyIKE()
	if !n.run(time.Second, func() bool { return len(n.a.sa.next.heirs) == 1 }) {
		t.Fatal("no heir")
	}
	heir := n.a.sa.next.heirs[0].sa
	n.a.step(Lower{Silent: true})
	if !heir.finished {
		t.Errorf("the heir is %s", heir.phase.name())
	}
}

// TestIKERekeyAnswerInHand: the Delete of the old IKE SA comes while we still compute what the answer to our own rekey makes. That one lost; we finish it and delete it, so
// that the peer's half of it does not stay.
func TestIKERekeyAnswerInHand(t *testing.T) {
	met := 0
	for seed := range uint64(6) {
		n := newPair(t, setup{seed: seed})
		n.up()
		old := n.a.sa.Status().SPIi
		var held []datagram
		release := func() {
			for _, d := range held {
				n.deliver(d)
			}
			held = nil
		}
		n.hook = func(d datagram) []datagram {
			h, _ := wire.ParseHeader(d.data)
			switch {
			case h.SPIi != old || d.from.Addr() == addrA:
			case h.Exchange == wire.CreateChildSA && h.Response():
				held = append(held, d)
				n.after(time.Second, release)
				return nil
			case h.Exchange == wire.Informational && !h.Response() && len(held) > 0:
				met++
				n.after(n.delay, func() { release(); n.deliver(d) })
				return nil
			}
			return []datagram{d}
		}
		n.a.rekeyIKE()
		n.b.rekeyIKE()
		n.run(4*time.Second, func() bool { // b does not wait for the Delete of the loser, as other implementations do not
			for _, m := range n.b.machines() {
				for k, p := range m.postponed {
					if _, ok := p.x.(*deleteOld); ok && n.now.Before(p.at) && p.at.Sub(n.now) <= yieldLimit {
						m.postponed[k].at = n.now
						n.b.turn(m, Wake{})
					}
				}
			}
			return false
		})
		n.one(1)
	}
	if met == 0 {
		t.Error("the Delete never met the answer")
	}
}

// TestLoserAsksNothing: an IKE SA that goes, since both sides rekeyed at once, asks for nothing that it meant to.
func TestLoserAsksNothing(t *testing.T) {
	for name, goes := range map[string]func(*SA){"surrender": (*SA).surrender, "yield": func(sa *SA) { sa.yield(sa) }} {
		n := newPair(t, two(""))
		n.a.step(Initiate{})
		n.both(2)
		n.hook = func(datagram) []datagram { return nil }
		n.a.do(func(sa *SA) {
			sa.queue = append(sa.queue, &livenessExchange{}, &createExchange{config: sa.conn.Children[0]})
			sa.postponed = append(sa.postponed, postponed{at: sa.now.Add(time.Second), x: &createExchange{config: sa.conn.Children[1]}})
			goes(sa)
		})
		all := append(slices.Clone(n.a.sa.queue), n.a.sa.requests.current)
		for _, p := range n.a.sa.postponed {
			all = append(all, p.x)
		}
		for _, x := range all {
			switch x.(type) {
			case *livenessExchange, *createExchange:
				t.Errorf("%s: %s is still meant", name, x.name())
			}
		}
	}
}
