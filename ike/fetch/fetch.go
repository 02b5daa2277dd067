// Package fetch asks on the network whether certificates are revoked: OCSP (RFC 6960 appendix A) and CRLs (RFC 5280 section 4.2.1.13), over HTTP. It is
// the only code that dials out at the word of a certificate, so it does so only for chains that were verified to a configured CA, never to this host or
// its link, follows no redirect and no proxy of the environment, and keeps what it heard. What it brings is not trusted: signatures and dates are
// judged by ike/auth.
package fetch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"cygnet/ike/auth"
)

// Bounds of an inquiry.
const (
	Timeout  = 5 * time.Second // of one inquiry, connection and all
	maxOCSP  = 2 << 20         // octets of a response
	maxCRL   = 16 << 20
	atOnce   = 4                // connections
	maxKept  = 256              // answers
	maxHeld  = 64 << 20         // octets of them
	keptGood = 10 * time.Minute // an answer is not asked for again; what it says may end earlier, which ike/auth sees
	keptBad  = time.Minute      // nor is one that could not be had
)

// Result is what became of one source.
type Result struct {
	Source auth.Source
	Err    error // nil: it answered
	Cached bool
}

// Fetcher asks and remembers. It is safe for concurrent use.
type Fetcher struct {
	now    func() time.Time
	client *http.Client
	slots  chan struct{}

	mu   sync.Mutex
	kept map[key]answer
	held int // octets of what is kept
}

type key [sha256.Size]byte

type answer struct {
	until time.Time
	body  []byte
	err   error
}

// New makes a Fetcher whose memory goes by now.
func New(now func() time.Time) *Fetcher {
	f := &Fetcher{now: now, slots: make(chan struct{}, atOnce), kept: make(map[key]answer)}
	dialer := &net.Dialer{Timeout: Timeout, Control: func(_, address string, _ syscall.RawConn) error { return allowed(address, ownAddresses) }}
	f.client = &http.Client{
		Timeout:       Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("it redirects, which is not followed") },
		Transport:     &http.Transport{Proxy: nil, DialContext: dialer.DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: 16 << 10},
	}
	return f
}

// Fetch asks all sources, at most for Timeout, and returns what came, with what became of each.
func (f *Fetcher) Fetch(ctx context.Context, sources []auth.Source) (found auth.Revocations, results []Result) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	results = make([]Result, len(sources))
	bodies := make([][]byte, len(sources))
	var wg sync.WaitGroup
	for i, s := range sources {
		wg.Go(func() {
			body, cached, err := f.one(ctx, s)
			bodies[i], results[i] = body, Result{s, err, cached}
		})
	}
	wg.Wait()
	for i, s := range sources {
		switch {
		case results[i].Err != nil:
		case s.Kind == auth.SourceOCSP:
			found.OCSP = append(found.OCSP, bodies[i])
		default:
			list, err := auth.ParseCRLs(bodies[i])
			results[i].Err = err
			found.CRLs = append(found.CRLs, list...)
		}
	}
	return found, results
}

// read says why an answer is none.
func read(s auth.Source, body []byte) error {
	if s.Kind == auth.SourceOCSP {
		return auth.CheckOCSP(body)
	}
	_, err := auth.ParseCRLs(body)
	return err
}

func keyOf(s auth.Source) key {
	h := sha256.New()
	fmt.Fprintf(h, "%d %q\n", s.Kind, s.URL)
	h.Write(s.Request)
	return key(h.Sum(nil))
}

// one answers from memory or from the network.
func (f *Fetcher) one(ctx context.Context, s auth.Source) (body []byte, cached bool, err error) {
	k := keyOf(s)
	f.mu.Lock()
	a, ok := f.kept[k]
	f.mu.Unlock()
	if ok && f.now().Before(a.until) {
		return a.body, true, a.err
	}
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
	case <-ctx.Done():
		return nil, false, errors.New("too many others are being asked")
	}
	body, err = f.ask(ctx, s)
	if err == nil {
		err = read(s, body)
	}
	life := keptGood
	if err != nil { // also of who does not want to answer now, or of somebody on the way
		life, body = keptBad, nil
	}
	f.keep(k, answer{f.now().Add(life), body, err})
	return body, false, err
}

// keep remembers an answer. When there are too many, those that are over go, and then any other.
func (f *Fetcher) keep(k key, a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(k)
	full := func() bool { return len(f.kept) >= maxKept || f.held+len(a.body) > maxHeld }
	if now := f.now(); full() {
		for o, b := range f.kept {
			if !now.Before(b.until) {
				f.drop(o)
			}
		}
	}
	for o := range f.kept {
		if !full() {
			break
		}
		f.drop(o)
	}
	f.kept[k] = a
	f.held += len(a.body)
}

func (f *Fetcher) drop(k key) {
	f.held -= len(f.kept[k].body)
	delete(f.kept, k)
}

// ask goes to the network.
func (f *Fetcher) ask(ctx context.Context, s auth.Source) ([]byte, error) {
	method, limit, body := http.MethodGet, int64(maxCRL), io.Reader(nil)
	if s.Kind == auth.SourceOCSP {
		method, limit, body = http.MethodPost, maxOCSP, bytes.NewReader(s.Request)
	}
	q, err := http.NewRequestWithContext(ctx, method, s.URL, body)
	if err != nil {
		return nil, err
	}
	if q.URL.Scheme != "http" { // the answer is signed; TLS would need a check of its own certificates first
		return nil, fmt.Errorf("by %s nobody is asked, only by http", q.URL.Scheme)
	}
	if s.Kind == auth.SourceOCSP {
		q.Header.Set("Content-Type", "application/ocsp-request")
	}
	q.Header.Set("User-Agent", "cygnet")
	r, err := f.client.Do(q)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", r.Status)
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("it sends more than %d octets", limit)
	}
	return data, nil
}

// Staple keeps an OCSP response for one of our own certificates, for RFC 4806. A zero Staple has none.
type Staple struct {
	Response []byte
	Until    time.Time
}

// Fresh asks for a Staple. cert is ours, issuer its CA.
func (f *Fetcher) Fresh(ctx context.Context, sources []auth.Source, cert, issuer *x509.Certificate) (Staple, error) {
	found, results := f.Fetch(ctx, sources)
	err := errors.New("nobody is named to ask")
	for _, r := range results {
		if r.Err != nil {
			err = r.Err
		}
	}
	for _, body := range found.OCSP {
		until, wrong := auth.OCSPFresh(body, cert, issuer, f.now())
		if wrong == nil {
			return Staple{body, until}, nil
		}
		err = wrong
	}
	return Staple{}, err
}
