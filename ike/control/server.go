package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	maxBody       = 1 << 20
	headerTimeout = 10 * time.Second // for a request with its body
	drainTimeout  = time.Second      // for what a client still sends when it has its answer
	closeTimeout  = time.Second
	maxWait       = 24 * time.Hour
)

// Server serves a Backend on a unix socket of mode 0660. Root and AdminGroup may change; members of Group may look.
type Server struct {
	backend  Backend
	listener *listener
	http     *http.Server
	stop     context.CancelFunc
}

// Listen makes the socket. One that a dead daemon left is replaced; one that answers is an error which names its process.
func Listen(socket string, b Backend) (*Server, error) { return listen(socket, b, peerCred) }

func listen(socket string, b Backend, creds func(*net.UnixConn) (cred, error)) (*Server, error) {
	ul, err := bind(socket)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{backend: b, stop: stop}
	s.listener = &listener{UnixListener: ul, creds: creds, admins: groupID(AdminGroup), refusals: make(chan struct{}, maxRefusals), refuse: refuseBusy}
	s.http = &http.Server{
		Handler:           s.routes(),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout, // a stream lifts it when it has read its request
		MaxHeaderBytes:    16 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, credKey{}, c.(*client).cred)
		},
	}
	s.http.SetKeepAlivesEnabled(false) // a connection is a request, so that the limit counts requests
	return s, nil
}

type credKey struct{}

// Serve runs until Close; it then returns nil.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("control socket: %w", err)
	}
	return nil
}

// Close ends the streams, each with a last line, and removes the socket.
func (s *Server) Close() error {
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	s.listener.Close() // also when Serve was never called
	if err != nil {
		return s.http.Close()
	}
	return nil
}

func (s *Server) routes() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /v1/status", bodyless(s.status))
	m.HandleFunc("GET /v1/monitor", bodyless(func(w http.ResponseWriter, r *http.Request) {
		s.stream(w, r, "", s.backend.Monitor)
	}))
	m.HandleFunc("POST /v1/up", s.change(func(ctx context.Context, t target, emit func(Line) error) *Failure {
		return s.backend.Up(ctx, t.Connection, t.Child, emit)
	}))
	m.HandleFunc("POST /v1/down", s.change(func(ctx context.Context, t target, emit func(Line) error) *Failure {
		return s.backend.Down(ctx, t.Connection, t.Child, emit)
	}))
	m.HandleFunc("POST /v1/rekey", s.change(func(ctx context.Context, t target, emit func(Line) error) *Failure {
		return s.backend.Rekey(ctx, t.Connection, t.Child, t.IKE, emit)
	}))
	m.HandleFunc("POST /v1/reload", s.change(func(ctx context.Context, _ target, emit func(Line) error) *Failure {
		return s.backend.Reload(ctx, emit)
	}))
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, Fail(CodeVersion, fmt.Sprintf("this cygnetd has no %s %q", r.Method, r.URL.Path),
			"ikectl and cygnetd are of different versions: restart the one that was not upgraded"))
	})
	return m
}

// bodyless guards a request that has no body: one that is announced and never comes would be waited for.
func bodyless(do http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			refuse(w, http.StatusBadRequest, Fail(CodeUsage, "the request has a body where none is wanted", ""))
			return
		}
		do(w, r)
	}
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) {
	st, f := s.backend.Status(r.Context())
	if f != nil {
		refuse(w, http.StatusInternalServerError, f)
		return
	}
	answer(w, http.StatusOK, st)
}

// change guards a request that changes something and reads its body.
func (s *Server) change(do func(context.Context, target, func(Line) error) *Failure) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		verb := strings.TrimPrefix(r.URL.Path, "/v1/")
		if who, ok := r.Context().Value(credKey{}).(cred); !ok || !who.mayChange() {
			refuse(w, http.StatusForbidden, Fail(CodePermission, fmt.Sprintf("no permission for %q: only root and members of the group %s may change something", verb, AdminGroup),
				"use sudo, or usermod -aG "+AdminGroup+" USER and log in anew; members of the group "+Group+" may use status and monitor"))
			return
		}
		t, f := readTarget(w, r)
		if f != nil {
			refuse(w, http.StatusBadRequest, f)
			return
		}
		s.stream(w, r, t.Connection, func(ctx context.Context, emit func(Line) error) *Failure {
			if t.Timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, min(time.Duration(t.Timeout), maxWait/time.Millisecond)*time.Millisecond)
				defer cancel()
			}
			f := do(ctx, t, emit)
			if f == nil && ctx.Err() == context.DeadlineExceeded {
				f = Fail(CodeTimeout, "not done in the time given", timedOutHint)
			}
			return f
		})
	}
}

// readTarget reads the body to its end.
func readTarget(w http.ResponseWriter, r *http.Request) (t target, f *Failure) {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil && err != io.EOF {
		return t, Fail(CodeUsage, "the request cannot be read: "+err.Error(), "")
	}
	if _, err := d.Token(); err != io.EOF {
		return t, Fail(CodeUsage, "the request has more than one value", "")
	}
	return t, nil
}

// stream runs do and sends what it emits, then a line that says how it ended for the connection.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, connection string, do func(context.Context, func(Line) error) *Failure) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	http.NewResponseController(w).SetReadDeadline(time.Time{}) // the request is read; the client's end is still noticed
	st := openStream(ctx, cancel, w)
	last := Line{Connection: connection, Code: CodeInternal, Text: "cygnetd failed while it worked on this", Done: true}
	defer func() { st.finish(last) }() // also when do panics: the writer must end before the handler does
	var final *Line
	f := do(ctx, func(l Line) error {
		if l.Done { // the backend's own words for the end
			final = &l
			return nil
		}
		return st.emit(l)
	})
	switch {
	case f != nil:
		last = Line{Connection: connection, Code: f.Code, Text: f.Summary, Hint: f.Hint, Done: true}
	case final != nil:
		last = *final
		last.OK = true
	default:
		last = Line{Connection: connection, Code: CodeDone, Done: true, OK: true}
	}
}

// answer is the last that a client gets. A body that was not read, as nobody would act upon it, does not keep its place.
func answer(w http.ResponseWriter, code int, v any) {
	rc := http.NewResponseController(w)
	rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	rc.SetReadDeadline(time.Now().Add(drainTimeout))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.Encode(v)
}

func refuse(w http.ResponseWriter, code int, f *Failure) { answer(w, code, f) }

// refuseBusy answers a client past the limit. What it asks is read and thrown away, else the answer would be lost with the connection.
func refuseBusy(c *net.UnixConn) {
	body, _ := json.Marshal(Fail(CodeBusy, "cygnetd has too many control clients", "end some of the running ikectl monitor"))
	c.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	c.CloseWrite()
	io.Copy(io.Discard, io.LimitReader(c, maxBody))
}
