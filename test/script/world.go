package script

import (
	"container/heap"
	"fmt"
	"strings"
	"time"

	"cygnet/ike"
	"cygnet/ike/wire"
	"cygnet/test/wiretap"
)

const (
	epoch      = ike.Time(1000 * time.Second) // not zero, which means "never"
	oneWay     = 10 * time.Millisecond        // from one party to the other
	quiet      = 100 * time.Second            // longer than any pause between two tries of one thing
	patient    = time.Hour                    // of virtual time, for quiet to come
	mostAtOnce = 10_000                       // events of one instant
	noise      = 100 * time.Millisecond       // shorter times are not worth a line
)

// world is one run of a scenario.
type world struct {
	now    ike.Time
	queue  queue
	number int
	atOnce int      // events in this instant
	active ike.Time // when something happened last

	a, b     *party
	children []string // that both configure
	booted   bool
	link     *link
	tap      *wiretap.Tap
	names    *names

	out      strings.Builder
	mute     bool     // nothing is written
	shown    ike.Time // when the last line was written
	lines    []string // written so far, for expect
	failed   []string // of the command that runs
	problems []string
}

func newWorld() *world {
	w := &world{now: epoch, active: epoch, shown: epoch, tap: wiretap.New(), names: newNames(), children: []string{"lan"}}
	w.a, w.b = newParty(w, "a", "192.0.2.1"), newParty(w, "b", "198.51.100.7")
	w.a.peer, w.b.peer = w.b, w.a
	w.link = &link{w: w, seen: make(map[string]bool), answers: make(map[answerID]wire.NotifyType), swapped: make(map[string][]byte)}
	return w
}

func (w *world) parties() []*party { return []*party{w.a, w.b} }

// party by its name.
func (w *world) party(name string) (*party, error) {
	for _, p := range w.parties() {
		if p.name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%q is no party: a or b", name)
}

// problem notes what must not be, whatever a scenario says.
func (w *world) problem(format string, args ...any) {
	w.problems = append(w.problems, fmt.Sprintf(format, args...))
}

// event is something that happens at a time.
type event struct {
	at     ike.Time
	number int
	run    func()
}

// queue is a heap of events by time, then by number.
type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].number < q[j].number
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

// when has f run at an instant.
func (w *world) when(at ike.Time, f func()) {
	w.number++
	heap.Push(&w.queue, event{max(at, w.now), w.number, f})
}

func (w *world) after(d time.Duration, f func()) { w.when(w.now.Add(d), f) }

// soon has f run in this instant, after what is under way.
func (w *world) soon(f func()) { w.when(w.now, f) }

// runUntil handles events up to an instant.
func (w *world) runUntil(end ike.Time) {
	for len(w.queue) > 0 && w.queue[0].at <= end {
		e := heap.Pop(&w.queue).(event)
		if w.atOnce++; e.at > w.now {
			w.atOnce = 0
		}
		if w.atOnce > mostAtOnce {
			w.problem("%d things happen in one instant: a party goes round in circles", mostAtOnce)
			w.queue = nil
			break
		}
		w.now = e.at
		e.run()
	}
	w.now = end
}

// rest runs until nothing has happened for some time: no message, no story, no change of a data plane.
func (w *world) rest() error {
	give := w.now.Add(patient)
	w.active = w.now
	for {
		end := w.active.Add(quiet)
		if len(w.queue) == 0 || w.queue[0].at > end {
			w.runUntil(end)
			w.shown = w.now
			return nil
		}
		if w.queue[0].at > give {
			return fmt.Errorf("something happened again and again for %v: use advance", patient)
		}
		w.runUntil(w.queue[0].at)
	}
}

// show writes a line of what happens.
func (w *world) show(format string, args ...any) {
	w.active = w.now
	gap := w.now.Sub(w.shown)
	w.shown = w.now
	line := w.names.replace(fmt.Sprintf(format, args...))
	w.lines = append(w.lines, line)
	if w.mute {
		return
	}
	if gap >= noise {
		fmt.Fprintf(&w.out, "  (%s later)\n", span(gap))
	}
	fmt.Fprintf(&w.out, "  %s\n", line)
}

// span is a time as a person says it.
func span(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 10*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
