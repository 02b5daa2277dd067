package ike

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
	"cygnet/xfrm"
)

// living is a pair whose child has this lifetime.
func living(text string) setup {
	return setup{a: gwA + text + "\n", b: gwB + text + "\n"}
}

var dmzNet = netip.MustParsePrefix("10.3.0.0/16")

// flow watches that no packet can get lost: an outbound SA stands only while its partner does, packets on their way included, and each side can
// always send.
type flow struct {
	n        *network
	seen     map[*host]map[uint32]Time // outbound SPIs, when last seen
	inbound  map[*host]map[uint32]bool
	sends    bool // each side must be able to
	off      bool // do not look: traffic is meant to end
	failures int
}

func (n *network) watch() *flow {
	f := &flow{n: n, seen: map[*host]map[uint32]Time{}, inbound: map[*host]map[uint32]bool{}, sends: true}
	for _, h := range []*host{n.a, n.b} {
		f.seen[h], f.inbound[h] = map[uint32]Time{}, map[uint32]bool{}
	}
	return f
}

func (f *flow) fault(format string, args ...any) {
	f.n.t.Helper()
	if f.failures++; f.failures < 4 {
		f.n.t.Errorf("at %v: %s", f.n.now.Sub(Time(time.Hour)), fmt.Sprintf(format, args...))
	}
}

func (f *flow) look() bool {
	if f.off {
		return false
	}
	for _, pair := range [][2]*host{{f.n.a, f.n.b}, {f.n.b, f.n.a}} {
		x, y := pair[0], pair[1]
		now := map[uint32]bool{}
		for id, s := range y.plane.sas {
			if s.Direction == xfrm.In {
				now[id.SPI] = true
			}
		}
		for spi := range f.inbound[y] {
			if at, used := f.seen[x][spi]; used && !now[spi] && f.n.now.Sub(at) < f.n.delay {
				f.fault("%s removed its inbound %08x while packets of %s were on their way", y.name, spi, x.name)
			}
		}
		f.inbound[y] = now
		out := 0
		for id, s := range x.plane.sas {
			if s.Direction != xfrm.Out {
				continue
			}
			out++
			if s.Selectors[0].Src.Overlaps(dmzNet) || s.Selectors[0].Dst.Overlaps(dmzNet) {
				continue // it replaces nothing, so its responder may send too early
			}
			if f.seen[x][id.SPI] = f.n.now; !now[id.SPI] {
				f.fault("%s sends on %08x, which %s does not have", x.name, id.SPI, y.name)
			}
		}
		if out == 0 && f.sends {
			f.fault("%s cannot send", x.name)
		}
		for slot, p := range x.plane.pols {
			if _, ok := x.plane.sas[xfrm.SAID{Dst: p.Template.Dst, SPI: p.Template.SPI, Proto: xfrm.ProtoESP}]; !ok && slot.Direction == xfrm.Out {
				f.fault("%s has a policy for %08x without its SA", x.name, p.Template.SPI)
			}
		}
	}
	return false
}

// rest lets the machines come to rest and checks that so many children are left, each once.
func (n *network) rest(f *flow, children int) {
	n.t.Helper()
	n.run(50*time.Second, f.look)
	n.hook = nil
	if (n.a.finish == nil) != (n.b.finish == nil) { // the other side must find out by itself
		n.run(4*time.Minute, f.look)
	}
	n.run(20*time.Second, f.look)
	n.paired()
	for _, h := range []*host{n.a, n.b} {
		names := map[string]int{}
		if h.finish == nil {
			for _, c := range h.sa.children {
				names[c.config.Name]++
				if !c.up || c.in != installed || c.out != installed || c.deleting || c.redundant || c.replaces != nil {
					n.t.Errorf("%s: child %s is not at rest: %+v", h.name, c.config.Name, c)
				}
			}
			if len(h.sa.queue)+len(h.sa.postponed)+len(h.sa.fading) > 0 || h.sa.requests.current != nil {
				n.t.Errorf("%s is not at rest", h.name)
			}
		}
		for name, k := range names {
			if k != 1 {
				n.t.Errorf("%s has %d of child %s", h.name, k, name)
			}
		}
		if len(names) != children {
			n.t.Errorf("%s has %d children, want %d", h.name, len(names), children)
		}
	}
	if n.t.Failed() {
		n.dump()
		n.t.FailNow()
	}
}

// rekeys counts how often a host's children got new keys.
func (h *host) rekeys() (n int) {
	for _, r := range h.reports {
		if r.Code == CodeRekeyed {
			n++
		}
	}
	return n
}

// TestRekeyChild: by the operator, by a soft limit, by time; from either side of the IKE SA.
func TestRekeyChild(t *testing.T) {
	for _, how := range []string{"asked", "all", "soft", "time"} {
		for _, side := range []string{"a", "b"} {
			t.Run(how+"/"+side, func(t *testing.T) {
				s := setup{}
				text := "rekey_time = \"1h\"\n"
				switch {
				case how == "time" && side == "a":
					s = setup{a: gwA + text, b: gwB + "rekey_time = \"4h\"\n"}
				case how == "time":
					s = setup{a: gwA + "rekey_time = \"4h\"\n", b: gwB + text}
				}
				n := newPair(t, s)
				n.up()
				f := n.watch()
				h := n.a
				if side == "b" {
					h = n.b
				}
				old := *h.sa.children[0]
				switch how {
				case "asked":
					h.step(Rekey{Child: "lan"})
				case "all":
					h.step(Rekey{})
				case "soft":
					h.step(Expire{ID: old.outID()})
					h.step(Expire{ID: old.outID()}) // once is enough
				case "time":
					n.run(54*time.Minute-time.Second, nil)
					if n.a.rekeys() != 0 {
						t.Error("too early")
					}
					n.run(6*time.Minute+2*time.Second, f.look)
				}
				n.rest(f, 1)
				c := h.sa.children[0]
				if n.a.rekeys() != 1 || n.b.rekeys() != 1 || c.spiIn == old.spiIn || c.spiOut == old.spiOut || c.reqid != old.reqid || !c.initiated {
					t.Errorf("rekeys %d, %d; old %s, new %s", n.a.rekeys(), n.b.rekeys(), old.spiText(), c.spiText())
				}
				if n.a.said(CodeChildDown) != nil || n.b.said(CodeChildDown) != nil {
					t.Error("the child was reported down")
				}
			})
		}
	}
}

// TestRekeyForever: a day of rekeys leaves exactly one child and no trace of the old ones.
func TestRekeyForever(t *testing.T) {
	n := newPair(t, living("rekey_time = \"10m\""))
	n.up()
	f := n.watch()
	for range 30 {
		n.run(10*time.Minute, f.look)
	}
	if k := n.a.rekeys(); k < 28 || k > 40 {
		t.Errorf("%d rekeys in 300 minutes", k)
	}
	if len(n.a.plane.sas) > 4 || n.a.sa.children[0].rekeys != nil && n.a.sa.children[0].rekeys.rekeys != nil {
		t.Error("old children are kept")
	}
}

// TestTrap_7296_53_Collisions: both sides act on the same child at once, and each packet of it is in turn lost, lost twice, repeated or late.
func TestTrap_7296_53_Collisions(t *testing.T) {
	lan := func(n *network) xfrm.SAID { return n.b.sa.children[0].outID() }
	scenarios := []struct {
		name     string
		do       func(n *network)
		children int  // afterwards; -1: one or none, the same on both sides
		cut      bool // traffic may stop
	}{
		{"rekey x rekey", func(n *network) { n.a.step(Rekey{}); n.b.step(Rekey{}) }, 1, false},
		{"rekey, then rekey", func(n *network) { n.a.step(Rekey{}); n.after(12*time.Millisecond, func() { n.b.step(Rekey{}) }) }, 1, false},
		{"rekey x delete", func(n *network) { n.a.step(Rekey{}); n.b.step(Lower{Child: "lan"}) }, 0, true},
		{"rekey x expiry", func(n *network) { n.a.step(Rekey{}); n.b.step(Expire{ID: lan(n), Hard: true}) }, -1, true},
		{"rekey, then expiry", func(n *network) {
			n.a.step(Rekey{})
			n.after(14*time.Millisecond, func() { n.b.step(Expire{ID: lan(n), Hard: true}) })
		}, -1, true},
		{"delete x delete", func(n *network) { n.a.step(Lower{Child: "lan"}); n.b.step(Lower{Child: "lan"}) }, 0, true},
		{"rekey x create", func(n *network) { n.a.step(Rekey{}); n.b.step(RaiseChild{Child: "dmz"}) }, 2, false},
		{"create x rekey", func(n *network) { n.a.step(RaiseChild{Child: "dmz"}); n.b.step(Rekey{}) }, 2, false},
		{"rekey x end", func(n *network) { n.a.step(Rekey{}); n.b.step(Lower{}) }, 0, true},
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			for _, x := range faults() {
				if testing.Short() && x.times > 1 {
					continue
				}
				for k := range 14 {
					struck := false
					for seed := range uint64(2) {
						if testing.Short() && seed > 0 {
							continue
						}
						pair := two("")
						pair.seed = seed
						n := newPair(t, pair)
						n.a.step(Initiate{Children: []string{"lan"}})
						n.both(1)
						n.hook = x.hook(n, k, &struck)
						f := n.watch()
						f.off, f.sends = s.cut, !s.cut
						s.do(n)
						want := s.children
						if want < 0 {
							n.run(70*time.Second, nil)
							want = min(n.a.children(), 1)
						}
						n.rest(f, want)
					}
					if !struck { // there are no more packets
						break
					}
				}
			}
		})
	}
}

// fault is what happens to one packet.
type fault struct {
	name  string
	times int // how often, repeats of the same octets included
	do    func(n *network, d datagram) []datagram
}

func faults() []fault {
	late := func(by time.Duration) func(n *network, d datagram) []datagram {
		return func(n *network, d datagram) []datagram {
			n.after(by, func() { n.deliver(d) })
			return nil
		}
	}
	lost := func(*network, datagram) []datagram { return nil }
	return []fault{
		{"none", 0, nil},
		{"lost", 1, lost}, {"lost twice", 2, lost}, {"lost three times", 3, lost},
		{"twice", 1, func(_ *network, d datagram) []datagram { return []datagram{d, d} }},
		{"late", 1, late(40 * time.Millisecond)}, {"very late", 1, late(6 * time.Second)},
	}
}

// hook lets the fault strike the k-th packet from here on.
func (x fault) hook(n *network, k int, struck *bool) func(datagram) []datagram {
	var victim []byte
	count, left := 0, x.times
	return func(d datagram) []datagram {
		if count++; count == k+1 && x.times > 0 {
			victim, *struck = d.data, true
		}
		if left == 0 || !bytes.Equal(d.data, victim) {
			return []datagram{d}
		}
		left--
		return x.do(n, d)
	}
}

// TestFirstUseBySoftLimit: the soft limit of one packet on a responder's new inbound SA says that the peer has the new pair; it asks for no rekey.
func TestFirstUseBySoftLimit(t *testing.T) {
	n := newPair(t, setup{})
	n.up()
	old := n.b.sa.children[0]
	n.a.ask(wire.CreateChildSA, n.a.offer(0x7777, wire.NewChildNotify(wire.NotifyRekeySA, wire.ProtoESP, old.spiOut))...)
	next := n.b.sa.children[1]
	if s := n.b.plane.sas[next.inID()]; s.SoftPackets != firstPacket || s.HardBytes == 0 {
		t.Errorf("limits %+v", s)
	}
	n.b.step(Expire{ID: next.inID()})
	n.run(100*time.Millisecond, nil)
	if next.out != installed || n.b.sa.rekeying(next) || n.b.sa.rekeying(old) || len(n.b.sa.queue) > 0 {
		t.Errorf("out %v, queue %d", next.out, len(n.b.sa.queue))
	}
	if s := n.b.plane.sas[next.outID()]; s.SoftBytes == 0 || s.SoftBytes >= s.HardBytes {
		t.Errorf("limits %+v", s)
	}
}

// TestRekeyTakesAnotherSuite: a rekey may choose any suite that both allow, whichever the child had (RFC 7296 section 2.8).
func TestRekeyTakesAnotherSuite(t *testing.T) {
	prefers := func(gw, child, esp string) string {
		return strings.Replace(gw, child+"\n", child+"\nesp = "+esp+"\n", 1)
	}
	n := newPair(t, setup{
		a: prefers(gwA, "[connection.site-b.child.lan]", `["aes256gcm16", "aes128gcm16"]`),
		b: prefers(gwB, "[connection.site-a.child.lan]", `["aes128gcm16", "aes256gcm16"]`),
	})
	n.up()
	for _, c := range []struct {
		by   *host
		bits int
	}{{n.b, 256}, {n.a, 128}} { // who answers chooses
		c.by.step(Rekey{})
		n.run(10*time.Second, nil)
		n.both(1)
		for _, h := range []*host{n.a, n.b} {
			if got := h.sa.children[0].suite.KeyBits; got != c.bits {
				t.Errorf("the child has a key of %d bits, wanted %d", got, c.bits)
			}
		}
	}
}
