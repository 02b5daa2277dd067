package userspace

import (
	"sync"

	"cygnet/xfrm"
)

// eventQueue is how many events wait for the reader.
const eventQueue = 1024

// events is a bounded queue that never blocks its writers: what does not fit is lost, and one Gap follows as soon as there is room.
type events struct {
	c    chan xfrm.Event
	done chan struct{}

	mu     sync.Mutex
	closed bool
	gap    bool // a Gap waits for room
	wait   sync.WaitGroup
}

func newEvents() *events {
	return &events{c: make(chan xfrm.Event, eventQueue), done: make(chan struct{})}
}

func (e *events) raise(ev xfrm.Event) {
	if ev == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.gap {
		return // after a loss the reader looks at everything anyway
	}
	select {
	case e.c <- ev:
	default:
		e.gap = true
		e.wait.Go(e.sendGap)
	}
}

func (e *events) sendGap() {
	select {
	case e.c <- xfrm.Gap{}:
		e.mu.Lock()
		e.gap = false
		e.mu.Unlock()
	case <-e.done:
	}
}

func (e *events) close() {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return
	}
	e.closed = true
	e.mu.Unlock()
	close(e.done)
	e.wait.Wait()
	close(e.c)
}
