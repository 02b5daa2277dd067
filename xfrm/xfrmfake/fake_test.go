package xfrmfake

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"cygnet/xfrm"
	"cygnet/xfrm/alg"
	"cygnet/xfrm/ledger"
)

var (
	here, there             = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("198.51.100.7")
	lan                     = xfrm.Selector{Src: netip.MustParsePrefix("10.1.0.0/16"), Dst: netip.MustParsePrefix("10.2.0.0/16")}
	back                    = xfrm.Selector{Src: lan.Dst, Dst: lan.Src}
	ctx                     = context.Background()
	_           xfrm.Driver = (*Driver)(nil)
)

func key(n int, fill byte) alg.Secret {
	b := make([]byte, n)
	for i := range b {
		b[i] = fill
	}
	return alg.NewSecret(b)
}

func outSA(spi uint32, fill byte) xfrm.SA {
	return xfrm.SA{ID: xfrm.SAID{Dst: there, SPI: spi, Proto: xfrm.ProtoESP}, Src: here, Direction: xfrm.Out, ReqID: 7,
		Suite: xfrm.Suite{Encr: alg.EncrAESGCM16, KeyBits: 256}, EncrKey: key(36, fill), Selectors: []xfrm.Selector{lan}}
}

func inSA(spi uint32, fill byte) xfrm.SA {
	s := outSA(spi, fill)
	s.ID.Dst, s.Src, s.Direction, s.Selectors = here, there, xfrm.In, []xfrm.Selector{back}
	return s
}

func protect(dir xfrm.Direction, sel xfrm.Selector) xfrm.Policy {
	t := xfrm.Template{Src: here, Dst: there, ReqID: 7}
	if dir == xfrm.In {
		t.Src, t.Dst = t.Dst, t.Src
	}
	return xfrm.Policy{Slot: xfrm.Slot{Direction: dir, Selector: sel}, Template: t, Priority: ledger.Priority(sel)}
}

func mustApply(t *testing.T, d *Driver, ops ...xfrm.Op) {
	t.Helper()
	if err := d.Apply(ctx, ops); err != nil {
		t.Fatal(err)
	}
}

func TestApplyAndDump(t *testing.T) {
	d := New()
	in, out := inSA(0x1000, 1), outSA(0x2000, 2)
	mustApply(t, d, xfrm.AddSA{SA: in}, xfrm.AddSA{SA: out}, xfrm.PutPolicy{Policy: protect(xfrm.Out, lan)}, xfrm.PutPolicy{Policy: protect(xfrm.In, back)})
	state, err := d.Dump(ctx)
	if err != nil || len(state.SAs) != 2 || len(state.Policies) != 2 || state.SAs[0].ID != in.ID {
		t.Fatalf("dump %+v, %v", state, err)
	}
	if state.SAs[0].EncrKey.Len() != 0 {
		t.Error("a key in the dump")
	}
	mustApply(t, d, xfrm.RemovePolicy{Slot: protect(xfrm.Out, lan).Slot}, xfrm.RemoveSA{ID: in.ID}, xfrm.RemoveSA{ID: in.ID})
	if added, gone := d.Balance(); added != 2 || gone != 1 {
		t.Errorf("%d added, %d gone", added, gone)
	}
	if len(d.Faults()) != 0 || len(d.Log()) != 7 {
		t.Errorf("faults %q, log %q", d.Faults(), d.Log())
	}
}

func TestRefusals(t *testing.T) {
	change := func(f func(*xfrm.SA)) xfrm.Op {
		s := outSA(0x3000, 3)
		f(&s)
		return xfrm.AddSA{SA: s}
	}
	policy := func(f func(*xfrm.Policy)) xfrm.Op {
		p := protect(xfrm.Out, lan)
		f(&p)
		return xfrm.PutPolicy{Policy: p}
	}
	d := New()
	mustApply(t, d, xfrm.AddSA{SA: outSA(0x1000, 1)})
	id := outSA(0x1000, 1).ID
	for name, op := range map[string]xfrm.Op{
		"nothing":              nil,
		"key reuse":            change(func(s *xfrm.SA) { s.EncrKey = key(36, 1) }),
		"short key":            change(func(s *xfrm.SA) { s.EncrKey = key(32, 9) }),
		"no algorithm":         change(func(s *xfrm.SA) { s.Suite.Encr = 99 }),
		"no reqid":             change(func(s *xfrm.SA) { s.ReqID = 0 }),
		"reserved SPI":         change(func(s *xfrm.SA) { s.ID.SPI = 255 }),
		"no direction":         change(func(s *xfrm.SA) { s.Direction = 0 }),
		"families":             change(func(s *xfrm.SA) { s.Src = netip.MustParseAddr("2001:db8::1") }),
		"replay outbound":      change(func(s *xfrm.SA) { s.Replay = 64 }),
		"encap port":           change(func(s *xfrm.SA) { s.Encap = &xfrm.Encap{SrcPort: 4500} }),
		"template sans reqid":  policy(func(p *xfrm.Policy) { p.Template.ReqID = 0 }),
		"template sans dst":    policy(func(p *xfrm.Policy) { p.Template.Dst = netip.Addr{} }),
		"block with template":  policy(func(p *xfrm.Policy) { p.Action = xfrm.Block }),
		"no priority":          policy(func(p *xfrm.Policy) { p.Priority = 0 }),
		"unmasked":             policy(func(p *xfrm.Policy) { p.Slot.Selector.Src = netip.MustParsePrefix("10.1.0.1/16") }),
		"ports without encap":  xfrm.UpdateSA{ID: id, Encap: xfrm.Encap{SrcPort: 1, DstPort: 1}},
		"move to no address":   xfrm.MoveSA{ID: id, Src: here},
		"removal of nonsense":  xfrm.RemoveSA{},
		"removal without slot": xfrm.RemovePolicy{},
	} {
		before := len(d.Faults())
		err := d.Apply(ctx, []xfrm.Op{op})
		var oe *xfrm.OpError
		if !errors.As(err, &oe) || len(d.Faults()) != before+1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExistsAndMissing(t *testing.T) {
	d := New()
	mustApply(t, d, xfrm.AddSA{SA: outSA(0x1000, 1)}, xfrm.AddSA{SA: outSA(0x1001, 2)})
	err := d.Apply(ctx, []xfrm.Op{xfrm.RemoveSA{ID: outSA(0x9999, 1).ID}, xfrm.AddSA{SA: outSA(0x1000, 3)}})
	var oe *xfrm.OpError
	if !errors.Is(err, xfrm.ErrExists) || !errors.As(err, &oe) || oe.Index != 1 {
		t.Errorf("second add: %v", err)
	}
	gone := outSA(0x5000, 1).ID
	if d.Apply(ctx, []xfrm.Op{xfrm.UpdateSA{ID: gone, Encap: xfrm.Encap{SrcPort: 1, DstPort: 2}}}) == nil ||
		d.Apply(ctx, []xfrm.Op{xfrm.MoveSA{ID: gone, Src: here, Dst: there}}) == nil {
		t.Error("changed an SA that is not there")
	}
	if _, err := d.Usage(ctx, gone); err == nil {
		t.Error("usage of an SA that is not there")
	}
	if len(d.Faults()) != 0 {
		t.Errorf("these may happen to anyone: %q", d.Faults())
	}
}

func TestMove(t *testing.T) {
	d := New()
	s := outSA(0x1000, 1)
	mustApply(t, d, xfrm.AddSA{SA: s})
	keys, _ := d.Keys(s.ID)
	elsewhere := netip.MustParseAddr("203.0.113.9")
	mustApply(t, d, xfrm.MoveSA{ID: s.ID, Src: here, Dst: elsewhere, Encap: &xfrm.Encap{SrcPort: 4500, DstPort: 9}})
	if _, ok := d.Keys(s.ID); ok {
		t.Error("still at the old address")
	}
	id := s.ID
	id.Dst = elsewhere
	if k, ok := d.Keys(id); !ok || k != keys {
		t.Error("not at the new address")
	}
	mustApply(t, d, xfrm.UpdateSA{ID: id, Encap: xfrm.Encap{SrcPort: 4500, DstPort: 10}})
}

func TestFaultSwitches(t *testing.T) {
	d := New()
	broken := errors.New("ENOBUFS")
	d.Fail(2, broken, nil)
	ops := []xfrm.Op{xfrm.AddSA{SA: outSA(0x1000, 1)}, xfrm.AddSA{SA: outSA(0x1001, 2)}, xfrm.AddSA{SA: outSA(0x1002, 3)}}
	var oe *xfrm.OpError
	if err := d.Apply(ctx, ops); !errors.Is(err, broken) || !errors.As(err, &oe) || oe.Index != 1 {
		t.Fatalf("%v", err)
	}
	mustApply(t, d, ops[1:]...)
	d.Fail(1, broken, func(op xfrm.Op) bool { _, is := op.(xfrm.RemoveSA); return is })
	mustApply(t, d, xfrm.PutPolicy{Policy: protect(xfrm.Out, lan)})
	if err := d.Apply(ctx, []xfrm.Op{xfrm.RemoveSA{ID: outSA(0x1000, 1).ID}}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	if err := d.Apply(stopped, []xfrm.Op{xfrm.RemoveSA{ID: outSA(0x1000, 1).ID}}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestEvents(t *testing.T) {
	d := New()
	d.Raise(xfrm.Expire{Hard: true})
	if ev := <-d.Events(); ev != (xfrm.Expire{Hard: true}) {
		t.Errorf("%v", ev)
	}
	d.LoseEvents(true)
	d.Raise(xfrm.Expire{})
	d.LoseEvents(false)
	if ev := <-d.Events(); ev != (xfrm.Gap{}) {
		t.Errorf("%v", ev)
	}
	for range eventQueue + 5 {
		d.Raise(xfrm.Expire{})
	}
	for range eventQueue {
		<-d.Events()
	}
	d.Raise(xfrm.FirstUse{})
	if ev := <-d.Events(); ev != (xfrm.Gap{}) {
		t.Errorf("after an overflow %v", ev)
	}
	d.Close()
	d.Close()
	d.Raise(xfrm.Expire{})
	<-d.Events()
	if _, open := <-d.Events(); open {
		t.Error("events after Close")
	}
	if d.Apply(ctx, []xfrm.Op{xfrm.RemoveSA{ID: outSA(0x1000, 1).ID}}) == nil {
		t.Error("Apply after Close")
	}
}

func TestReopenKeepsWhatIsInstalled(t *testing.T) {
	d := New()
	mustApply(t, d, xfrm.AddSA{SA: outSA(0x1000, 1)}, xfrm.PutPolicy{Policy: protect(xfrm.Out, lan)})
	d.Close()
	d = d.Reopen()
	if s, err := d.Dump(ctx); err != nil || len(s.SAs) != 1 || len(s.Policies) != 1 {
		t.Errorf("%+v %v", s, err)
	}
	if d.Apply(ctx, []xfrm.Op{xfrm.AddSA{SA: outSA(0x2000, 1)}}) == nil {
		t.Error("a key of the former process was used again")
	}
}

func TestPackets(t *testing.T) {
	d := New()
	p := Packet{Src: netip.MustParseAddr("10.1.0.5"), Dst: netip.MustParseAddr("10.2.0.5"), Proto: 6, SrcPort: 1024, DstPort: 80, Octets: 100}
	reply := Packet{Src: p.Dst, Dst: p.Src, Proto: 6, SrcPort: 80, DstPort: 1024, Octets: 40}
	want := func(name string, got, want Fate) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	fate := func() Fate { f, _ := d.Outbound(p); return f }
	want("no policy", fate(), Clear)
	wide := lan
	wide.Src = netip.MustParsePrefix("10.0.0.0/8")
	mustApply(t, d, xfrm.PutPolicy{Policy: xfrm.Policy{Slot: xfrm.Slot{Direction: xfrm.Out, Selector: wide}, Action: xfrm.Block, Priority: ledger.Priority(wide)}})
	want("block", fate(), Dropped)
	mustApply(t, d, xfrm.PutPolicy{Policy: protect(xfrm.Out, lan)}, xfrm.PutPolicy{Policy: protect(xfrm.In, back)})
	want("narrower protect without SA", fate(), Dropped)
	if ev, ok := (<-d.Events()).(xfrm.Acquire); !ok || ev.ReqID != 7 || ev.Selector.Src.String() != "10.1.0.5/32" || ev.Selector.DstPorts.First != 80 {
		t.Errorf("event %+v", ev)
	}
	old, new := outSA(0x1000, 1), outSA(0x1001, 2)
	in := inSA(0x2000, 3)
	mustApply(t, d, xfrm.AddSA{SA: old}, xfrm.AddSA{SA: new}, xfrm.AddSA{SA: in})
	if f, id := d.Outbound(p); f != Protected || id != new.ID {
		t.Errorf("%v by %v", f, id)
	}
	hinted := protect(xfrm.Out, lan)
	hinted.Template.SPI = old.ID.SPI
	mustApply(t, d, xfrm.PutPolicy{Policy: hinted})
	if _, id := d.Outbound(p); id != old.ID {
		t.Errorf("hint ignored: %v", id)
	}
	want("in clear", d.Inbound(xfrm.SAID{}, reply), Dropped)
	want("on its SA", d.Inbound(in.ID, reply), Protected)
	want("outside the SA's selectors", d.Inbound(in.ID, p), Dropped)
	want("on no SA", d.Inbound(old.ID, reply), Dropped)
	if ev := <-d.Events(); ev != (xfrm.FirstUse{ID: in.ID}) {
		t.Errorf("event %+v", ev)
	}
	if u, _ := d.Usage(ctx, in.ID); u.Packets != 1 || u.Bytes != 40 || u.LastUse == 0 {
		t.Errorf("usage %+v", u)
	}
	var all []uint32
	d.UsageAll(ctx, func(id xfrm.SAID, _ xfrm.Usage) bool { all = append(all, id.SPI); return len(all) < 2 })
	if !slices.Equal(all, []uint32{0x1000, 0x1001}) {
		t.Errorf("%x", all)
	}
}

// Run with -race: many goroutines at once.
func TestConcurrent(t *testing.T) {
	d := New()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 50 {
				s := outSA(uint32(0x1000+g*100+i), 0)
				s.EncrKey = alg.NewSecret([]byte(fmt.Sprintf("%036d", g*100+i)))
				if err := d.Apply(ctx, []xfrm.Op{xfrm.AddSA{SA: s}}); err != nil {
					t.Error(err)
				}
				d.Dump(ctx)
				d.Raise(xfrm.Expire{ID: s.ID})
				if i%2 == 0 {
					d.Apply(ctx, []xfrm.Op{xfrm.RemoveSA{ID: s.ID}})
				}
			}
		})
	}
	wg.Wait()
	if added, gone := d.Balance(); added != 200 || gone != 100 || len(d.Faults()) != 0 {
		t.Errorf("%d added, %d gone, faults %q", added, gone, d.Faults())
	}
}

// The log and the faults must never show a key.
func TestNoKeyInTexts(t *testing.T) {
	d := New()
	s := outSA(0x1000, 0)
	s.EncrKey = alg.NewSecret([]byte(strings.Repeat("secret", 6)))
	mustApply(t, d, xfrm.AddSA{SA: s})
	s.ID.SPI++
	d.Apply(ctx, []xfrm.Op{xfrm.AddSA{SA: s}})
	if text := fmt.Sprint(d.Log(), d.Faults()); strings.Contains(text, "secret") || !strings.Contains(text, "used before") {
		t.Error(text)
	}
}
