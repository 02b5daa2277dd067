package daemon

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"cygnet/ike/control"
	"cygnet/xfrm"
	"cygnet/xfrm/xfrmfake"
)

// usagePlane has counters of the test's making.
type usagePlane struct {
	*xfrmfake.Driver
	usage map[xfrm.SAID]xfrm.Usage
}

func (u usagePlane) Usage(_ context.Context, id xfrm.SAID) (xfrm.Usage, error) {
	use, there := u.usage[id]
	if !there {
		return use, errors.New("no such SA")
	}
	return use, nil
}

// What an SA has carried outlives it, under whatever name it went; what the data plane does not tell any more counts nothing.
func TestTotalsOutliveSAs(t *testing.T) {
	id := func(host byte, spi uint32) xfrm.SAID {
		return xfrm.SAID{Dst: netip.AddrFrom4([4]byte{192, 0, 2, host}), SPI: spi, Proto: xfrm.ProtoESP}
	}
	in, out, next, moved := id(1, 256), id(2, 257), id(1, 258), id(3, 257)
	plane := usagePlane{usage: map[xfrm.SAID]xfrm.Usage{
		in: {Bytes: 100, Packets: 1}, moved: {Bytes: 2000, Packets: 20}, next: {Bytes: 5, Packets: 1},
	}}
	sums, ctx := newTotals(), context.Background()
	sums.added(xfrm.Batch{Lineage: "b/lan/peer", Add: []xfrm.SA{{ID: in, Direction: xfrm.In}, {ID: out, Direction: xfrm.Out}}})
	sums.before(ctx, plane, []xfrm.Op{xfrm.MoveSA{ID: out, Dst: moved.Dst}})
	sums.added(xfrm.Batch{Lineage: "b/lan/peer", Add: []xfrm.SA{{ID: next, Direction: xfrm.In}}})
	want := control.Traffic{BytesIn: 105, PacketsIn: 2, BytesOut: 2000, PacketsOut: 20}
	if got := sums.read(plane.usage); got["b"] != want {
		t.Errorf("%+v while all are there", got)
	}
	remove := []xfrm.Op{xfrm.RemoveSA{ID: in}, xfrm.RemoveSA{ID: moved}, xfrm.RemoveSA{ID: id(9, 999)}}
	sums.before(ctx, plane, remove)
	sums.before(ctx, plane, remove) // once is enough
	delete(plane.usage, in)
	delete(plane.usage, moved)
	if got := sums.read(plane.usage); got["b"] != want {
		t.Errorf("%+v after two have gone", got)
	}
	delete(plane.usage, next)
	sums.before(ctx, plane, []xfrm.Op{xfrm.RemoveSA{ID: next}})
	if want.BytesIn, want.PacketsIn = 100, 1; sums.read(plane.usage)["b"] != want || len(sums.live) != 0 {
		t.Errorf("%+v, %d live", sums.read(plane.usage), len(sums.live))
	}
}

// TestTotalsOverRekeys: the daemon books all SAs of a connection, over a rekey and to its end.
func TestTotalsOverRekeys(t *testing.T) {
	sa, sb := pair(t)
	launch(t, sb, xfrmfake.New())
	var d *Daemon
	a := launch(t, sa, xfrmfake.New(), func(of *Daemon) { d = of })
	if _, f := a.up("b"); f != nil {
		t.Fatal(f)
	}
	if _, f := a.rekey("b", "lan", false); f != nil {
		t.Fatal(f)
	}
	a.await("two SAs", func(control.Connection) bool {
		live := -1
		d.inPlane(func(p *plane) {
			p.totals.mu.Lock()
			defer p.totals.mu.Unlock()
			live = len(p.totals.live)
		})
		return live == 2
	})
	d.plane.totals.book(carrier{"b", xfrm.In}, xfrm.Usage{Bytes: 7, Packets: 1})
	if got := a.status().Traffic; got.BytesIn != 7 || got.PacketsIn != 1 {
		t.Errorf("the status says %+v", got)
	}
}
