package control

import (
	"bytes"
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestBodyThatNeverComes: whoever announces a body and does not send it loses the place, with an answer.
func TestBodyThatNeverComes(t *testing.T) {
	for _, c := range []struct {
		name, request, answer string
		uid                   uint32
	}{
		{"who may not", "POST /v1/up", "403", looker},
		{"root", "POST /v1/up", "400", 0},
		{"status", "GET /v1/status", "400", looker},
		{"monitor", "GET /v1/monitor", "400", looker},
		{"unknown path", "POST /v1/fly", "404", looker},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "s")
			s, err := listen(path, &fake{}, asUID(c.uid))
			if err != nil {
				t.Fatal(err)
			}
			if s.http.ReadTimeout != 10*time.Second {
				t.Errorf("read timeout %s, want 10 s", s.http.ReadTimeout)
			}
			s.http.ReadTimeout = 100 * time.Millisecond
			go s.Serve()
			defer s.Close()
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			io.WriteString(conn, c.request+" HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{\"conn")
			conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			got, err := io.ReadAll(conn)
			if err != nil && !strings.Contains(err.Error(), "reset") {
				t.Errorf("not closed: %v", err)
			}
			if !bytes.HasPrefix(got, []byte("HTTP/1.1 "+c.answer)) {
				t.Errorf("answered %q, want %s", got, c.answer)
			}
			for end := time.Now().Add(5 * time.Second); s.listener.all.Load() != 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the place stays taken")
				}
			}
		})
	}
}

// TestStreamOutlivesReadTimeout: the time for a request does not end the stream that answers it.
func TestStreamOutlivesReadTimeout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ended := make(chan error, 1)
	s, err := listen(path, &fake{monitor: func(ctx context.Context, emit func(Line) error) *Failure {
		select {
		case <-ctx.Done():
			ended <- ctx.Err()
		case <-time.After(300 * time.Millisecond):
			ended <- nil
		}
		return nil
	}}, asUID(looker))
	if err != nil {
		t.Fatal(err)
	}
	s.http.ReadTimeout = 50 * time.Millisecond
	go s.Serve()
	defer s.Close()
	if err := (&Client{Socket: path}).Monitor(deadline(t), func(Line) {}); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the stream was ended: %v", err)
	}
}

// TestSilentDaemon: a daemon that is stopped accepts by its queue and never answers.
func TestSilentDaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := &Client{Socket: path, silence: 30 * time.Millisecond}
	_, err = c.Status(deadline(t))
	f := wantFailure(t, err, CodeDaemonSilent, ExitTimeout)
	if !strings.Contains(f.Summary, "does not answer") || f.Hint == "" {
		t.Errorf("%+v", f)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	wantFailure(t, c.Down(ctx, "x", "", func(Line) {}), CodeDaemonSilent, ExitTimeout)
	wantFailure(t, c.Reload(deadline(t), func(Line) {}), CodeDaemonSilent, ExitTimeout)
}
