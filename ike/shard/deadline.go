package shard

import (
	"cmp"
	"container/heap"
	"slices"

	"cygnet/ike"
)

// deadlines is a heap of machines by their next deadline; equal ones by SPI, so that the order never depends on history.
type deadlines []*machine

func (d deadlines) Len() int           { return len(d) }
func (d deadlines) Less(i, j int) bool { return sooner(d[i], d[j]) < 0 }
func (d deadlines) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i+1, j+1
}
func (d *deadlines) Push(x any) {
	m := x.(*machine)
	*d = append(*d, m)
	m.place = len(*d)
}
func (d *deadlines) Pop() any {
	old := *d
	m := old[len(old)-1]
	old[len(old)-1] = nil
	*d = old[:len(old)-1]
	m.place = 0
	return m
}

func sooner(a, b *machine) int {
	return cmp.Or(cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.spi, b.spi))
}

// set moves a machine to its deadline, or out of the heap when it has none.
func (d *deadlines) set(m *machine, at ike.Time, has bool) {
	switch {
	case !has && m.place == 0:
	case !has:
		heap.Remove(d, m.place-1)
	case m.place == 0:
		m.deadline = at
		heap.Push(d, m)
	case m.deadline != at:
		m.deadline = at
		heap.Fix(d, m.place-1)
	}
}

func (d deadlines) first() (ike.Time, bool) {
	if len(d) == 0 {
		return 0, false
	}
	return d[0].deadline, true
}

// before takes the machines that are due, soonest first. Each gets one turn in a Wake, whatever it asks for next; its turn puts it back.
func (d *deadlines) before(now ike.Time) []*machine {
	var due []*machine
	for len(*d) > 0 && !now.Before((*d)[0].deadline) {
		due = append(due, heap.Pop(d).(*machine))
	}
	return slices.Clip(due)
}
