package daemon

import (
	"runtime"
	"sync"
	"sync/atomic"

	"cygnet/ike"
)

// jobBounds are the queue lengths of the classes, in the order of ike.JobClass. A job past its bound is dropped: its machine hears so when its
// IKE SA is up, else runs into its deadline, and the peer asks again. INIT is short, so that a flood waits in nobody's way; one second's work of
// one core is about 2000.
var jobBounds = [...]int{ike.JobEstablished: 8192, ike.JobAuth: 2048, ike.JobInit: 512}

// job is an ike.Job on its way, with where the result goes.
type job struct {
	run  func() any
	done func(any)
}

// pool runs jobs on a fixed number of goroutines. Classes are served strictly in order: established IKE SAs first, then those that
// authenticate, then new ones.
type pool struct {
	mu      sync.Mutex
	ready   *sync.Cond
	queues  [len(jobBounds)][]job
	closed  bool
	workers sync.WaitGroup
	dropped [len(jobBounds)]atomic.Uint64

	full     bool       // the INIT class was full and has not become short since
	pressure func(bool) // hears it; must not block
}

// newPool starts the workers. pressure is told when the class of new IKE SAs is full, and when it is short again.
func newPool(pressure func(full bool)) *pool {
	p := &pool{pressure: pressure}
	p.ready = sync.NewCond(&p.mu)
	for range poolWorkers() {
		p.workers.Go(p.work)
	}
	return p
}

// poolWorkers: one would let a slow job of a low class hold up all others.
func poolWorkers() int { return max(2, runtime.GOMAXPROCS(0)) }

// add queues a job and reports whether there was room.
func (p *pool) add(class ike.JobClass, j job) bool {
	if int(class) >= len(p.queues) {
		class = ike.JobInit
	}
	p.mu.Lock()
	if p.closed || len(p.queues[class]) >= jobBounds[class] {
		p.mu.Unlock()
		p.dropped[class].Add(1)
		return false
	}
	p.queues[class] = append(p.queues[class], j)
	p.press()
	p.mu.Unlock()
	p.ready.Signal()
	return true
}

func (p *pool) work() {
	for {
		j, ok := p.next()
		if !ok {
			return
		}
		j.done(runJob(j.run))
	}
}

// jobPanic is the result of a job that panicked: the machine, which does not know the type, treats it as a failure.
type jobPanic struct{ reason any }

// runJob keeps a panic in a computation over the peer's numbers from ending the daemon.
func runJob(run func() any) (result any) {
	defer func() {
		if r := recover(); r != nil {
			result = jobPanic{r}
		}
	}()
	return run()
}

// next waits for the first job of the first class that has one.
func (p *pool) next() (job, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for i, q := range p.queues {
			if len(q) > 0 {
				j := q[0]
				q[0] = job{}
				p.queues[i] = q[1:]
				p.press()
				return j, true
			}
		}
		if p.closed {
			return job{}, false
		}
		p.ready.Wait()
	}
}

// press reports a change of pressure: full at three quarters of the bound, relieved at one quarter. The lock is held, so that reports come in order.
func (p *pool) press() {
	n, bound := len(p.queues[ike.JobInit]), jobBounds[ike.JobInit]
	switch {
	case !p.full && n >= bound*3/4:
		p.full = true
		p.pressure(true)
	case p.full && n <= bound/4:
		p.full = false
		p.pressure(false)
	}
}

// close lets the workers end after what is queued.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.ready.Broadcast()
	p.workers.Wait()
}
