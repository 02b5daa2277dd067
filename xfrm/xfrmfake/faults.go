package xfrmfake

import (
	"slices"

	"cygnet/xfrm"
)

// failure is an ordered fault: of the ops that match, the one with the given number fails.
type failure struct {
	after   int
	matches func(xfrm.Op) bool
	err     error
}

func (f *failure) due(op xfrm.Op) error {
	if f.err == nil || f.matches != nil && !f.matches(op) {
		return nil
	}
	if f.after--; f.after > 0 {
		return nil
	}
	err := f.err
	*f = failure{}
	return err
}

// Fail makes the nth op from now (1: the next) fail with err, once; matches chooses which ops count, nil counts all.
func (d *Driver) Fail(n int, err error, matches func(xfrm.Op) bool) {
	d.locked(func() { d.fail = failure{n, matches, err} })
}

// Events comes from Raise, and from Outbound and Inbound.
func (d *Driver) Events() <-chan xfrm.Event { return d.events }

// LoseEvents switches the loss of events on and off. After a loss, switching it off raises a Gap, as a driver does that
// finds that it lost some.
func (d *Driver) LoseEvents(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lose = on
	if !on && d.lost {
		d.lost = false
		d.raise(xfrm.Gap{})
	}
}

// Raise delivers an event.
func (d *Driver) Raise(ev xfrm.Event) { d.locked(func() { d.raise(ev) }) }

func (d *Driver) raise(ev xfrm.Event) {
	if d.closed {
		return
	}
	if d.lose {
		d.lost = true
		return
	}
	if d.lost && len(d.events) < cap(d.events)-1 { // there is room again for the news and for what was missed
		d.lost = false
		d.events <- xfrm.Gap{}
	}
	select {
	case d.events <- ev:
	default:
		d.lost = true
	}
}

// Lose drops an SA or a policy behind everyone's back, as another program on the host might.
func (d *Driver) Lose(id xfrm.SAID) {
	d.locked(func() {
		if d.sas[id] != nil {
			delete(d.sas, id)
			d.opsGone++
		}
	})
}

// LosePolicy is Lose for a policy; Plant puts one, or an SA, that nobody asked for.
func (d *Driver) LosePolicy(s xfrm.Slot) { d.locked(func() { delete(d.policies, canonical(s)) }) }

func (d *Driver) Plant(p xfrm.Policy) {
	p.Slot = canonical(p.Slot)
	d.locked(func() { d.policies[p.Slot] = p })
}

// Log lists the ops so far by their names, failed ones with the error.
func (d *Driver) Log() (l []string) {
	d.locked(func() { l = slices.Clone(d.log) })
	return l
}

// Faults lists what callers did that the contract forbids. A good run has none.
func (d *Driver) Faults() (l []string) {
	d.locked(func() { l = slices.Clone(d.faults) })
	return l
}

// Balance counts the SAs that were added and that went: equal when every AddSA met its RemoveSA.
func (d *Driver) Balance() (added, gone int) {
	d.locked(func() { added, gone = d.opsAdded, d.opsGone })
	return added, gone
}

// Keys is the digest of an SA's keys. The outbound SA here and the inbound SA at the peer have the same.
func (d *Driver) Keys(id xfrm.SAID) (k Digest, ok bool) {
	d.locked(func() {
		if s := d.sas[id]; s != nil {
			k, ok = s.keys, true
		}
	})
	return k, ok
}
