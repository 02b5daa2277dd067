package fetch

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"cygnet/ike/auth"
)

// TestAllowed: no address of this host or its link is dialled.
func TestAllowed(t *testing.T) {
	for address, want := range map[string]bool{
		"192.0.2.1:80": true, "10.1.2.3:80": true, "[2001:db8::1]:80": true, "[fd00::1]:80": true,
		"127.0.0.1:80": false, "127.9.9.9:80": false, "[::1]:80": false, "[::ffff:127.0.0.1]:80": false, "0.0.0.0:80": false, "[::]:80": false,
		"169.254.169.254:80": false, "[fe80::1]:80": false, "224.0.0.1:80": false, "[ff02::1]:80": false, "255.255.255.255:80": false, "name:80": false,
	} {
		if err := allowed(address); (err == nil) != want {
			t.Errorf("%s: %v, wanted allowed: %v", address, err, want)
		}
	}
}

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
			w.WriteHeader(http.StatusServiceUnavailable)
		}
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
