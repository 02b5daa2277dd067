package shard

import (
	"testing"

	"cygnet/ike"
	"cygnet/ike/wire"
	"cygnet/policy"
)

// rekeyed opens a puppet and has it name a successor, a real machine that waits for Initiate.
func rekeyed(t *testing.T, inherits bool) (st *stage, old *puppet, spi, heir wire.SPI) {
	t.Helper()
	st = newStage(t, Config{Index: 1, Count: 3})
	opened := st.step(Open{Connection: "site-b"})
	spi, old = opened[0].SPI, st.puppets[0]
	heir = old.c.DrawSPI()
	next := ike.NewInitiator(ike.Config{SPI: heir}, &policy.Connection{Name: "site-b"})
	old.onStep = func(p *puppet, _ ike.Event, out *ike.Actions) {
		out.Add(ike.Adopt{SPI: heir, Successor: next, Inherits: inherits})
		p.onStep = nil
	}
	acts := st.step(ForSA{spi, ike.Wake{}})
	if len(acts) != 1 || acts[0].SPI != spi {
		t.Fatalf("actions %+v", acts)
	}
	return st, old, spi, heir
}

// finishes reports whether an event ends the successor: it is the one that got it.
func (st *stage) finishes(spi, heir wire.SPI) bool {
	for _, a := range st.step(ForSA{spi, ike.Lower{Silent: true}}) {
		if _, ok := a.Action.(ike.Finish); ok && a.SPI == heir {
			return true
		}
	}
	return false
}

// A successor is home here, has its own SPI, and gets nothing of its predecessor's before it inherits.
func TestAdoptBeforeInheriting(t *testing.T) {
	st, old, spi, heir := rekeyed(t, false)
	if home(heir, 3, st.c.HashKey) != 1 || st.Len() != 2 {
		t.Errorf("%d machines, the new SPI is at home in %d", st.Len(), home(heir, 3, st.c.HashKey))
	}
	before := len(old.events)
	if st.finishes(spi, heir) || len(old.events) != before+1 {
		t.Error("an event went to a successor that has not inherited")
	}
	if !st.finishes(heir, heir) || st.Len() != 1 {
		t.Error("the successor does not hear what is meant for it")
	}
}

// What concerns the connection or its children follows them; answers go to who asked; and that holds when the predecessor is gone.
func TestAdoptInherits(t *testing.T) {
	for _, gone := range []bool{false, true} {
		st, old, spi, heir := rekeyed(t, true)
		if gone {
			old.finished = true
			st.step(ForSA{spi, ike.JobDone{}})
			if st.Len() != 1 {
				t.Fatalf("%d machines", st.Len())
			}
		} else {
			before := len(old.events)
			for _, ev := range []ike.Event{ike.JobDone{}, ike.SADBDone{}, ike.UsageDone{}, ike.ResolveDone{}, ike.SendFailed{}} {
				st.step(ForSA{spi, ev})
			}
			if len(old.events) != before+5 {
				t.Errorf("the predecessor got %d answers of 5", len(old.events)-before)
			}
		}
		if !st.finishes(spi, heir) {
			t.Errorf("gone %v: the event did not follow the children", gone)
		}
		if len(st.heirs) != 0 {
			t.Errorf("%d names are left", len(st.heirs))
		}
		late := st.Counters()[LateEvent]
		st.step(ForSA{heir, ike.Wake{}})
		st.counted(LateEvent, late+1)
	}
}
