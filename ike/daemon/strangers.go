package daemon

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"cygnet/ike"
)

const (
	strangerWindow = 10 * time.Second
	strangerLines  = 10   // of one code in a window
	strangerCount  = 4096 // addresses that are told apart in a window
)

// strangers keeps those who have proved nothing from filling the log and the queues of watchers: what fails with them is told a few times for each code,
// and then summed up. What succeeds is told always.
type strangers struct {
	mu      sync.Mutex
	windows map[ike.Code]*window
	after   func(time.Duration, func()) // time.AfterFunc but in tests
}

// window is the time in which reports of one code are counted.
type window struct {
	told, more int
	spare      int // reports from addresses past strangerCount
	from       map[netip.Addr]struct{}
}

// pass says whether n may be told. tell gets the sum when the window of the first that may not is over.
func (s *strangers) pass(n news, tell func(news)) bool {
	r := n.report
	if n.finish != nil || !r.From.IsValid() || !r.Code.Failure() && !r.Code.Detail() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.windows[r.Code]
	if w == nil {
		w = s.open(r.Code, tell)
	}
	if w.told < strangerLines {
		w.told++
		return true
	}
	w.more++
	if len(w.from) < strangerCount {
		w.from[r.From] = struct{}{}
	} else if _, known := w.from[r.From]; !known {
		w.spare++
	}
	return false
}

func (s *strangers) open(code ike.Code, tell func(news)) *window {
	if s.windows == nil {
		s.windows = make(map[ike.Code]*window)
	}
	w := &window{from: make(map[netip.Addr]struct{})}
	s.windows[code] = w
	after := s.after
	if after == nil {
		after = func(d time.Duration, f func()) { time.AfterFunc(d, f) }
	}
	after(strangerWindow, func() {
		s.mu.Lock()
		delete(s.windows, code)
		s.mu.Unlock()
		if w.more > 0 {
			tell(news{at: time.Now(), report: ike.Report{Code: code, Text: w.sum(code)}})
		}
	})
	return w
}

// sum is "1523 more like this (no-proposal) in 10 s, from 812 addresses".
func (w *window) sum(code ike.Code) string {
	from := countText(len(w.from), "address")
	switch {
	case w.spare > 0:
		from = fmt.Sprintf("more than %d addresses", len(w.from))
	case len(w.from) != 1:
		from = fmt.Sprintf("%d addresses", len(w.from))
	}
	return fmt.Sprintf("%d more like this (%s) in %.0f s, from %s", w.more, code, strangerWindow.Seconds(), from)
}
