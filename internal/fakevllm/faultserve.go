package fakevllm

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// breakable is the http.ResponseWriter of a round trip in memory: it can do
// to its client what a socket can.
type breakable interface {
	// fail ends the answer: a client that has no headers yet gets the error in
	// their place.
	fail(err error)
}

// errHeaders is what http.Transport returns for headers that do not end.
var errHeaders = errors.New("net/http: server response headers exceeded 10485760 bytes; aborted")

// serveFaulty serves a request that meets a fault, and reports whether it did:
// if not it is to be served through the writer that is returned.
func (s *Server) serveFaulty(w http.ResponseWriter, r *http.Request, f *faulted) (http.ResponseWriter, bool) {
	switch f.Kind {
	case Hang:
		// Read, so that a server with a socket notices when its client goes.
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-r.Context().Done():
		case <-f.over:
			reset(w)
		}
	case Status:
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int((f.RetryAfter+time.Second-1)/time.Second)))
		}
		s.refuse(w, r, &apiError{status: f.Status, kind: "InternalServerError", message: "This is a fault.", framework: true})
	case HTML:
		const page = "<!DOCTYPE html><html><body><h1>Please log in</h1></body></html>\n"
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(page)))
		w.WriteHeader(f.Status)
		_, _ = io.WriteString(w, page) // a client that is gone does not mind
	case EndlessHeaders:
		endlessHeaders(w)
	case ResetEarly, ResetLate, Trickle, NoEndMark, WrongLength:
		return &faultWriter{ResponseWriter: w, req: r, fault: f}, false
	default:
		return w, false
	}
	return w, true
}

// reset breaks the connection of a request.
func reset(w http.ResponseWriter) {
	if m, ok := w.(breakable); ok {
		m.fail(errReset)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http's own way
	}
	resetConn(conn)
}

// resetConn closes a connection without a goodbye.
func resetConn(conn net.Conn) {
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0) // as good as it gets
	}
	_ = conn.Close() // which is all that is wanted
}

// endlessHeaders writes headers until the client has had enough.
func endlessHeaders(w http.ResponseWriter) {
	if m, ok := w.(breakable); ok {
		m.fail(errHeaders)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	line := []byte("X-Filler: " + string(bytes.Repeat([]byte("f"), 4000)) + "\r\n")
	for _, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"); err == nil; {
		_, err = conn.Write(line)
	}
}

// faultWriter spoils an answer on its way.
type faultWriter struct {
	http.ResponseWriter
	req    *http.Request
	fault  *faulted
	events int // written
	room   int // bytes that still fit, of a length that is too small
	broken bool
}

func (w *faultWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *faultWriter) cut() {
	w.broken = true
	reset(w.ResponseWriter)
}

func (w *faultWriter) WriteHeader(status int) {
	switch {
	case w.broken:
		return
	case w.fault.Kind == ResetEarly:
		w.cut()
		return
	case w.fault.Kind == WrongLength:
		h := w.Header()
		n, err := strconv.Atoi(h.Get("Content-Length"))
		if err != nil { // a stream: of more than it has, or of nothing much
			n = 1 << 20
			if w.fault.After < 0 {
				n = 64 - w.fault.After
			}
		}
		w.room = max(1, n+w.fault.After)
		h.Set("Content-Length", strconv.Itoa(w.room))
	}
	w.ResponseWriter.WriteHeader(status)
}

// FlushError is for http.ResponseController, which asks this writer first.
func (w *faultWriter) FlushError() error {
	if w.broken {
		return errReset
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

func (w *faultWriter) Write(p []byte) (int, error) {
	if w.broken {
		return 0, errReset
	}
	switch w.fault.Kind {
	case ResetLate:
		if w.req.Context().Err() == nil && w.events < w.fault.After && isEvent(p) {
			break
		}
		if !isEvent(p) { // half of it
			if _, err := w.ResponseWriter.Write(p[:len(p)/2]); err != nil {
				return 0, err
			}
			if err := w.FlushError(); err != nil {
				return 0, err
			}
		}
		w.cut()
		return 0, errReset
	case Trickle:
		return w.trickle(p)
	case WrongLength:
		fits := p[:min(len(p), w.room)]
		w.room -= len(fits)
		if n, err := w.ResponseWriter.Write(fits); err != nil {
			return n, err
		}
		return len(p), nil
	case NoEndMark:
		for _, mark := range [...]string{"data: [DONE]", "event: message_stop", "event: response.completed"} {
			if bytes.HasPrefix(p, []byte(mark)) {
				return len(p), nil
			}
		}
	}
	w.events++
	return w.ResponseWriter.Write(p)
}

func isEvent(p []byte) bool {
	return bytes.HasPrefix(p, []byte("data: ")) || bytes.HasPrefix(p, []byte("event: "))
}

// trickle writes p a byte at a time until the fault is over.
func (w *faultWriter) trickle(p []byte) (int, error) {
	tick := time.NewTicker(w.fault.Every)
	defer tick.Stop()
	for i := range p {
		select {
		case <-tick.C:
		case <-w.fault.over:
			n, err := w.ResponseWriter.Write(p[i:])
			return i + n, err
		case <-w.req.Context().Done():
			return i, w.req.Context().Err()
		}
		if _, err := w.ResponseWriter.Write(p[i : i+1]); err != nil {
			return i, err
		}
		if err := w.FlushError(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return i, err
		}
	}
	return len(p), nil
}
