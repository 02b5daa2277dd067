package ike

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// lie: the test itself makes it impossible that both sides agree.
func (n *network) lie() { n.lied = true }

// settled: after faults the two sides agree about what is there, or at least one is gone.
func (n *network) settled() {
	n.t.Helper()
	if !n.lied && n.a.sa != nil && n.b.sa != nil && n.a.finish == nil && n.b.finish == nil && n.a.sa.Established() && n.b.sa.Established() {
		n.paired()
	}
	for _, h := range []*host{n.a, n.b} {
		if h.finish != nil && len(h.plane.sas)+len(h.plane.pols) > 0 {
			n.t.Errorf("%s: finished and holds %d SAs", h.name, len(h.plane.sas))
		}
	}
}

// story of one life with all exchanges, for peers that are impaired in one message.
func (n *network) fullLife() {
	n.a.step(Initiate{})
	n.run(20*time.Second, nil)
	for _, ev := range []struct {
		h  *host
		ev Event
	}{{n.b, RaiseChild{Child: "dmz"}}, {n.a, Lower{Child: "lan"}}, {n.a, RaiseChild{Child: "lan"}}, {n.b, Lower{Child: "dmz"}}, {n.b, Lower{}}} {
		if _, last := ev.ev.(Lower); last {
			n.settled()
		}
		if ev.h.sa != nil && ev.h.finish == nil {
			ev.h.step(ev.ev)
		}
		n.run(20*time.Second, nil)
	}
	n.run(5*time.Minute, nil)
	n.settled()
}

// TestImpairedPeer: a peer with keys omits, doubles or empties each payload of each message of a life, or adds what does not belong. Nothing panics, nothing half
// installed remains.
func TestImpairedPeer(t *testing.T) {
	faults := map[string]func(o *opened, k int) bool{
		"omit": func(o *opened, k int) bool {
			o.ps = slices.Delete(slices.Clone(o.ps), k, k+1)
			return true
		},
		"double": func(o *opened, k int) bool {
			o.ps = slices.Insert(slices.Clone(o.ps), k, o.ps[k])
			return true
		},
		"empty": func(o *opened, k int) bool {
			switch p := o.ps[k].(type) {
			case *wire.SA: // one proposal with nothing known in it
				q := p.Proposals[0]
				q.Transforms = []wire.Transform{{Type: wire.TransformEncr, ID: 999}}
				o.ps[k] = &wire.SA{Proposals: []wire.Proposal{q}}
			case *wire.KE:
				o.ps[k] = &wire.KE{Group: p.Group}
			case *wire.TS:
				o.ps[k] = &wire.TS{Responder: p.Responder, Selectors: []wire.TrafficSelector{{TSType: wire.TSSecLabel, Raw: []byte("label")}}}
			case *wire.Auth:
				o.ps[k] = &wire.Auth{Method: p.Method}
			case *wire.Notify:
				o.ps[k] = &wire.Notify{Kind: p.Kind}
			case *wire.Delete:
				o.ps[k] = &wire.Delete{Protocol: p.Protocol}
			default:
				return false
			}
			return true
		},
		"critical": func(o *opened, k int) bool {
			o.ps = slices.Insert(slices.Clone(o.ps), k, wire.Payload(&wire.Unknown{PayloadType: 199, Critical: true}))
			return true
		},
		"error": func(o *opened, k int) bool {
			o.ps = slices.Insert(slices.Clone(o.ps), k, wire.Payload(wire.NewNotify(wire.NotifyTemporaryFailure, nil)))
			return true
		},
	}
	names := []string{"omit", "double", "empty", "critical", "error"}
	for _, fault := range names {
		for message := range 14 {
			for k := range 10 {
				n := newPair(t, two(""))
				count, done := -1, false
				n.tamper(func(o *opened) bool {
					count++
					if count != message || k >= len(o.ps) {
						return false
					}
					done = true
					if _, ok := o.ps[k].(*wire.Delete); ok && !o.Response() {
						n.lie() // "I deleted nothing"
					}
					return faults[fault](o, k)
				})
				n.fullLife()
				if t.Failed() {
					n.dump()
					t.Fatalf("%s payload %d of message %d", fault, k, message)
				}
				if !done {
					break
				}
			}
		}
	}
}

// TestWeather: lives under random loss, repeats, delays and commands. When the weather clears both sides agree, and when they close nothing is left.
func TestWeather(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { weather(t, seed) })
	}
}

func weather(t *testing.T, seed uint64) {
	s := two("")
	s.seed = seed
	n := newPair(t, s)
	r := rand.New(rand.NewPCG(seed, 1))
	bad := true
	n.hook = func(d datagram) (list []datagram) {
		if !bad {
			return []datagram{d}
		}
		for range r.IntN(3) { // lost, delivered, doubled
			n.after(time.Duration(r.IntN(200))*time.Millisecond, func() { n.deliver(d) })
		}
		if r.IntN(4) == 0 {
			n.after(time.Duration(r.IntN(30))*time.Second, func() { n.deliver(d) })
		}
		return nil
	}
	n.a.step(Initiate{})
	for range 15 {
		n.run(time.Duration(r.IntN(20))*time.Second, nil)
		h := n.a
		if r.IntN(2) == 0 {
			h = n.b
		}
		if h.sa == nil || h.finish != nil {
			continue
		}
		child := []string{"lan", "dmz"}[r.IntN(2)]
		switch r.IntN(3) {
		case 0:
			h.step(Lower{Child: child})
		default:
			h.step(RaiseChild{Child: child})
		}
	}
	bad = false
	n.run(6*time.Minute, nil)
	n.settled()
	for _, h := range []*host{n.a, n.b} {
		if h.sa != nil && h.finish == nil {
			h.step(Lower{})
		}
	}
	n.run(time.Minute, nil)
	n.empty()
	if t.Failed() {
		n.dump()
	}
}
