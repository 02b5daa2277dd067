// Package sim is the deterministic simulation: whole gateways in virtual time, from one seed.
//
// A node is what cygnetd is without its goroutines: the production shards, directory, ledger and policy snapshot over xfrmfake, wired as ike/daemon
// wires them. Nodes are joined by links that lose, delay, repeat, reorder and corrupt, and by NATs that rebind. For a while everything goes
// wrong that can, while an adversary forges packets and an operator gives orders; then the faults stop, and what is wanted must come about.
// What must hold always, and what must hold in the end, stands in invariants.go.
//
// There is no goroutine, no clock and no randomness but the seed's: one heap of events, by time and then by number. A seed and a commit give
// the same run each time, so that a failure is replayed by one command.
package sim

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime/debug"
	"time"

	"cygnet/ike"
	"cygnet/test/wiretap"
)

// Options of a run.
type Options struct {
	Seed     uint64
	Impaired bool // each run has a peer that holds keys and lies
	Rekey    bool // in some runs short lifetimes, so that rekeys fall into every phase
	Tap      bool // record all messages and open them: slow, for a failure's diagram
}

// Result of a run.
type Result struct {
	Seed      uint64
	Hash      uint64          // of all that happened, in order
	Events    int             // handled
	Virtual   time.Duration   // that passed
	Kinds     map[string]bool // faults and other circumstances that really occurred
	Lies      map[string]bool // of impaired peers
	Violation *Violation      // nil: all invariants held
	Diagram   string          // with Tap
	Story     []string        // with Tap: reports, commands and faults
}

// epoch is the virtual boot time at which a run begins: not zero, which means "never" in many places.
const epoch = ike.Time(1000 * time.Second)

// maxEvents ends a run that does not get on: a livelock.
const maxEvents = 400_000

// world is one run.
type world struct {
	opt    Options
	rng    *rand.Rand
	now    ike.Time
	queue  queue
	number uint64
	events int
	hash   uint64
	kinds  map[string]bool

	nodes []*node
	conns []*conn
	nats  []*nat
	at    map[netip.Addr]*node // public addresses
	natAt map[netip.Addr]*nat

	weather weather
	narrow  int         // octets of the largest IP datagram with IKE that the links let through; 0: any
	cut     [4]ike.Time // until when a node is cut off
	wild    bool        // the fault period
	calm    bool        // a run without any fault: no packet may be lost
	clean   bool        // nothing goes wrong now, and no packet may be lost
	moved   ike.Time    // when a NAT forgot its mappings under two IKE SAs
	rekeys  bool        // lifetimes are short
	recent  []*packet   // genuine packets, for the adversary
	flooded map[netip.Addr]*flood

	keys  keyring         // of impaired peers
	lies  map[string]bool // that they told
	cells map[string]int  // the next of a table of them

	watch     watch
	tap       *tap
	violation *Violation
}

// Run plays one seed.
func Run(o Options) (r Result) {
	w := &world{
		opt: o, rng: rand.New(rand.NewPCG(o.Seed, 0x6379676e6574)), now: epoch, hash: fnvOffset, kinds: make(map[string]bool), lies: make(map[string]bool), cells: make(map[string]int), keys: keyring{Tap: wiretap.New()},
		at: make(map[netip.Addr]*node), natAt: make(map[netip.Addr]*nat), flooded: make(map[netip.Addr]*flood), watch: newWatch(),
	}
	if o.Tap {
		w.tap = newTap()
	}
	w.guard(w.setUp)
	w.guard(w.play)
	r = Result{Seed: o.Seed, Hash: w.hash, Events: w.events, Virtual: w.now.Sub(epoch), Kinds: w.kinds, Lies: w.lies, Violation: w.violation}
	if w.tap != nil {
		r.Diagram, r.Story = w.tap.diagram(w), w.tap.story
	}
	return r
}

// guard makes a violation of a panic, which no machine may have (the shards do not recover them here).
func (w *world) guard(f func()) {
	if w.violation != nil {
		return
	}
	defer func() {
		if r := recover(); r != nil && r != errStop {
			w.violation = &Violation{Invariant: Panic, At: w.now.Sub(epoch), Text: fmt.Sprintf("%v\n%s", r, debug.Stack())}
		}
	}()
	f()
}

// errStop unwinds a run whose violation is noted.
var errStop = fmt.Errorf("the run is over")

// fail notes the first violation and ends the run.
func (w *world) fail(i Invariant, format string, args ...any) {
	if w.violation == nil {
		w.violation = &Violation{Invariant: i, At: w.now.Sub(epoch), Text: fmt.Sprintf(format, args...)}
	}
	panic(errStop)
}

// event is something that happens at a time.
type event struct {
	at     ike.Time
	number uint64
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
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}

// when has f run at an instant.
func (w *world) when(at ike.Time, f func()) {
	w.number++
	heap.Push(&w.queue, event{max(at, w.now), w.number, f})
}

func (w *world) after(d time.Duration, f func()) { w.when(w.now.Add(d), f) }

// runUntil handles events up to an instant.
func (w *world) runUntil(end ike.Time) {
	for len(w.queue) > 0 && w.queue[0].at <= end {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		if w.events++; w.events > maxEvents {
			w.fail(Panic, "livelock: %d events", w.events)
		}
		w.mix(uint64(e.at), e.number)
		e.run()
	}
	w.now = end
}

// The trace hash is FNV-1a over all that happens.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func (w *world) mix(list ...uint64) {
	for _, n := range list {
		w.hash = (w.hash ^ n) * fnvPrime
		w.hash ^= w.hash >> 32
	}
}

func mixText[T string | []byte](w *world, s T) {
	h := w.hash
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	w.hash = h
}

// Dice.

func (w *world) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

func (w *world) between(lo, hi time.Duration) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(w.rng.Int64N(int64(hi-lo)))
}

func pick[T any](w *world, list ...T) T { return list[w.rng.IntN(len(list))] }

// saw notes that a circumstance occurred in this run.
func (w *world) saw(kind string) { w.kinds[kind] = true }

// entropy is the random reader of the machines.
type entropy struct{ w *world }

func (e entropy) Read(p []byte) (int, error) {
	for i := 0; i < len(p); i += 8 {
		v := e.w.rng.Uint64()
		for j := i; j < min(i+8, len(p)); j++ {
			p[j] = byte(v)
			v >>= 8
		}
	}
	e.w.watch.drawn(p)
	e.w.keys.drawn(p)
	if e.w.tap != nil {
		e.w.tap.drawn(p)
	}
	return len(p), nil
}
