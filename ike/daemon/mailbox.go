package daemon

import "sync"

// mailbox is a queue between goroutines whose sender never waits, so that two loops that write to each other cannot lock up. It has no bound
// of its own: only answers to actions, and what the operator or the data plane says, go through one, and those are bounded where they are made.
// What comes from the network goes through bounded channels instead.
type mailbox[T any] struct {
	mu     sync.Mutex
	list   []T
	signal chan struct{} // holds one token while the list may be non-empty
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{signal: make(chan struct{}, 1)} }

// put appends x.
func (m *mailbox[T]) put(x T) {
	m.mu.Lock()
	m.list = append(m.list, x)
	m.mu.Unlock()
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

// take empties the mailbox into the returned slice; spare, which the caller no longer needs, becomes the next list.
func (m *mailbox[T]) take(spare []T) []T {
	clear(spare)
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.list
	m.list = spare[:0]
	return list
}
