package userspace

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"cygnet/xfrm"
)

// slowFind looks at every policy: what find must agree with.
func slowFind(c *contents, f *flow) *policy {
	var best *policy
	for _, p := range c.policies {
		if p.Slot.Direction != xfrm.Out || !matches(&p.Slot.Selector, f) {
			continue
		}
		if best == nil || comparePolicies(p.Policy, best.Policy) < 0 {
			best = p
		}
	}
	return best
}

// slowServer likewise for the SA of a policy.
func slowServer(c *contents, p *policy) *sa {
	if p.Action != xfrm.Protect {
		return nil
	}
	var latest *sa
	for id, s := range c.sas {
		if s.direction != xfrm.Out || s.reqID != p.Template.ReqID {
			continue
		}
		if id.Dst == p.Template.Dst && id.SPI == p.Template.SPI {
			return s
		}
		if latest == nil || s.birth > latest.birth {
			latest = s
		}
	}
	return latest
}

// world makes selectors, SAs and flows from few addresses, so that they meet.
type world struct{ *rand.Rand }

func (w world) addr(v6 bool) netip.Addr {
	if v6 {
		a := [16]byte{0: 0xfd, 7: byte(w.IntN(3)), 8: byte(w.IntN(3)), 15: byte(w.IntN(4))}
		return netip.AddrFrom16(a)
	}
	return netip.AddrFrom4([4]byte{10, byte(w.IntN(3)), byte(w.IntN(3)), byte(w.IntN(4))})
}

func (w world) prefix(v6 bool) netip.Prefix {
	lengths := []int{0, 8, 15, 16, 24, 31, 32}
	if v6 {
		lengths = []int{0, 8, 63, 64, 65, 72, 127, 128}
	}
	p, _ := w.addr(v6).Prefix(lengths[w.IntN(len(lengths))])
	return p
}

func (w world) ports() xfrm.Ports {
	return []xfrm.Ports{{}, {}, {Last: 65535}, {First: 1, Last: 2}, {First: 2, Last: 3}, {First: 65535}}[w.IntN(6)]
}

func (w world) policy() xfrm.Policy {
	v6 := w.IntN(2) == 0
	s := xfrm.Selector{Src: w.prefix(v6), Dst: w.prefix(v6)}
	if w.IntN(3) == 0 {
		s.Proto, s.SrcPorts, s.DstPorts = []uint8{6, 17}[w.IntN(2)], w.ports(), w.ports()
	}
	p := outPolicy(s, uint32(w.IntN(6)), uint32(300+w.IntN(8)))
	p.Template.ReqID = uint32(w.IntN(4))
	p.Action = xfrm.PolicyAction(w.IntN(3))
	if w.IntN(8) == 0 {
		p.Slot.Direction = xfrm.In
	}
	p.Slot.Mark = uint32(w.IntN(2))
	return p
}

func (w world) flow() flow {
	v6 := w.IntN(2) == 0
	f := flow{src: w.addr(v6), dst: w.addr(v6), proto: []uint8{6, 17, 1}[w.IntN(3)], ports: w.IntN(4) > 0}
	if f.ports {
		f.sport, f.dport = uint16(w.IntN(4)), uint16(w.IntN(4))
	}
	return f
}

// step changes contents as an operation of Apply would.
func (w world) step(c *contents) {
	id := func() xfrm.SAID { return xfrm.SAID{Dst: remote.Addr(), SPI: uint32(300 + w.IntN(8)), Proto: 50} }
	elsewhere := func(id xfrm.SAID) xfrm.SAID { id.Dst = local.Addr(); return id }
	switch w.IntN(8) {
	case 0, 1, 2:
		c.putPolicy(&policy{Policy: w.policy()})
	case 3:
		for slot := range c.policies { // any
			c.removePolicy(slot)
			break
		}
	case 4, 5:
		if at := id(); c.sas[at] == nil {
			c.addSA(at, &sa{direction: []xfrm.Direction{xfrm.In, xfrm.Out, xfrm.Out}[w.IntN(3)], reqID: uint32(w.IntN(4))})
		}
	case 6:
		at := id()
		if w.IntN(3) == 0 {
			at = elsewhere(at)
		}
		c.removeSA(at)
	case 7:
		at := id()
		if to := elsewhere(at); c.sas[at] != nil && c.sas[to] == nil {
			c.moveSA(at, to)
		}
	}
}

// After any changes the tables find what a look at everything finds; those taken before still find what they found.
func TestTablesAgreeWithASlowLook(t *testing.T) {
	for seed := range uint64(40) {
		w, c := world{rand.New(rand.NewPCG(seed, 1))}, newContents()
		for range 250 {
			w.step(&c)
			tables := c.tables()
			f := w.flow()
			got, ok := tables.find(&f)
			want := slowFind(&c, &f)
			if ok != (want != nil) || got.policy != want {
				t.Fatalf("seed %d: %+v found %+v, want %+v", seed, f, got.policy, want)
			}
			if ok && got.sa != slowServer(&c, want) {
				t.Fatalf("seed %d: %+v has SA %p, want %p", seed, want.Policy, got.sa, slowServer(&c, want))
			}
			for range 3 { // what comes later changes nothing
				w.step(&c)
			}
			if again, ok2 := tables.find(&f); again != got || ok2 != ok {
				t.Fatalf("seed %d: %+v found %+v, then %+v", seed, f, got, again)
			}
		}
		for id, s := range c.sas {
			if found := c.next.inbound(id); (s.direction == xfrm.In) != (found == s) {
				t.Fatalf("seed %d: %v found as %p, is %p", seed, id, found, s)
			}
		}
	}
}

// Many of one kind: tables grow, shrink and keep apart what shares an SPI.
func TestTablesOfMany(t *testing.T) {
	const n = 3000
	c := newContents()
	empty := c.tables()
	ids := make([]xfrm.SAID, n)
	for i := range n {
		ids[i] = xfrm.SAID{Dst: netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 2)}), SPI: uint32(256 + i/2), Proto: 50}
		c.addSA(ids[i], &sa{direction: xfrm.In})
		c.putPolicy(&policy{Policy: outPolicy(childSelector(i), 1, 0)})
	}
	full := c.tables()
	for i := range n {
		if s := full.inbound(ids[i]); s == nil || s != c.sas[ids[i]] {
			t.Fatalf("%v found as %p", ids[i], s)
		}
		f := childFlow(i, 3)
		if b, ok := full.find(&f); !ok || b.Slot.Selector != childSelector(i) {
			t.Fatalf("flow %d found %v", i, b.policy)
		}
	}
	for i := range n {
		c.removeSA(ids[i])
		c.removePolicy(xfrm.Slot{Direction: xfrm.Out, Selector: childSelector(i)})
	}
	f := childFlow(0, 3)
	for _, e := range []*tables{empty, c.tables()} {
		if _, ok := e.find(&f); ok || e.inbound(ids[0]) != nil || len(e.out[0]) != 0 {
			t.Error("something is found in empty tables")
		}
	}
	if len(c.lineages) != 0 {
		t.Errorf("%d lineages are left", len(c.lineages))
	}
	if s := full.inbound(ids[7]); s == nil {
		t.Error("tables of before have changed")
	}
}

// childSelector is that of the child number i: a /24 of its own.
func childSelector(i int) xfrm.Selector {
	return xfrm.Selector{Src: netip.MustParsePrefix("192.168.0.0/16"), Dst: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)}
}

// childFlow is one of the flows in it.
func childFlow(i int, host byte) flow {
	return flow{src: netip.AddrFrom4([4]byte{192, 168, 1, host}), dst: netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), host}), proto: 6, sport: 1024, dport: 443, ports: true}
}

// childOps make the child number i, with one SA each way and one policy each way.
func childOps(i int) []xfrm.Op {
	in, out := testSA(xfrm.In, uint32(1<<20+i)), testSA(xfrm.Out, uint32(1<<21+i))
	sel := childSelector(i)
	p := outPolicy(sel, 1, out.ID.SPI)
	in.ReqID, out.ReqID, p.Template.ReqID = uint32(i+1), uint32(i+1), uint32(i+1)
	back := p
	back.Slot = xfrm.Slot{Direction: xfrm.In, Selector: xfrm.Selector{Src: sel.Dst, Dst: sel.Src}}
	return []xfrm.Op{xfrm.AddSA{SA: in}, xfrm.AddSA{SA: out}, xfrm.PutPolicy{Policy: p}, xfrm.PutPolicy{Policy: back}}
}

// packets of 2^14 flows in a random order over all of n children.
func childPackets(n int) [][2][4]byte {
	r := rand.New(rand.NewPCG(7, 7))
	list := make([][2][4]byte, 1<<14)
	for k := range list {
		f := childFlow(r.IntN(n), byte(1+r.IntN(250)))
		list[k] = [2][4]byte{f.src.As4(), f.dst.As4()}
	}
	return list
}

// perCPU runs the rounds of a benchmark and reports the CPU time of one, which other processes disturb less than the clock's.
func perCPU(b *testing.B, round func()) {
	now := func() int64 {
		var u unix.Rusage
		unix.Getrusage(unix.RUSAGE_SELF, &u)
		return u.Utime.Nano() + u.Stime.Nano()
	}
	round()
	start := now()
	for b.Loop() {
		round()
	}
	b.ReportMetric(float64(now()-start)/float64(b.N), "cpu-ns/op")
}

// BenchmarkLookupPacket is what one outbound packet costs from the octets of its header to its policy and SA (parse and find), in a random mix of 16384 flows over
// all children; each child has a /24 of its own. Writing the addresses into the packet is counted too.
func BenchmarkLookupPacket(b *testing.B) {
	for _, n := range []int{1, 1000, 10000} {
		b.Run(fmt.Sprintf("children=%d", n), func(b *testing.B) {
			c := newContents()
			for i := range n {
				sel := childSelector(i)
				p := outPolicy(sel, 1, uint32(1<<21+i))
				p.Template.ReqID = uint32(i + 1)
				c.addSA(xfrm.SAID{Dst: remote.Addr(), SPI: uint32(1<<21 + i), Proto: 50}, &sa{direction: xfrm.Out, reqID: uint32(i + 1)})
				c.putPolicy(&policy{Policy: p})
			}
			t, mix, packet := c.tables(), childPackets(n), udp4("10.0.0.1", "10.0.0.2", 1024, 443, 100)
			k := 0
			perCPU(b, func() {
				a := &mix[k&(len(mix)-1)]
				k++
				copy(packet[12:], a[0][:])
				copy(packet[16:], a[1][:])
				f, _ := parse(packet)
				if x, ok := t.find(&f); !ok || x.sa == nil {
					b.Fatal("not found")
				}
			})
		})
	}
}

// BenchmarkLookupInbound is from SPI and destination to the SA, over all children in a random order.
func BenchmarkLookupInbound(b *testing.B) {
	for _, n := range []int{1, 1000, 10000} {
		b.Run(fmt.Sprintf("children=%d", n), func(b *testing.B) {
			c, r := newContents(), rand.New(rand.NewPCG(7, 7))
			spis, order := make([]uint32, n), make([]uint32, 1<<14)
			for i := range spis {
				spis[i] = r.Uint32() | 256
				c.addSA(xfrm.SAID{Dst: local.Addr(), SPI: spis[i], Proto: 50}, &sa{direction: xfrm.In})
			}
			for k := range order {
				order[k] = spis[r.IntN(n)]
			}
			t, k := c.tables(), 0
			perCPU(b, func() {
				if t.inbound(xfrm.SAID{Dst: local.Addr(), SPI: order[k&(len(order)-1)], Proto: 50}) == nil {
					b.Fatal("not found")
				}
				k++
			})
		})
	}
}

// idle is a kernel that takes everything at no cost.
type idle[T any] struct{}

func (idle[T]) add(T) error        { return nil }
func (idle[T]) remove(T) error     { return nil }
func (idle[T]) list() ([]T, error) { return nil, nil }

// BenchmarkApply is one more child (two SAs, two policies) and its end, where n are there already. The host is one that does nothing.
func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1, 1000, 10000} {
		b.Run(fmt.Sprintf("children=%d", n), func(b *testing.B) {
			d := newBench(b)
			d.Driver.host.rules, d.Driver.host.guards = idle[rule]{}, idle[guard]{}
			var all []xfrm.Op
			for i := range n {
				all = append(all, childOps(i)...)
			}
			d.apply(b, all...)
			up := childOps(n)
			down := []xfrm.Op{
				xfrm.RemovePolicy{Slot: up[2].(xfrm.PutPolicy).Policy.Slot}, xfrm.RemovePolicy{Slot: up[3].(xfrm.PutPolicy).Policy.Slot},
				xfrm.RemoveSA{ID: up[0].(xfrm.AddSA).SA.ID}, xfrm.RemoveSA{ID: up[1].(xfrm.AddSA).SA.ID},
			}
			perCPU(b, func() {
				d.apply(b, up...)
				d.apply(b, down...)
			})
		})
	}
}
