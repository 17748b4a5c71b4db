package warmroute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/warmroute/warmroute/internal/tlsdial"
)

// Headers added to responses by [WithDebugHeaders].
const (
	ReplicaHeader = "X-Warmroute-Replica"
	OutcomeHeader = "X-Warmroute-Outcome"
)

// Transport is an http.RoundTripper that sends each request to the replica its
// router chooses. Make one with [Router.Transport].
//
// Scheme and host of the request's URL are replaced by the replica's, and its
// path is put below the replica's path prefix; the rest of the URL is kept, and
// so is a Host that the caller set to something else than the URL's. Of the
// headers only X-Data-Parallel-Rank is written, and Authorization for an endpoint
// that has an APIKey. The request that was given is not changed, so that a
// redirect that an http.Client follows is routed anew and never carries the key;
// its body is always closed.
//
// A response is returned as it came, whatever its status, with a Body that
// counts the request as finished at its end, at a stream's end mark, at an error,
// when it is closed, or when the request's context ends, whichever is first.
//
// Errors are those of the base transport as they are, those of [Router.Route],
// a [*TimeoutError], or, when no endpoint could be reached, one that wraps both
// [ErrNoReplica] and the last of them. A failure after the answer has begun is no
// error: it is told to the hooks as a [*StreamError].
//
// Do not use it under an http.Client with a Timeout if the client streams: that
// bounds the whole body.
type Transport struct {
	router *Router
	base   http.RoundTripper
}

// Transport returns a transport that sends requests through base. If base is
// nil it is one made for engines: up to 1,024 idle connections to each
// endpoint for 4 seconds, no proxy, no compression of its own, 2 seconds to
// connect, 256 KiB of header in an answer. A base that is given must itself ask
// for the TLS names of endpoints that have a Host.
func (r *Router) Transport(base http.RoundTripper) *Transport {
	if base == nil {
		base = r.defaultBase()
	}
	return &Transport{router: r, base: base}
}

// defaultBase is shared by all transports of the router, so that Close can
// close its connections.
func (r *Router) defaultBase() *http.Transport {
	r.baseOnce.Do(func() {
		dialer := &net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}
		r.base = &http.Transport{
			DialContext: dialer.DialContext,
			// As without it, but for endpoints that have a Host of their own.
			DialTLSContext: tlsdial.Func(dialer.DialContext, 5*time.Second, r.set.ServerName),
			// The default of two idle connections would dial anew for almost
			// every concurrent request (golang/go#13801).
			MaxIdleConnsPerHost: 1024,
			// uvicorn, below vLLM, closes a connection that is idle for 5 s: one
			// taken up just then would fail its request.
			IdleConnTimeout:       4 * time.Second,
			ExpectContinueTimeout: time.Second,
			ForceAttemptHTTP2:     true,
			DisableCompression:    true, // bytes pass as they come
			// One that does not stop sending headers is not waited for.
			MaxResponseHeaderBytes: 256 << 10,
		}
	})
	return r.base
}

// CloseIdleConnections is passed on to the base transport if it has one.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	var open io.Closer // a body that no attempt has taken over
	if req.Body != nil {
		open = req.Body
	}
	defer func() {
		// Also when a key function or the base panics. An attempt that got an
		// answer leaves the body to the base, which may be sending it yet.
		if resp == nil && open != nil {
			_ = open.Close() // the request has an error already
		}
	}()
	route, body, err := t.router.inspect(req, t.router.cfg.streamUsage)
	if err != nil {
		if errors.Is(err, errStillReading) {
			open = nil // inspect closes it
			err = context.Cause(req.Context())
		}
		return nil, err
	}
	defer body.forget()
	var last error
	var n attempts
	var before Lease // of the attempt before
	again := false   // the body is to be had again
	for ; ; n.made++ {
		lease, err := t.router.route(req.Context(), &route)
		if err != nil {
			if last != nil && req.Context().Err() != nil { // it is not refused, and was sent
				before.pool.counts.routed(before)
			}
			if last != nil && errors.Is(err, ErrNoReplica) {
				err = fmt.Errorf("%w: %w", ErrNoReplica, last)
			}
			return nil, err
		}
		if again {
			if body, err = body.again(req); err != nil {
				lease.pool.counts.routed(lease)
				lease.Done(Result{GivenUp: true, NoTokens: true})
				return nil, err
			}
			if body.ReadCloser != nil {
				open = body.ReadCloser
			}
		}
		if n.made > 0 {
			lease.pool.counts.retries.Add(1)
		}
		resp, next, err := t.attempt(req, body, lease, &route, n)
		if next != nextUnsent {
			open = nil
		}
		if next == nextNone {
			return resp, err
		}
		last, before, again = err, lease, next == nextReplay
		if route.since.IsZero() {
			route.since = lease.routed.Add(-lease.waited)
		}
		if next == nextReplay {
			if err := sleep(req.Context(), t.router.cfg.retry.pause(n.replay)); err != nil {
				lease.pool.counts.routed(lease)
				return nil, err
			}
			n.replay++
		}
	}
}

// attempt sends the request to one replica, and says whether there is to be
// another attempt, elsewhere: route has been told where not to then.
func (t *Transport) attempt(req *http.Request, body requestBody, lease Lease, route *Request, n attempts) (resp *http.Response, next next, err error) {
	start := time.Now()
	cfg := &t.router.cfg
	x := newExchange(req, body, lease)
	guard := newGuard(&x.req, &x.out, cfg.headerTimeout, cfg.idleTimeout)
	returned := false
	defer func() {
		if !returned { // the base panicked
			guard.end()
			lease.pool.counts.routed(lease)
			lease.Done(Result{GivenUp: true, NoTokens: true})
		}
	}()
	resp, err = t.base.RoundTrip(&x.req)
	if err == nil && resp == nil {
		err = errors.New("warmroute: base transport returned neither response nor error")
	}
	if late := guard.answered(); late != nil {
		if err == nil && resp.Body != nil {
			_ = resp.Body.Close() // cut off already
		}
		resp, err = nil, late
		x.starved = guard.waitedForCaller()
	}
	returned = true
	if err != nil {
		guard.end()
		next, err = t.failed(req, x, lease, route, n, err)
		return nil, next, err
	}
	lease.member.reached()
	said := statusResult(req, resp)
	if (resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusServiceUnavailable) && t.replays(req, body, lease, route, n, true) {
		said.NoTokens = true
		x.out.finish(true)
		lease.done(said, false)
		guard.end()
		if resp.Body != nil {
			_ = resp.Body.Close() // nobody wants it
		}
		return nil, nextReplay, said.Err
	}
	x.out.finish(false)
	lease.pool.counts.routed(lease)
	if resp.StatusCode < http.StatusBadRequest && said.Err == nil {
		lease.Answered()
	}
	resp.Request = req
	if t.router.cfg.debugHeaders {
		if resp.Header == nil {
			resp.Header = make(http.Header)
		}
		resp.Header.Set(ReplicaHeader, lease.member.Name())
		resp.Header.Set(OutcomeHeader, string(lease.outcome))
	}
	x.in.wrap(req, resp, lease, start, said, guard)
	return resp, nextNone, nil
}

// failed ends an attempt that got no answer.
func (t *Transport) failed(req *http.Request, x *exchange, lease Lease, route *Request, n attempts, err error) (next next, _ error) {
	cfg := &t.router.cfg
	result := Result{Err: err, NoTokens: true}
	switch {
	case ended(req.Context()) || x.out.broken() || x.starved:
		result.Err, result.GivenUp = nil, true // the caller's doing
	case isDialError(err):
		result.Unreachable = true
		if cfg.failover && cfg.retry.mayMore(n, false) && t.router.untried(lease, route.Tried) && x.out.reusable() {
			next = nextUnsent
			route.Tried = append(route.Tried, lease.Replica())
		}
	case t.replays(req, x.body, lease, route, n, false):
		next = nextReplay
	}
	if next != nextUnsent {
		x.out.finish(true)
	}
	if next == nextNone {
		lease.pool.counts.routed(lease)
	}
	lease.done(result, next == nextNone)
	if result.Unreachable {
		if next == nextNone {
			err = fmt.Errorf("%w: %w", ErrNoReplica, err)
		}
	}
	return next, err
}

// ended reports whether the context is over. What is told of its deadline alone,
// as a net.Dialer is, may see that before the context does.
func ended(ctx context.Context) bool {
	if ctx.Err() != nil {
		return true
	}
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// isDialError reports whether no connection was made, so that nothing was sent.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// exchange is one request as it leaves and the body of its answer, in one piece
// of memory. It is not reused: the base transport may keep the request, and the
// caller the body.
type exchange struct {
	req  http.Request
	url  url.URL
	body requestBody
	out  outgoingBody
	in   responseBody

	starved bool // the header took too long since the caller did not give the body
}

func newExchange(req *http.Request, body requestBody, lease Lease) *exchange {
	x := &exchange{req: *req, url: *req.URL, body: body}
	base := lease.member.URL()
	if req.Host == "" || req.Host == req.URL.Host {
		// It follows the URL unless the caller set another.
		x.req.Host = lease.member.Host()
	}
	x.url.Scheme, x.url.Host, x.url.User = base.Scheme, base.Host, nil
	if base.Path != "" {
		joinPath(&x.url, base)
	}
	x.req.URL = &x.url
	x.req.Header = outgoingHeader(req.Header, lease)
	if body.ReadCloser != nil {
		x.out.inner, x.out.length = body.ReadCloser, req.ContentLength
		if body.asked {
			x.out.length, x.req.ContentLength = body.length, body.length
			x.req.TransferEncoding = nil
			x.in.strip = true
		}
		x.req.Body = &x.out
		if body.rewind != nil {
			x.req.GetBody = body.rewind.getBody
		}
		if mayRepeat(req) {
			x.req.GetBody = nil
		}
	} else if req.Method == http.MethodPost && mayRepeat(req) {
		x.req.Body = unrepeatable{}
	}
	return x
}

// mayRepeat reports whether http.Transport would send the request once more,
// if it has a GetBody, after a connection broke in the middle of it: it takes
// an idempotency key for leave to. vLLM knows no such key and would generate
// twice. What was not sent at all may be sent again all the same.
func mayRepeat(req *http.Request) bool {
	_, ok := req.Header["Idempotency-Key"]
	_, x := req.Header["X-Idempotency-Key"]
	return ok || x
}

// joinPath puts u's path below base's, both as they are escaped.
func joinPath(u, base *url.URL) {
	if u.Opaque != "" {
		return
	}
	raw := u.RawPath != "" || base.RawPath != ""
	escaped := base.EscapedPath() + slashed(u.EscapedPath())
	u.Path = base.Path + slashed(u.Path)
	u.RawPath = ""
	if raw {
		u.RawPath = escaped
	}
}

func slashed(path string) string {
	if path == "" || path[0] != '/' {
		return "/" + path
	}
	return path
}
