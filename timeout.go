package warmroute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

var (
	// ErrHeaderTimeout is what errors.Is finds in the error of a request whose
	// answer did not begin within [WithResponseHeaderTimeout].
	ErrHeaderTimeout = errors.New("response header timeout")

	// ErrIdleTimeout is what errors.Is finds in the error of a Read of a response's
	// body that took longer than [WithIdleTimeout].
	ErrIdleTimeout = errors.New("response idle timeout")
)

// TimeoutError is the error of a replica that took too long. It counts against
// the replica, unless it was the caller's body that it waited for, and the request
// there is cancelled.
type TimeoutError struct {
	// Limit is the time it had.
	Limit time.Duration
	kind  error
}

// Error names what took too long, and the limit.
func (e *TimeoutError) Error() string { return fmt.Sprintf("%v after %v", e.kind, e.Limit) }

// Unwrap returns [ErrHeaderTimeout] or [ErrIdleTimeout].
func (e *TimeoutError) Unwrap() error { return e.kind }

// Timeout reports true, as net.Error has it.
func (e *TimeoutError) Timeout() bool { return true }

// WithResponseHeaderTimeout bounds the time from sending a request, connecting
// and the sending of its body included, to the header of its answer. Then the
// request fails with [ErrHeaderTimeout]. 0 is no bound, the default.
//
// If what is missing is the rest of the request's body, which the caller has not
// given yet, that is no failure of the replica, and the request is not sent again.
//
// vLLM sends the header of a stream at once, before its engine has done anything,
// so that there it finds servers that hang; of engines that do [WithIdleTimeout]
// is told. The header of an answer that is not streamed comes when the answer is
// done: set it above the longest of those, or not at all where clients ask for
// them. It is never a limit to a stream that has begun.
func WithResponseHeaderTimeout(d time.Duration) Option {
	return option(func(c *config) {
		if d < 0 {
			c.refuse(&ConfigError{Field: "response-header-timeout", Value: d.String(), Allowed: "0 or more"})
			return
		}
		c.headerTimeout = d
	})
}

// WithIdleTimeout bounds the time that a Read of a response's body waits for the
// replica. Then it fails with [ErrIdleTimeout]. The time in which nobody reads
// does not count. 0 is no bound, the default.
//
// The first Read of a stream waits for the queue of the engine and the prefill of
// the prompt, so set it above the longest of these; SSE comments, which vLLM sends
// with --sse-keep-alive-interval (0.29), count as bytes. However slowly an answer
// comes, as long as it comes it goes on.
func WithIdleTimeout(d time.Duration) Option {
	return option(func(c *config) {
		if d < 0 {
			c.refuse(&ConfigError{Field: "idle-timeout", Value: d.String(), Allowed: "0 or more"})
			return
		}
		c.idleTimeout = d
	})
}

// guard cancels an attempt that takes too long.
type guard struct {
	cancel context.CancelCauseFunc
	header *time.Timer // nil: no bound
	err    *TimeoutError
	fired  chan struct{} // closed once the rest is set, if the header took too long
	caller bool          // who kept it waiting
}

// newGuard has the request be one that can be cancelled; nil if there is no
// timeout. body is what is sent.
func newGuard(req *http.Request, body *outgoingBody, header, idle time.Duration) *guard {
	if header == 0 && idle == 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	*req = *req.WithContext(ctx)
	g := &guard{cancel: cancel}
	if header > 0 {
		g.err = &TimeoutError{Limit: header, kind: ErrHeaderTimeout}
		g.fired = make(chan struct{}) // the context may end for another reason meanwhile
		g.header = time.AfterFunc(header, func() {
			g.caller = body.awaited() // before the base closes it
			close(g.fired)
			cancel(g.err)
		})
	}
	return g
}

// answered ends the wait for the header. It returns the error if that was too
// long.
func (g *guard) answered() error {
	if g == nil || g.header == nil || g.header.Stop() {
		return nil
	}
	<-g.fired
	return g.err
}

// waitedForCaller reports whether the header came too late since the caller did
// not give the body. It may be asked when answered has said that it did.
func (g *guard) waitedForCaller() bool { return g.caller }

// end lets go of what the context holds.
func (g *guard) end() {
	if g != nil {
		g.cancel(context.Canceled)
	}
}

// idleBody bounds the time that a Read waits.
type idleBody struct {
	io.ReadCloser
	limit   time.Duration
	timer   *time.Timer // runs while a Read does
	expired atomic.Bool
}

func newIdleBody(body io.ReadCloser, limit time.Duration, cancel context.CancelCauseFunc) *idleBody {
	b := &idleBody{ReadCloser: body, limit: limit}
	b.timer = time.AfterFunc(limit, func() {
		b.expired.Store(true)
		cancel(b.err())
		_ = body.Close() // for a base that does not mind the context
	})
	b.timer.Stop()
	return b
}

func (b *idleBody) err() error { return &TimeoutError{Limit: b.limit, kind: ErrIdleTimeout} }

func (b *idleBody) Read(p []byte) (int, error) {
	if b.expired.Load() {
		return 0, b.err()
	}
	b.timer.Reset(b.limit)
	n, err := b.ReadCloser.Read(p)
	if !b.timer.Stop() && err != io.EOF {
		err = b.err()
	}
	return n, err
}
