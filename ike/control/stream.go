package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

const (
	queueLines   = 256              // lines of a stream that wait for a slow client
	writeTimeout = 10 * time.Second // for one line
)

// TimeLayout of Line.Time: RFC 3339 with milliseconds.
const TimeLayout = "2006-01-02T15:04:05.000Z07:00"

// stream carries lines to one client through a bounded queue, so that a client that does not read cannot hold up the daemon.
// emit and finish are called by the goroutine of the request; a second goroutine writes.
type stream struct {
	ctx   context.Context
	queue chan Line
	lost  int // lines dropped since the last one that was queued
	ended chan struct{}
}

// openStream answers with the header and starts the writer. cancel is called when the client is gone.
func openStream(ctx context.Context, cancel context.CancelFunc, w http.ResponseWriter) *stream {
	s := &stream{ctx: ctx, queue: make(chan Line, queueLines), ended: make(chan struct{})}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
	go s.write(cancel, w)
	return s
}

// emit queues a line or, when the queue is full, counts it as lost. It fails when the client is gone.
func (s *stream) emit(l Line) error {
	if err := s.ctx.Err(); err != nil {
		return fmt.Errorf("client is gone: %w", err)
	}
	if s.lost > 0 {
		select {
		case s.queue <- s.gap():
			s.lost = 0
		default:
			s.lost++
			return nil
		}
	}
	select {
	case s.queue <- stamped(l):
	default:
		s.lost++
	}
	return nil
}

// finish sends the last line, waiting for room, and returns when the writer is done.
func (s *stream) finish(l Line) {
	if s.lost > 0 {
		s.queue <- s.gap() // the writer drains the queue even when the client is gone
	}
	s.queue <- stamped(l)
	close(s.queue)
	<-s.ended
}

func (s *stream) gap() Line {
	return stamped(Line{Code: CodeGap, Text: fmt.Sprintf("%d lines were lost here: they came faster than they were read", s.lost)})
}

func stamped(l Line) Line {
	if l.Time == "" {
		l.Time = time.Now().Format(TimeLayout)
	}
	return l
}

// write sends each line by itself. After an error it only drains.
func (s *stream) write(cancel context.CancelFunc, w http.ResponseWriter) {
	defer close(s.ended)
	rc := http.NewResponseController(w)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	err := rc.Flush()
	for l := range s.queue {
		if err != nil {
			continue
		}
		rc.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err = enc.Encode(l); err == nil {
			err = rc.Flush()
		}
		if err != nil {
			cancel()
		}
	}
}
