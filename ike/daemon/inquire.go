package daemon

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"cygnet/ike"
	"cygnet/ike/auth"
	"cygnet/ike/fetch"
	"cygnet/ike/wire"
	"cygnet/policy"
)

const (
	inquiryQueue = 64 // handshakes that wait for word of a revocation
	// stapleRetry is how long an OCSP response that could not be had is not asked for again, stapleSpare how long before its end a new one is.
	stapleRetry = 5 * time.Minute
	stapleSpare = time.Hour
)

// inquirer asks about revocations outside the loops, and keeps the OCSP responses of our own certificates.
type inquirer struct {
	fetch *fetch.Fetcher
	queue chan struct{}
	ctx   context.Context
	stop  context.CancelFunc
	warn  func(format string, args ...any)

	mu      sync.Mutex
	staples map[[sha256.Size]byte]*staple
}

// staple is the OCSP response of one certificate of ours.
type staple struct {
	fetch.Staple
	asking bool
	next   time.Time // when to ask again
}

func newInquirer(warn func(format string, args ...any)) *inquirer {
	ctx, stop := context.WithCancel(context.Background())
	return &inquirer{fetch: fetch.New(time.Now), queue: make(chan struct{}, inquiryQueue), ctx: ctx, stop: stop, warn: warn, staples: make(map[[sha256.Size]byte]*staple)}
}

// ask answers once, later, from another goroutine. When too many wait it answers at once that nothing is known: what that means is the connection's
// revocation mode.
func (q *inquirer) ask(a ike.Inquiry, answer func(ike.InquiryDone)) {
	select {
	case q.queue <- struct{}{}:
	default:
		answer(ike.InquiryDone{Token: a.Token})
		return
	}
	go func() {
		defer func() { <-q.queue }()
		found, results := q.fetch.Fetch(q.ctx, a.Sources)
		done := ike.InquiryDone{Token: a.Token, Found: found}
		for _, r := range results {
			if r.Err == nil {
				continue
			}
			done.Failed = append(done.Failed, failure(r))
			if !r.Cached {
				q.warn("no word on the revocation of %s: %s", r.Source.Cert.Subject, failure(r))
			}
		}
		answer(done)
	}()
}

// failure is whom we asked in vain and why, on one line: "http://ocsp.example/ did not answer: connection refused".
func failure(r fetch.Result) string {
	err := r.Err
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	if n := (*net.OpError)(nil); errors.As(err, &n) {
		err = n.Err
	}
	if c := (*os.SyscallError)(nil); errors.As(err, &c) {
		err = c.Err
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	if errors.Is(err, context.DeadlineExceeded) {
		line = fmt.Sprintf("no answer within %s", fetch.Timeout)
	}
	return string(wire.NewText([]byte(r.Source.URL))) + " did not help: " + string(wire.NewText([]byte(line))) // a server chose words of it
}

// staple is a fresh OCSP response for our certificate, or nil; then one is asked for, for the next time.
func (q *inquirer) staple(c *auth.Credential) []byte {
	if len(c.Chain) < 2 { // without its issuer nobody's answer can be judged
		return nil
	}
	id := sha256.Sum256(c.Chain[0].Raw)
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.staples[id]
	if s == nil {
		s = new(staple)
		q.staples[id] = s
	}
	if !s.asking && !now.Before(s.next) {
		if sources := c.Sources(); len(sources) > 0 {
			s.asking = true
			go q.renew(s, c, sources)
		}
	}
	if now.Before(s.Until) {
		return s.Response
	}
	return nil
}

// renew asks for a new response.
func (q *inquirer) renew(s *staple, c *auth.Credential, sources []auth.Source) {
	fresh, err := q.fetch.Fresh(q.ctx, sources, c.Chain[0], c.Chain[1])
	q.mu.Lock()
	defer q.mu.Unlock()
	s.asking, s.next = false, time.Now().Add(stapleRetry)
	if err != nil {
		return
	}
	s.Staple = fresh
	if at := fresh.Until.Add(-stapleSpare); at.After(s.next) {
		s.next = at
	}
}

// warm asks for the responses of all our certificates before the first peer does, and forgets those of certificates that are ours no more.
func (q *inquirer) warm(snap *policy.Snapshot) {
	q.mu.Lock()
	old := q.staples
	q.staples = make(map[[sha256.Size]byte]*staple)
	for _, c := range snap.Connections {
		if own := c.Local.Proof.Credential; own != nil && len(own.Chain) > 0 {
			id := sha256.Sum256(own.Chain[0].Raw)
			if s := old[id]; s != nil {
				q.staples[id] = s
			}
		}
	}
	q.mu.Unlock()
	for _, c := range snap.Connections {
		if own := c.Local.Proof.Credential; own != nil {
			q.staple(own)
		}
	}
}
