package transport

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// refusals remembers the addresses that refused something lately. Of more than it holds, the oldest is forgotten: it is asked again.
type refusals struct {
	some atomic.Bool // as long as there was none, nobody takes the lock
	mu   sync.Mutex
	list [16]refusal
	next int
}

type refusal struct {
	addr  netip.Addr
	until time.Time
}

func (r *refusals) has(a netip.Addr) bool {
	if !r.some.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.list {
		if f := &r.list[i]; f.addr == a {
			return time.Now().Before(f.until)
		}
	}
	return false
}

func (r *refusals) add(a netip.Addr, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.some.Store(true)
	for i := range r.list {
		if f := &r.list[i]; f.addr == a {
			f.until = now.Add(refusalStands)
			return
		}
	}
	r.list[r.next] = refusal{a, now.Add(refusalStands)}
	r.next = (r.next + 1) % len(r.list)
}
