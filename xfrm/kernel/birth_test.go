package kernel

import (
	"testing"

	"cygnet/xfrm"
)

func TestBirths(t *testing.T) {
	var b births
	for i, c := range []struct {
		reqid     uint32
		now, want uint64
	}{
		{1, 1000, 1000}, {1, 1000, 1001}, {1, 1000, 1002}, // within one second
		{2, 1000, 1000},                  // another child's
		{1, 1001, 1003}, {1, 2000, 2000}, // time goes on
		{1, 500, 2001}, // the clock is set back
	} {
		if got := b.next(c.reqid, c.now); got != c.want {
			t.Errorf("%d: SA of reqid %d at %d is dated %d, wanted %d", i, c.reqid, c.now, got, c.want)
		}
	}
	for reqid := range uint32(1000) {
		b.next(reqid+10, uint64(3000+reqid))
	}
	if len(b.last) > many+1 {
		t.Errorf("%d dates are kept", len(b.last))
	}
	if got := b.next(1009, 3999); got != 4000 {
		t.Errorf("after forgetting the next date is %d", got)
	}
}

// TestNewestSends: of the outbound SAs of one child the last one sends, although all are of one second and the kernel's table grows.
func TestNewestSends(t *testing.T) {
	s := newSite(t)
	s.b.echo(t)
	c := child{}.defaults()
	s.up(t, c)
	var old []xfrm.SAID
	for range 3 {
		old = append(old, c.sa(true, xfrm.Out).ID)
		c.spiAB++
		apply(t, s.db, xfrm.AddSA{SA: c.sa(true, xfrm.In)})
		apply(t, s.da, xfrm.AddSA{SA: c.sa(true, xfrm.Out)}, xfrm.PutPolicy{Policy: c.policy(true, xfrm.Out)})
	}
	for i := range uint32(20) { // of another child
		o := child{reqid: 0x43590002, spiAB: 0xc1000000 + i, spiBA: 1}.defaults()
		apply(t, s.da, xfrm.AddSA{SA: o.sa(true, xfrm.Out)})
	}
	date := uint64(0)
	for _, id := range append(old, c.sa(true, xfrm.Out).ID) {
		if err := s.da.withSA(id, func(st sastate) error {
			if st.info.Curlft.AddTime <= date {
				t.Errorf("SA %08x is dated %d, its predecessor %d", id.SPI, st.info.Curlft.AddTime, date)
			}
			date = st.info.Curlft.AddTime
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 { // the table grows meanwhile
		apply(t, s.da, xfrm.PutPolicy{Policy: c.policy(true, xfrm.Out)}) // with no SA of before at hand
		s.a.mustAsk(t, innerA4, innerB4, 10)
	}
	for _, id := range old {
		if err := s.da.withSA(id, func(st sastate) error {
			if n := st.info.Curlft.Packets; n > 0 {
				t.Errorf("%d packets were sent on the old SA %08x", n, id.SPI)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}
