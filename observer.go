package warmroute

import (
	"context"
	"errors"
	"io"
	"net/http"
)

// Observer follows the answer to a request that a program sent by itself. It
// reads the usage out of the bytes as they pass, takes the time to the first of
// them, and ends the lease once: with [Observer.End], at a stream's end mark, or
// when the request's context ends, whichever is first. If [Lease.Done] ends it
// before, what is written has no effect. Make one with
// [Lease.Observe]. Its methods are safe for concurrent use; the pieces must be
// written in their order.
type Observer struct {
	body responseBody
}

// Observe says that the replica's answer to req has begun, with this status and
// these headers (names in canonical form), and returns what its body is to be
// shown to. A status below 400 binds the conversation to the replica, as
// [Lease.Answered] does; one of 500 or more is the replica's failure, and so is
// an answer that is no engine's.
//
// req is the request that was routed; its Method, the URL's Path and the context
// count. A request that gets no answer is ended with [Lease.Done] instead.
func (l Lease) Observe(req *http.Request, status int, header http.Header) *Observer {
	o := new(Observer)
	if l.member == nil {
		o.body.done = true
		return o
	}
	l.member.reached()
	resp := &http.Response{StatusCode: status, Header: header, Body: pushed{}}
	said := statusResult(req, resp)
	if status < http.StatusBadRequest && said.Err == nil {
		l.Answered()
	}
	o.body.wrap(req, resp, l, l.routed, said, nil)
	return o
}

// Write shows the observer the next piece of the answer's body, of any size, as
// the engine sent it. It does not keep p, and returns len(p) and no error.
func (o *Observer) Write(p []byte) (int, error) {
	if len(p) > 0 {
		o.body.passed(p, nil)
	}
	return len(p), nil
}

// End says that the answer is finished, and ends the lease: err is nil or
// io.EOF if the body came to its end, an error that wraps context.Canceled if
// the client is gone, and else what the replica's connection failed with, which
// counts as the replica's failure. Only the first call has an effect.
func (o *Observer) End(err error) {
	switch {
	case err == nil:
		o.body.passed(nil, io.EOF)
	case errors.Is(err, context.Canceled):
		_ = o.body.Close() // which is that of pushed
	default:
		o.body.passed(nil, err)
	}
}

// Reader returns a body that gives what body does and shows it to the observer:
// its end and its errors end the lease, and so does Close, which means that
// nobody reads on.
func (o *Observer) Reader(body io.ReadCloser) io.ReadCloser {
	return &observedBody{inner: body, observer: o}
}

type observedBody struct {
	inner    io.ReadCloser
	observer *Observer
}

func (b *observedBody) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	if n > 0 || err != nil {
		b.observer.body.passed(p[:n], err)
	}
	return n, err
}

// Close ends the lease before it closes the inner body, which may block.
func (b *observedBody) Close() error {
	b.observer.End(context.Canceled)
	return b.inner.Close()
}

// pushed is the body of an answer that is not read from here.
type pushed struct{}

func (pushed) Read([]byte) (int, error) { return 0, io.EOF }
func (pushed) Close() error             { return nil }
