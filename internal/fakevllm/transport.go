package fakevllm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// RoundTrip implements [http.RoundTripper]: it serves the request in memory,
// whatever its scheme and host, and delivers the answer as it is produced. The
// end of the request's context or the closing of the response's body ends the
// run, as a client that disconnects does. What the client does not read is
// kept; it holds up nobody.
//
// The errors are the cause of the context's end, [http.ErrServerClosed] after
// Close, a *net.OpError while the server is stopped, and one for a request
// without a URL.
func (s *Server) RoundTrip(req *http.Request) (*http.Response, error) {
	closeBody := func() {}
	if req.Body != nil {
		// The server and the end of the request may both close it.
		closeBody = sync.OnceFunc(func() { _ = req.Body.Close() })
	}
	l, err := s.admit(req)
	if err != nil {
		closeBody()
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	in := req.WithContext(ctx)
	if in.Body == nil {
		in.Body = http.NoBody
	}
	t := &roundTrip{ctx: ctx, cancel: cancel, header: make(http.Header), begun: make(chan struct{})}
	t.body.news = make(chan struct{}, 1)
	go func() {
		defer l.trips.Done()
		// Whoever waits for a request body that does not come is freed by
		// closing it.
		defer context.AfterFunc(l.engines, closeBody)()
		defer context.AfterFunc(l.connections, func() {
			cancel(context.Cause(l.connections))
			closeBody()
		})()
		s.ServeHTTP(t, in)
		closeBody()
		t.end()
	}()
	select {
	case <-t.begun:
		return t.response(req)
	case <-req.Context().Done(): // Not ctx, which also ends with the handler.
		closeBody()
		return nil, context.Cause(req.Context())
	}
}

// admit lets a request in that can be served.
func (s *Server) admit(req *http.Request) (*life, error) {
	if req.URL == nil {
		return nil, errors.New("fakevllm: request without URL")
	}
	if req.Context().Err() != nil {
		return nil, context.Cause(req.Context())
	}
	return s.enter()
}

// roundTrip is one request in memory: the handler's http.ResponseWriter, and
// the body of the response.
type roundTrip struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	header http.Header // the handler's

	once   sync.Once
	begun  chan struct{} // closed when status and sent are set
	status int           // 0 if the handler ended without an answer
	failed error         // in place of an answer
	sent   http.Header

	declared, written int64 // bytes of the body, the handler's; declared is negative if it did not say

	body buffer
}

func (t *roundTrip) Header() http.Header { return t.header }

func (t *roundTrip) WriteHeader(status int) {
	t.once.Do(func() {
		t.status, t.sent, t.declared = status, t.header.Clone(), -1
		if n, err := strconv.ParseInt(t.sent.Get("Content-Length"), 10, 64); err == nil {
			t.declared = n
		}
		close(t.begun)
	})
}

func (t *roundTrip) Write(p []byte) (int, error) {
	t.WriteHeader(http.StatusOK)
	if t.ctx.Err() != nil {
		return 0, context.Cause(t.ctx)
	}
	if t.declared >= 0 && t.written+int64(len(p)) > t.declared {
		return 0, http.ErrContentLength // as http.Server has it
	}
	t.written += int64(len(p))
	t.body.write(p)
	return len(p), nil
}

// fail implements breakable.
func (t *roundTrip) fail(err error) {
	t.once.Do(func() {
		t.failed = err
		close(t.begun)
	})
	t.body.end(err)
}

// Flush implements [http.Flusher]. Everything is delivered as it is written.
func (t *roundTrip) Flush() { t.WriteHeader(http.StatusOK) }

// end ends the body, with an error if the answer was cut short.
func (t *roundTrip) end() {
	var cut error
	if t.ctx.Err() != nil {
		cut = context.Cause(t.ctx)
	} else if t.written < t.declared {
		cut = io.ErrUnexpectedEOF // as http.Transport has it
	}
	t.once.Do(func() { close(t.begun) })
	t.body.end(cut)
	t.cancel(nil)
}

// response returns what the client gets once the handler has begun to answer.
func (t *roundTrip) response(req *http.Request) (*http.Response, error) {
	if t.failed != nil {
		return nil, t.failed
	}
	if t.status == 0 {
		return nil, context.Cause(t.ctx)
	}
	resp := &http.Response{
		Status:     strconv.Itoa(t.status) + " " + http.StatusText(t.status),
		StatusCode: t.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: t.sent, Body: t, ContentLength: -1, Request: req,
	}
	if t.declared >= 0 {
		resp.ContentLength = t.declared
	} else {
		resp.TransferEncoding = []string{"chunked"}
	}
	if resp.ContentLength == 0 {
		resp.Body = http.NoBody
	}
	return resp, nil
}

// Read reads the response's body.
func (t *roundTrip) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		cut := t.ctx.Err() != nil
		if n, done, err := t.body.read(p); n > 0 || done {
			return n, err
		}
		if cut {
			return 0, context.Cause(t.ctx)
		}
		select {
		case <-t.body.news:
		case <-t.ctx.Done():
		}
	}
}

// Close ends the run if it is still under way.
func (t *roundTrip) Close() error {
	t.cancel(http.ErrBodyReadAfterClose)
	t.body.close()
	return nil
}
