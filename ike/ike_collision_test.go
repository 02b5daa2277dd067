package ike

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cygnet/ike/wire"
)

// side is a and b by name.
func (n *network) side(name string) *host {
	if name == "a" {
		return n.a
	}
	return n.b
}

// collisions are things that two sides begin so close together that their packets cross. children is what is there in the end; 0: nothing is, and no
// IKE SA either.
var collisions = []struct {
	name     string
	a, b     []Event
	children int
}{
	{"rekey", []Event{Rekey{IKE: true}}, nil, 1},
	{"rekey by the responder", nil, []Event{Rekey{IKE: true}}, 1},
	{"rekey x rekey", []Event{Rekey{IKE: true}}, []Event{Rekey{IKE: true}}, 1},
	{"rekey x create", []Event{Rekey{IKE: true}}, []Event{RaiseChild{Child: "dmz"}}, 2},
	{"create x rekey", []Event{RaiseChild{Child: "dmz"}}, []Event{Rekey{IKE: true}}, 2},
	{"rekey x create from one side", []Event{RaiseChild{Child: "dmz"}, Rekey{IKE: true}}, nil, 2},
	{"rekey x create behind it", []Event{Rekey{IKE: true}, RaiseChild{Child: "dmz"}}, nil, 2},
	{"rekey x child rekey", []Event{Rekey{IKE: true}}, []Event{Rekey{Child: "lan"}}, 1},
	{"child rekey x rekey", []Event{Rekey{Child: "lan"}}, []Event{Rekey{IKE: true}}, 1},
	{"both x both", []Event{Rekey{IKE: true}, Rekey{Child: "lan"}}, []Event{Rekey{Child: "lan"}, Rekey{IKE: true}}, 1},
	{"rekey x child delete", []Event{Rekey{IKE: true}}, []Event{Lower{Child: "lan"}}, -1},
	{"child delete x rekey", []Event{Lower{Child: "lan"}}, []Event{Rekey{IKE: true}}, -1},
	{"rekey x child delete behind it", []Event{Rekey{IKE: true}, Lower{Child: "lan"}}, nil, -1},
	{"rekey x rekey x delete", []Event{Rekey{IKE: true}}, []Event{Rekey{IKE: true}, Lower{Child: "lan"}}, -1},
	{"rekey x delete", []Event{Rekey{IKE: true}}, []Event{Lower{}}, 0},
	{"delete x rekey", []Event{Lower{}}, []Event{Rekey{IKE: true}}, 0},
	{"rekey x delete behind it", []Event{Rekey{IKE: true}, Lower{}}, nil, 0},
	{"rekey x rekey x delete behind", []Event{Rekey{IKE: true}, Lower{}}, []Event{Rekey{IKE: true}}, 0},
}

// TestIKECollisions: whatever collides with a rekey of the IKE SA, and whichever of its packets is lost, late or repeated: in the end there is one IKE SA at
// both ends and each child once.
func TestIKECollisions(t *testing.T) {
	for _, c := range collisions {
		for _, fault := range []string{"none", "lose", "late", "double", "swap"} {
			for i := range 12 {
				if fault == "none" && i >= 4 || testing.Short() && i >= 5 {
					break
				}
				t.Run(fmt.Sprintf("%s/%s/%d", strings.ReplaceAll(c.name, " ", "_"), fault, i), func(t *testing.T) {
					collide(t, c.a, c.b, c.children, fault, uint64(i), i)
				})
			}
		}
	}
}

// TestIKECollisionsTwice loses two packets of each.
func TestIKECollisionsTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("TestIKECollisions says most of it")
	}
	for _, c := range collisions {
		for i := range 8 {
			for j := range i {
				t.Run(fmt.Sprintf("%s/%d,%d", strings.ReplaceAll(c.name, " ", "_"), j, i), func(t *testing.T) {
					collide(t, c.a, c.b, c.children, "lose", uint64(i), i, j)
				})
			}
		}
	}
}

func collide(t *testing.T, a, b []Event, children int, fault string, seed uint64, faults ...int) {
	s := two("")
	s.seed = seed // other nonces: either side's is the lowest at times
	n := newPair(t, s)
	n.a.step(Initiate{Children: []string{"lan"}})
	if !n.run(time.Minute, func() bool { return n.a.children() == 1 && n.b.children() == 1 }) {
		t.Fatal("not up")
	}
	count := -1
	n.hook = func(d datagram) []datagram {
		count++
		if !slices.Contains(faults, count) {
			return []datagram{d}
		}
		delay := 25 * time.Millisecond
		switch fault {
		case "none":
			return []datagram{d}
		case "lose":
			return nil
		case "double":
			n.after(400*time.Millisecond, func() { n.deliver(d) })
			return []datagram{d}
		case "late":
			delay = 9 * time.Second
		}
		n.after(delay, func() { n.deliver(d) })
		return nil
	}
	for i := range max(len(a), len(b)) {
		if i < len(a) {
			n.a.step(a[i])
		}
		if i < len(b) {
			n.b.step(b[i])
		}
	}
	n.run(8*time.Minute, nil)
	switch {
	case children > 0:
		n.one(children)
	case children < 0:
		n.one(0)
	default:
		if n.a.finish == nil || n.b.finish == nil || len(n.a.others)+len(n.b.others) > 0 {
			n.dump()
			t.Fatalf("a %v and %d further, b %v and %d further", n.a.finish, len(n.a.others), n.b.finish, len(n.b.others))
		}
		n.empty()
	}
	if t.Failed() {
		n.dump()
	}
}

var _ = wire.NotifyRekeySA
