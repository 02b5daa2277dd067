package daemon

import (
	"context"
	"sync"

	"cygnet/ike/control"
	"cygnet/xfrm"
)

// totals keeps what connections have carried since the daemon began. The counters of an SA go with it, as at each rekey; so they are read before.
type totals struct {
	mu   sync.Mutex
	live map[xfrm.SAID]carrier
	gone map[string]control.Traffic // of SAs that are gone, by connection
}

// carrier is an SA that is there.
type carrier struct {
	connection string
	direction  xfrm.Direction
}

func newTotals() *totals {
	return &totals{live: make(map[xfrm.SAID]carrier), gone: make(map[string]control.Traffic)}
}

// added notes SAs that are there now.
func (t *totals) added(b xfrm.Batch) {
	connection, _ := splitLineage(b.Lineage)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, sa := range b.Add {
		t.live[sa.ID] = carrier{connection, sa.Direction}
	}
}

// before ops are carried out it reads what the SAs that they remove have carried, and follows those that move. Packets between this and the end of
// the SA are not counted.
func (t *totals) before(ctx context.Context, driver xfrm.Driver, ops []xfrm.Op) {
	for _, op := range ops {
		switch o := op.(type) {
		case xfrm.RemoveSA:
			if c, there := t.take(o.ID); there {
				use, err := driver.Usage(ctx, o.ID)
				if err != nil {
					continue // it has gone by itself
				}
				t.book(c, use)
			}
		case xfrm.MoveSA:
			if c, there := t.take(o.ID); there {
				t.mu.Lock()
				t.live[xfrm.SAID{Dst: o.Dst, SPI: o.ID.SPI, Proto: o.ID.Proto}] = c
				t.mu.Unlock()
			}
		}
	}
}

func (t *totals) take(id xfrm.SAID) (c carrier, there bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, there = t.live[id]
	delete(t.live, id)
	return c, there
}

func (t *totals) book(c carrier, use xfrm.Usage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := t.gone[c.connection]
	add(&sum, c.direction, use)
	t.gone[c.connection] = sum
}

func add(sum *control.Traffic, d xfrm.Direction, use xfrm.Usage) {
	if d == xfrm.In {
		sum.BytesIn += use.Bytes
		sum.PacketsIn += use.Packets
		return
	}
	sum.BytesOut += use.Bytes
	sum.PacketsOut += use.Packets
}

// read adds what the SAs of now have carried, by connection.
func (t *totals) read(usage map[xfrm.SAID]xfrm.Usage) map[string]control.Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	sums := make(map[string]control.Traffic, len(t.gone))
	for name, sum := range t.gone {
		sums[name] = sum
	}
	for id, c := range t.live {
		sum := sums[c.connection]
		add(&sum, c.direction, usage[id])
		sums[c.connection] = sum
	}
	return sums
}
