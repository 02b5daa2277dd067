package daemon

import (
	"sync"
	"sync/atomic"
	"time"

	"cygnet/ike"
	"cygnet/ike/control"
	"cygnet/ike/wire"
)

// news is what happened, for whoever watches: a Report of a machine (or, with SPI 0, of the directory), or the end of a machine.
type news struct {
	at     time.Time
	spi    wire.SPI
	report ike.Report
	finish *ike.Finish
}

func (n news) connection() string {
	if n.finish != nil {
		return n.finish.Connection
	}
	return n.report.Connection
}

// line is the news in the control API's form. The end of a machine is told by the reports before it, so that it has no line.
func (n news) line() (control.Line, bool) {
	if n.finish != nil {
		return control.Line{}, false
	}
	r := n.report
	l := control.Line{
		Time: n.at.Format("2006-01-02T15:04:05.000Z07:00"), Connection: r.Connection, Child: r.Child,
		Code: string(r.Code), Text: r.Text, Detail: r.Detail, Hint: r.Hint,
	}
	if n.spi != 0 {
		l.SPI = spiText(n.spi)
	}
	switch {
	case r.Code.Detail():
		l.Level = control.LevelDetail
	case r.Code.Failure():
		l.Level = control.LevelError
	}
	return l, true
}

// hub hands news to its watchers. It never waits for one.
type hub struct {
	mu       sync.Mutex
	watchers map[*watcher]struct{}
}

// watcher gets the news of one connection, or of all.
type watcher struct {
	hub        *hub
	connection string // empty: all
	news       chan news
	lost       atomic.Uint64
}

const watcherQueue = 1024

func newHub() *hub { return &hub{watchers: make(map[*watcher]struct{})} }

// watch starts to collect; end it with stop.
func (h *hub) watch(connection string) *watcher {
	w := &watcher{hub: h, connection: connection, news: make(chan news, watcherQueue)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers[w] = struct{}{}
	return w
}

func (w *watcher) stop() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	delete(w.hub.watchers, w)
}

func (h *hub) publish(n news) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		if w.connection != "" && w.connection != n.connection() {
			continue
		}
		select {
		case w.news <- n:
		default:
			w.lost.Add(1)
		}
	}
}
