package fetch

import (
	"context"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cygnet/ike/auth"
)

// local is a Fetcher that may dial this host, where the servers of tests are.
func local(now func() time.Time) *Fetcher {
	f := New(now)
	f.client.Transport = &http.Transport{DisableKeepAlives: true}
	return f
}

// TestThisHostIsNotAsked: by a real dial.
func TestThisHostIsNotAsked(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	_, results := New(time.Now).Fetch(context.Background(), []auth.Source{{Kind: auth.SourceCRL, URL: s.URL}})
	if results[0].Err == nil || !strings.Contains(results[0].Err.Error(), "is one of this host") {
		t.Errorf("%v", results[0].Err)
	}
}

// TestRefusals: what is not taken, and in which words.
func TestRefusals(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/moved", func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, "/crl", http.StatusFound) })
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		for block := make([]byte, 1<<20); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/later", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte{0x30, 3, 0x0a, 1, 3}) })
	mux.HandleFunc("/rubbish", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("rubbish")) })
	s := httptest.NewServer(mux)
	defer s.Close()
	for _, c := range []struct {
		kind auth.SourceKind
		url  string
		want string
	}{
		{auth.SourceCRL, s.URL + "/none", "it answers 404 Not Found"},
		{auth.SourceCRL, s.URL + "/moved", "it redirects, which is not followed"},
		{auth.SourceOCSP, s.URL + "/big", "it sends more than 2097152 octets"},
		{auth.SourceCRL, s.URL + "/rubbish", "CRL"},
		{auth.SourceOCSP, s.URL + "/rubbish", "the OCSP response cannot be read"},
		{auth.SourceOCSP, s.URL + "/later", "the OCSP responder did not answer: try later"},
		{auth.SourceCRL, "https" + strings.TrimPrefix(s.URL, "http"), "by https nobody is asked"},
		{auth.SourceCRL, "file:///etc/hostname", "by file nobody is asked"},
	} {
		found, results := local(time.Now).Fetch(context.Background(), []auth.Source{{Kind: c.kind, URL: c.url}})
		if err := results[0].Err; err == nil || !strings.Contains(err.Error(), c.want) || len(found.CRLs)+len(found.OCSP) > 0 {
			t.Errorf("%s: %v, wanted %q", c.url, err, c.want)
		}
	}
}

// TestAnswersAreKept: for their time, failures for less; different requests to one URL are different questions.
func TestAnswersAreKept(t *testing.T) {
	asked, works := 0, true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked++
		if q.Method != http.MethodPost || q.Header.Get("Content-Type") != "application/ocsp-request" {
			t.Errorf("asked by %s, %v", q.Method, q.Header)
		}
		if !works {
			w.Write([]byte{0x30, 3, 0x0a, 1, 3}) // try later
			return
		}
		w.Write(answering)
	}))
	defer s.Close()
	now := time.Unix(1e9, 0)
	f := local(func() time.Time { return now })
	ask := func(request string, wantAsked int, wantErr bool) {
		t.Helper()
		_, r := f.Fetch(context.Background(), []auth.Source{{Kind: auth.SourceOCSP, URL: s.URL, Request: []byte(request)}})
		if asked != wantAsked || (r[0].Err != nil) != wantErr {
			t.Errorf("asked %d times, wanted %d; %v", asked, wantAsked, r[0].Err)
		}
	}
	ask("a", 1, false)
	ask("a", 1, false)
	ask("b", 2, false)
	works = false
	now = now.Add(keptGood)
	ask("a", 3, true)
	ask("a", 3, true)
	works = true
	now = now.Add(keptBad)
	ask("a", 4, false)
}

// TestMemoryIsBounded: in answers and in octets; what is asked last is there.
func TestMemoryIsBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	f := New(func() time.Time { return now })
	for n, size := range []int{maxCRL, maxCRL, maxCRL, maxCRL, maxCRL, 1, 0, maxCRL} {
		k := key{byte(n)}
		for range 2 { // again: it takes the place of what was there
			f.keep(k, answer{now.Add(keptGood), make([]byte, size), nil})
		}
		held := 0
		for _, a := range f.kept {
			held += len(a.body)
		}
		if _, ok := f.kept[k]; !ok || held > maxHeld || held != f.held {
			t.Errorf("after %d: %d octets held, %d counted, there %v", n, held, f.held, ok)
		}
	}
	for n := range 2 * maxKept {
		f.keep(key{1, byte(n), byte(n >> 8)}, answer{until: now})
	}
	if len(f.kept) > maxKept {
		t.Errorf("%d answers", len(f.kept))
	}
}

// answering is an OCSP response in form, of nobody and about nothing.
var answering = func() []byte {
	basic, err := asn1.Marshal(struct {
		Data struct {
			Responder asn1.RawValue
			At        time.Time `asn1:"generalized"`
			List      []asn1.RawValue
		}
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{Data: struct {
		Responder asn1.RawValue
		At        time.Time `asn1:"generalized"`
		List      []asn1.RawValue
	}{asn1.RawValue{Class: 2, Tag: 2, IsCompound: true, Bytes: []byte{4, 0}}, time.Unix(1e9, 0).UTC(), nil},
		Algorithm: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 3}}, Signature: asn1.BitString{Bytes: []byte{0}, BitLength: 8}})
	if err != nil {
		panic(err)
	}
	whole, err := asn1.Marshal(struct {
		Status asn1.Enumerated
		Bytes  struct {
			Type asn1.ObjectIdentifier
			Data []byte
		} `asn1:"explicit,tag:0"`
	}{Bytes: struct {
		Type asn1.ObjectIdentifier
		Data []byte
	}{asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 48, 1, 1}, basic}})
	if err != nil {
		panic(err)
	}
	return whole
}()

// TestSlowIsGivenUp: by the caller's patience.
func TestSlowIsGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		cancel()
		<-q.Context().Done()
	}))
	defer s.Close()
	_, r := local(time.Now).Fetch(ctx, []auth.Source{{Kind: auth.SourceCRL, URL: s.URL}})
	if !errors.Is(r[0].Err, context.Canceled) {
		t.Errorf("%v", r[0].Err)
	}
}
