package directory

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"cygnet/ike"
	"cygnet/ike/auth"
	"cygnet/ike/wire"
	"cygnet/policy"
)

func TestTrap_7296_17_InitialContact(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.established(1)
	s.claimed(2, false, true, "1: lower silently") // the peer came back after a crash
	s.status("up", 2)
	s.finished(1, false)
	s.up(2, "lan")
	s.claimed(3, false, true, "2: lower silently") // the same end again, at once
	// Another peer's IKE SA, or another identity of ours, is none of its business.
	other := site("c", policy.StartManual)
	other.Remote.ID = id("gw-c.example")
	mine := site("d", policy.StartManual)
	mine.Local.ID = id("gw-x.example")
	s = newStory(t, other, mine, site("b", policy.StartManual))
	s.do(Claimed{7, ike.Claim{Connection: "c", Peer: id("gw-c.example")}})
	s.do(Claimed{8, ike.Claim{Connection: "d", Peer: id("gw-b.example")}})
	s.claimed(9, false, true)
}

func TestTrap_7296_18_NoInitialContactNoDelete(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	for spi := wire.SPI(1); spi < 5; spi++ { // all started by the peer: which one it gives up is its choice
		s.claimed(spi, false, false)
		s.up(spi, "lan")
		if spi > 1 { // it may have restarted: it is asked, once, whether it still has the one before
			s.wait(duplicateGrace, fmt.Sprintf("%d: probe, carried by another: true", spi-1))
		}
		s.now = s.now.Add(time.Minute)
	}
	s.do(Wake{})
	s.status("down", 1, 2, 3, 4)
}

// Nobody is asked about an IKE SA that has a child alone, that is of another peer, or that we started; nor while the peer may still be about to end it.
func TestDoubtIsForWhatIsReplaced(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	s.claimed(1, false, false)
	s.up(1, "lan")
	s.up(1, "dmz")
	s.claimed(2, false, false)
	s.up(2, "lan")
	s.do(Claimed{3, ike.Claim{Connection: "b", Peer: id("gw-x.example")}})
	s.up(3, "lan")
	s.up(3, "dmz")
	s.now = s.now.Add(time.Minute)
	s.do(Wake{})
	s.up(2, "dmz")
	s.now = s.now.Add(duplicateGrace - 1)
	s.do(Wake{})
	s.finished(1, false)
	s.now = s.now.Add(time.Minute)
	s.do(Wake{})
}

// Both ends say INITIAL_CONTACT in a simultaneous start: neither IKE SA may be dropped silently for it.
func TestSimultaneousInitialContact(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot))
	s.do(Opened{"b", 1})
	s.claimed(1, true, false)
	s.claimed(2, false, true)
	s.status("up", 1, 2)
}

func TestDuplicates(t *testing.T) {
	s := newStory(t, site("b", policy.StartBoot)) // gw-a: what it starts stays
	s.do(Opened{"b", 1})
	s.claimed(1, true, false)
	s.claimed(2, false, false)
	for _, ch := range []string{"lan", "dmz"} {
		s.up(1, ch)
		s.up(2, ch)
	}
	if at, ok := s.Deadline(); !ok || at.Sub(s.now) != strangerGrace {
		t.Errorf("the end whose IKE SA stays plans something for %v, want the time when the other end must have ended its own", at.Sub(s.now))
	}
	// The other end.
	b := site("b", policy.StartBoot)
	b.Local.ID, b.Remote.ID = id("GW-B.example"), id("Gw-a.EXAMPLE")
	s = newStory(t, b)
	s.do(Opened{"b", 1})
	claim := ike.Claim{Connection: "b", Peer: id("gw-A.example"), Initiated: true}
	s.do(Claimed{1, claim})
	claim.Initiated = false
	s.do(Claimed{2, claim})
	for _, ch := range []string{"lan", "dmz"} {
		s.up(1, ch)
	}
	s.up(2, "lan") // dmz is not there yet: SA 1 is still needed
	s.now = s.now.Add(time.Minute)
	s.do(Wake{}, "2: raise dmz") // else both would stay for ever
	s.do(Wake{})
	s.up(2, "dmz") // the other end may not have heard of it yet
	s.wait(duplicateGrace, "1: lower, carried by another")
	s.finished(1, false)
	s.status("up", 2)
}

// A child that was taken down here by name, and that the peer has brought up again, keeps no duplicate alive either.
func TestDuplicateWithWhatThePeerWants(t *testing.T) {
	b := site("b", policy.StartBoot)
	b.Local.ID, b.Remote.ID = b.Remote.ID, b.Local.ID
	claim := ike.Claim{Connection: "b", Peer: b.Remote.ID, Initiated: true}
	s := newStory(t, b)
	s.do(Opened{"b", 1})
	s.do(Claimed{1, claim})
	s.up(1, "lan")
	s.up(1, "dmz")
	s.now = s.now.Add(time.Minute)
	claim.Initiated = false
	s.do(Claimed{2, claim})
	s.up(2, "lan")
	s.do(Down{"b", "dmz"}, "1: lower dmz")
	s.wait(duplicateGrace, "1: lower, carried by another") // it is on its way down, and asked for nowhere
	s = newStory(t, b)
	s.do(Opened{"b", 1})
	claim.Initiated = true
	s.do(Claimed{1, claim})
	s.up(1, "lan")
	s.do(Down{"b", "dmz"})
	s.up(1, "dmz")
	claim.Initiated = false
	s.do(Claimed{2, claim})
	s.up(2, "lan")
	s.wait(raiseGrace, "2: raise dmz")
	s.up(2, "dmz")
	s.wait(duplicateGrace, "1: lower, carried by another")
}

// A peer that does not know the rule keeps both. The later one stays.
func TestDuplicatesOfStranger(t *testing.T) {
	const ours, theirs = 1, 2
	for _, later := range []wire.SPI{ours, theirs} {
		s := newStory(t, site("b", policy.StartBoot)) // gw-a: what it starts stays
		s.do(Opened{"b", ours})
		s.claimed(3-later, later == theirs, false)
		s.now = s.now.Add(time.Second)
		s.claimed(later, later == ours, false)
		s.up(ours, "lan")
		s.up(ours, "dmz")
		s.up(theirs, "lan")
		s.now = s.now.Add(2 * strangerGrace)
		s.do(Wake{})        // they do not carry the same yet
		s.up(theirs, "dmz") // from now on the other end may be expected to end its own
		s.wait(strangerGrace, fmt.Sprintf("%d: lower, carried by another", 3-later))
		s.finished(3-later, false)
		s.status("up", later)
		if at, ok := s.Deadline(); ok {
			t.Errorf("something is planned for %v", at.Sub(s.now))
		}
	}
}

// An attempt that the rule would give up anyway ends when the peer's IKE SA is there.
func TestAttemptIsCancelled(t *testing.T) {
	b := site("b", policy.StartBoot)
	b.Local.ID, b.Remote.ID = b.Remote.ID, b.Local.ID
	claim := ike.Claim{Connection: "b", Peer: b.Remote.ID}
	s := newStory(t, b)
	s.do(Opened{"b", 1})
	s.do(Claimed{2, claim}, "1: lower")
	claim.Initiated = true
	s.do(Claimed{1, claim}) // it got through before it heard
	s.finished(1, false)
	s.status("up", 2)
	// One that would stay ends too when it has taken long: its INITIAL_CONTACT would end an IKE SA that the peer counts on.
	s = newStory(t, site("b", policy.StartBoot))
	s.do(Opened{"b", 1})
	s.now = s.now.Add(simultaneous)
	s.claimed(2, false, false, "1: lower")
}

func TestInitialContactIsTrue(t *testing.T) {
	other := site("c", policy.StartManual)
	s := newStory(t, other, site("b", policy.StartBoot))
	s.do(Opened{"b", 1})
	s.do(Up{"c", nil}, "start c not alone") // the same two identities
	s.do(Opened{"c", 2})
	s.do(Down{"c", ""}, "c closed: true", "2: lower")
	s.finished(1, true, "report retry")
	s.wait(time.Second, "start b not alone")
	s.do(Finished{2, ike.Finish{Connection: "c"}})
	s.do(Opened{"b", 3})
	s.finished(3, true, "report retry")
	s.wait(2*time.Second, "start b")
	anyone := site("b", policy.StartBoot)
	anyone.Remote.ID = auth.Identity{}
	newStory(t).do(load(anyone), blocks, "start b not alone")
}

// TestDownHolds: what the operator took down does not come back because the peer wants it, until the operator wants it too.
func TestDownHolds(t *testing.T) {
	for _, start := range []policy.Start{policy.StartBoot, policy.StartManual} {
		b := site("b", start)
		b.Drop = false
		s := newStory(t, b)
		if start == policy.StartManual {
			s.do(Up{"b", nil}, "start b")
		}
		s.established(1)
		s.do(Down{"b", ""}, "b closed: true", "1: lower")
		s.do(Finished{1, ike.Finish{Connection: "b", Code: ike.CodeClosed}})
		s.claimed(2, false, false, "report turned-away", "2: lower")
		s.status("down")
		if st := s.only(); st.Refused != (Note{s.now, "gw-b.example asks for it, but it was taken down here; to let it in: ikectl up b"}) || st.NextTry != 0 || !st.Closed {
			t.Errorf("%s: %+v", start, st)
		}
		s.do(Finished{2, ike.Finish{Connection: "b", Code: ike.CodeClosed}})
		s.do(Up{"b", nil}, "b closed: false", "start b")
		s.claimed(3, false, false)
		s.status("up", 3)
	}
	// A peer that may come from anywhere cannot be called: up lets it in again, and no more.
	anywhere := site("b", policy.StartManual)
	anywhere.Remote.Address = netip.Addr{}
	s := newStory(t, anywhere)
	s.do(Down{"b", ""}, "b closed: true")
	s.claimed(1, false, false, "report turned-away", "1: lower")
	s.do(Finished{1, ike.Finish{Connection: "b", Code: ike.CodeClosed}})
	s.do(Up{"b", nil}, "b closed: false", "report no-address")
	s.claimed(2, false, false)
	s.status("down", 2)
}

func TestOwnOlderDuplicateGoes(t *testing.T) {
	s := newStory(t, site("b", policy.StartManual))
	for spi := wire.SPI(1); spi <= 2; spi++ {
		s.claimed(spi, true, false)
		s.up(spi, "lan")
	}
	s.wait(duplicateGrace, "1: lower, carried by another")
}

func TestEqualIdentitiesKeepBoth(t *testing.T) {
	c := site("b", policy.StartManual)
	c.Local.ID = c.Remote.ID
	s := newStory(t, c)
	s.claimed(1, true, false)
	s.claimed(2, false, false)
	s.up(1, "lan")
	s.up(2, "lan")
	s.now = s.now.Add(time.Hour)
	s.do(Wake{})
	s.status("down", 1, 2)
}

// world is two gateways whose machines do nothing but exist: what one end opens appears at the other after a delay, and goes there
// when its end lowers it.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	now    ike.Time
	end    [2]*Directory
	queue  []delivery
	lines  []line
	silent bool // the link loses everything
	max    time.Duration
}

// line is an IKE SA with its name at each end.
type line struct {
	starter int
	spi     [2]wire.SPI
	here    [2]bool
	gone    bool
}

type delivery struct {
	at  ike.Time
	seq int
	do  func()
}

func (w *world) later(max time.Duration, do func()) {
	d := delivery{w.now.Add(time.Duration(w.rng.Int64N(int64(max) + 1))), len(w.queue), do}
	w.queue = append(w.queue, d)
}

func (w *world) step(end int, ev Event) {
	var out []Action
	w.end[end].Step(w.now, ev, &out)
	for _, a := range out {
		switch a := a.(type) {
		case Start:
			w.open(end)
		case Tell:
			if _, ok := a.Event.(ike.Lower); ok {
				w.lower(end, a.SPI)
			}
		}
	}
}

func (w *world) open(end int) {
	n := len(w.lines)
	w.lines = append(w.lines, line{starter: end, spi: [2]wire.SPI{wire.SPI(2*n + 1), wire.SPI(2*n + 2)}})
	w.step(end, Opened{"b", w.lines[n].spi[end]})
	if w.silent {
		w.later(w.max, func() { w.finish(n, end, true) })
		return
	}
	w.later(w.max, func() { w.appear(n, 1-end) })
}

// appear: the responder has the IKE SA and its children, the initiator will hear of it.
func (w *world) appear(n, end int) {
	l := w.lines[n]
	if l.gone || l.here[end] {
		return
	}
	c := w.end[end].find("b")
	if c == nil { // not loaded yet: no answer
		w.later(w.max, func() { w.finish(n, l.starter, true) })
		return
	}
	w.lines[n].here[end] = true
	w.step(end, Claimed{l.spi[end], ike.Claim{Connection: "b", Peer: c.Remote.ID, Initiated: l.starter == end}})
	for _, ch := range []string{"lan", "dmz"} {
		if !w.lines[n].gone {
			w.step(end, ChildUp{l.spi[end], "b", ch})
		}
	}
	if end != w.lines[n].starter {
		w.later(w.max, func() { w.appear(n, 1-end) })
	}
}

// lower: the other end is told by a Delete.
func (w *world) lower(end int, spi wire.SPI) {
	n := int(spi-1) / 2
	w.lines[n].gone = true
	w.later(0, func() { w.finish(n, end, false) })
	w.later(w.max, func() { w.finish(n, 1-end, true) })
}

func (w *world) finish(n, end int, retry bool) {
	w.lines[n].gone, w.lines[n].here[end] = true, false
	w.step(end, Finished{w.lines[n].spi[end], ike.Finish{Connection: "b", Code: ike.CodeClosed, Text: "closed", Retry: retry}})
}

// run lets time pass until both ends rest.
func (w *world) run(until ike.Time) {
	for {
		next, who := until, -1
		slices.SortFunc(w.queue, func(a, b delivery) int { return int(a.at-b.at)*2 + min(max(a.seq-b.seq, -1), 1) })
		if len(w.queue) > 0 && !next.Before(w.queue[0].at) {
			next, who = w.queue[0].at, 2
		}
		for end := range w.end {
			if at, ok := w.end[end].Deadline(); ok && at.Before(next) {
				next, who = max(at, w.now), end
			}
		}
		w.now = next
		switch who {
		case -1:
			return
		case 2:
			do := w.queue[0].do
			w.queue = w.queue[1:]
			do()
		default:
			w.step(who, Wake{})
		}
	}
}

func (w *world) live() (list []int) {
	for n, l := range w.lines {
		if l.here[0] && l.here[1] && !l.gone {
			list = append(list, n)
		}
	}
	return list
}

// Whatever the order of events, two ends that both start end with exactly one IKE SA, and it is the same one.
func TestBothEndsAgree(t *testing.T) {
	for seed := range uint64(400) {
		w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: ike.Time(time.Hour), max: time.Second}
		a, b := site("b", policy.StartBoot), site("b", policy.StartBoot)
		b.Local.ID, b.Remote.ID = a.Remote.ID, a.Local.ID
		for end, c := range []*policy.Connection{a, b} {
			w.end[end] = New(rand.NewChaCha8([32]byte{byte(seed), byte(end)}))
			w.later(2*time.Second, func() { w.step(end, load(c)) })
		}
		w.run(w.now.Add(5 * time.Minute))
		if live := w.live(); len(live) != 1 {
			t.Fatalf("seed %d: live %v of %+v", seed, live, w.lines)
		}
		// One end loses its state: the other's machines find the peer dead.
		w.silent = true
		for n := range w.lines {
			for end := range 2 {
				if w.lines[n].here[end] {
					w.finish(n, end, true)
				}
			}
		}
		w.run(w.now.Add(5 * time.Minute))
		w.silent = false
		w.run(w.now.Add(5 * time.Minute))
		if live := w.live(); len(live) != 1 {
			t.Fatalf("seed %d: after an outage live %v", seed, live)
		}
		for end := range w.end {
			if s := w.end[end].Status()[0]; len(s.Serving) != 1 || s.LastErr.Text != "" {
				t.Fatalf("seed %d: %s", seed, fmt.Sprintf("end %d: %+v", end, s))
			}
		}
	}
}
