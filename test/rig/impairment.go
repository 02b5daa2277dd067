package rig

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Impairment is what an Impair does to the packets of each direction, decided by its seed: packet number n of a direction always has the same fate. Shares are between 0 and 1.
type Impairment struct {
	Seed      uint64
	Loss      float64
	Reorder   float64       // held until up to Depth later ones of the same SA have passed
	Duplicate float64       // sent once more, likewise later
	Straggle  float64       // held until so many have passed that they lie outside a replay window of Window packets
	Depth     int           // at least 1
	Window    int           // in packets
	IKE       float64       // of IKE messages: lost, held and repeated are so many each, in place of the shares above
	Delay     time.Duration // of every packet
	Patience  time.Duration // what is held for others to pass does not wait longer
	Uncounted float64       // lost where they should pass, and counted as passed: to see a check fail
}

// Fates of packets, counted.
type Fates struct {
	Came       int
	Dropped    int
	Passed     int // not later than a replay window allows
	Late       int // passed, and outside the window
	Duplicates int // passed once more
	Reordered  int // of Passed and Late, those that others of their SA have overtaken
	Overtaken  int // of Passed, those that others of their size have overtaken, whatever the SA
}

// add sums up.
func (f *Fates) add(o Fates) {
	f.Came, f.Dropped, f.Passed, f.Late = f.Came+o.Came, f.Dropped+o.Dropped, f.Passed+o.Passed, f.Late+o.Late
	f.Duplicates, f.Reordered, f.Overtaken = f.Duplicates+o.Duplicates, f.Reordered+o.Reordered, f.Overtaken+o.Overtaken
}

// stragglerPatience is how long a straggler waits until its SA has sent enough to be outside the window; when it does not it is dropped.
const stragglerPatience = 5 * time.Second

// carried is a packet on its way through a lane.
type carried struct {
	octets    []byte
	spi, seq  uint32 // of ESP
	size      int
	number    int // of those of its size
	ike       bool
	due       time.Time // when it leaves, or is due to be held
	behind    int       // so many more must pass before it
	copyAfter int       // a copy follows behind so many; 0: none
	duplicate bool
	straggler bool
	vanishes  bool // Uncounted
}

// lane is one direction: no clock and no sockets.
type lane struct {
	Impairment
	rng  *rand.Rand
	due  []carried // in the order of arrival, which is that of due times
	held []carried // those that others overtake
	top  map[uint32]uint32
	esp  map[int]*Fates // by the packet's size
	last map[int]int    // the latest number of a size that has passed
	ike  Fates
	rest Fates // of what is neither
}

func newLane(o Impairment, number uint64) *lane {
	return &lane{Impairment: o, rng: rand.New(rand.NewPCG(o.Seed, number)), top: map[uint32]uint32{}, esp: map[int]*Fates{}, last: map[int]int{}}
}

// fates is the count that a packet belongs to.
func (l *lane) fates(c *carried) *Fates {
	switch {
	case c.spi == 0 && c.ike:
		return &l.ike
	case c.spi == 0:
		return &l.rest
	}
	f := l.esp[c.size]
	if f == nil {
		f = &Fates{}
		l.esp[c.size] = f
	}
	return f
}

// arrive decides on a packet. The same number of random numbers is drawn for each, so that one decision does not move the others.
func (l *lane) arrive(p Packet, octets []byte, now time.Time) {
	c := carried{octets: octets, spi: p.SPI, seq: espSequence(p, octets), size: p.Size, ike: p.IKE(), due: now.Add(l.Delay)}
	lost, held, depth, far := l.rng.Float64(), l.rng.Float64(), 1+l.rng.IntN(l.Depth), l.rng.IntN(l.Depth)
	twice := l.rng.Float64()
	c.vanishes = l.rng.Float64() < l.Uncounted
	f := l.fates(&c)
	f.Came++
	c.number = f.Came
	o := l.Impairment
	if c.spi == 0 {
		o.Loss, o.Reorder, o.Duplicate, o.Straggle = o.IKE, o.IKE, o.IKE, 0
	}
	switch {
	case lost < o.Loss:
		f.Dropped++
		return
	case held < o.Straggle:
		c.behind, c.straggler = o.Window+o.Depth+far, true
	case held < o.Straggle+o.Reorder:
		c.behind = depth
	case twice < o.Duplicate:
		c.copyAfter = depth
	}
	l.due = append(l.due, c)
}

// espSequence is the sequence number in the ESP header, which is in clear (RFC 4303 section 2.2).
func espSequence(p Packet, octets []byte) uint32 {
	at := int(octets[0]&15)*4 + 4
	if p.Proto != 50 {
		at += 8
	}
	if !p.ESP() || len(octets) < at+4 {
		return 0
	}
	return binary.BigEndian.Uint32(octets[at:])
}

// leave hands out what is due, and what waited for it.
func (l *lane) leave(now time.Time, out func([]byte)) {
	for len(l.due) > 0 && !l.due[0].due.After(now) {
		c := l.due[0]
		l.due = l.due[1:]
		if c.behind == 0 {
			l.pass(c, out)
			continue
		}
		c.due = now.Add(l.Patience)
		if c.straggler {
			c.due = now.Add(stragglerPatience)
		}
		l.held = append(l.held, c)
	}
	for i := 0; i < len(l.held); {
		c := l.held[i]
		if c.due.After(now) {
			i++
			continue
		}
		l.held = slices.Delete(l.held, i, i+1)
		if c.straggler { // not far enough behind to be outside the window, and too late for an SA that may be gone
			l.fates(&c).Dropped++
			continue
		}
		l.pass(c, out)
		i = 0
	}
}

// pass sends a packet on, and those that were held until so many had passed.
func (l *lane) pass(c carried, out func([]byte)) {
	if !c.vanishes {
		out(c.octets)
	}
	l.count(c)
	for i := range l.held {
		if l.held[i].spi == c.spi {
			l.held[i].behind--
		}
	}
	if c.copyAfter > 0 {
		twin := c
		twin.behind, twin.copyAfter, twin.duplicate, twin.due = c.copyAfter, 0, true, c.due.Add(l.Patience)
		l.held = append(l.held, twin)
	}
	var ready []carried
	l.held = slices.DeleteFunc(l.held, func(h carried) bool {
		if h.behind > 0 {
			return false
		}
		ready = append(ready, h)
		return true
	})
	for _, h := range ready {
		l.pass(h, out)
	}
}

// count notes what becomes of a packet that is passed on.
func (l *lane) count(c carried) {
	f := l.fates(&c)
	if c.duplicate {
		f.Duplicates++
		return
	}
	if top := l.top[c.spi]; c.seq >= top {
		l.top[c.spi] = c.seq
	} else {
		f.Reordered++
		if top-c.seq >= uint32(l.Window) {
			f.Late++
			return
		}
	}
	f.Passed++
	if c.number < l.last[c.size] {
		f.Overtaken++
	}
	l.last[c.size] = max(l.last[c.size], c.number)
}

// next is when leave should be called again.
func (l *lane) next() (at time.Time, ok bool) {
	for _, c := range l.held {
		if !ok || c.due.Before(at) {
			at, ok = c.due, true
		}
	}
	if len(l.due) > 0 && (!ok || l.due[0].due.Before(at)) {
		at, ok = l.due[0].due, true
	}
	return at, ok
}

func (o Impairment) String() string {
	return fmt.Sprintf("of the packets of each direction %.2g %% are lost, %.2g %% overtaken by up to %d others, %.2g %% by more than %d, %.2g %% come twice, of IKE messages %.2g %% each; all take %v",
		100*o.Loss, 100*o.Reorder, o.Depth, 100*o.Straggle, o.Window, 100*o.Duplicate, 100*o.IKE, o.Delay)
}
