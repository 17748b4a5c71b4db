package warmroute

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/warmroute/warmroute/replica"
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
// headers only X-Data-Parallel-Rank is written. The request that was given is
// not changed; its body is always closed.
//
// A response is returned as it came, whatever its status, with a Body that
// counts the request as finished at its end, at a stream's end mark, at an error,
// when it is closed, or when the request's context ends, whichever is first.
//
// Errors are those of the base transport as they are, those of [Router.Route],
// or, when no endpoint could be reached, one that wraps both [ErrNoReplica] and
// the last of them.
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
// connect.
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
			// The default of two idle connections would dial anew for almost
			// every concurrent request (golang/go#13801).
			MaxIdleConnsPerHost: 1024,
			// uvicorn, below vLLM, closes a connection that is idle for 5 s: one
			// taken up just then would fail its request.
			IdleConnTimeout:       4 * time.Second,
			TLSHandshakeTimeout:   5 * time.Second,
			ExpectContinueTimeout: time.Second,
			ForceAttemptHTTP2:     true,
			DisableCompression:    true, // bytes pass as they come
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
	closed := false
	defer func() {
		// Also when a key function or the base panics. An attempt that got an
		// answer leaves the body to the base, which may be sending it yet.
		if resp == nil && !closed {
			closeBody(req)
		}
	}()
	route, body, err := t.router.inspect(req, t.router.cfg.streamUsage)
	if err != nil {
		if errors.Is(err, errStillReading) {
			closed = true // by inspect
			err = context.Cause(req.Context())
		}
		return nil, err
	}
	defer body.forget()
	var unreachable error
	for {
		lease, err := t.router.route(req.Context(), &route)
		if err != nil {
			if unreachable != nil && errors.Is(err, ErrNoReplica) {
				err = fmt.Errorf("%w: %w", ErrNoReplica, unreachable)
			}
			return nil, err
		}
		resp, again, err := t.attempt(req, body, lease, route.Tried)
		if !again {
			closed = true // by the attempt
			return resp, err
		}
		unreachable = err
		if route.since.IsZero() {
			route.since = lease.routed.Add(-lease.waited)
		}
		route.Tried = append(route.Tried, lease.Replica())
	}
}

// attempt sends the request to one replica. again says that nothing was sent
// and that the request's body was left open for another attempt.
func (t *Transport) attempt(req *http.Request, body requestBody, lease Lease, tried []*replica.Replica) (resp *http.Response, again bool, err error) {
	start := time.Now()
	x := newExchange(req, body, lease)
	returned := false
	defer func() {
		if !returned { // the base panicked
			lease.pool.counts.routed(lease)
			lease.Done(Result{NoTokens: true})
		}
	}()
	resp, err = t.base.RoundTrip(&x.req)
	if err == nil && resp == nil {
		err = errors.New("warmroute: base transport returned neither response nor error")
	}
	returned = true
	if err != nil {
		again, err = t.failed(req, x, lease, tried, err)
		return nil, again, err
	}
	x.out.finish(false)
	lease.pool.counts.routed(lease)
	lease.member.reached()
	if resp.StatusCode < http.StatusBadRequest {
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
	x.in.wrap(req, resp, lease, start)
	return resp, false, nil
}

// failed ends an attempt that got no answer.
func (t *Transport) failed(req *http.Request, x *exchange, lease Lease, tried []*replica.Replica, err error) (again bool, _ error) {
	result := Result{Err: err, NoTokens: true}
	switch {
	case req.Context().Err() != nil || x.out.broken():
		result.Err = nil // the caller's doing
	case isDialError(err):
		result.Unreachable = true
		again = t.router.cfg.failover && t.router.untried(lease, tried) && x.out.reusable()
	}
	if !again {
		x.out.finish(true)
		lease.pool.counts.routed(lease)
	}
	lease.done(result, !again)
	if result.Unreachable {
		t.router.cfg.logger.Warn("replica unreachable", "replica", lease.member.Name(), "err", err)
		if !again {
			err = fmt.Errorf("%w: %w", ErrNoReplica, err)
		}
	}
	return again, err
}

// isDialError reports whether no connection was made, so that nothing was sent.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // the request has an answer or an error already
	}
}

// exchange is one request as it leaves and the body of its answer, in one piece
// of memory. It is not reused: the base transport may keep the request, and the
// caller the body.
type exchange struct {
	req http.Request
	url url.URL
	out outgoingBody
	in  responseBody
}

func newExchange(req *http.Request, body requestBody, lease Lease) *exchange {
	x := &exchange{req: *req, url: *req.URL}
	base := lease.member.URL()
	if req.Host == req.URL.Host {
		x.req.Host = "" // it follows the URL unless the caller set another
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

// outgoingHeader returns the header with the lease's rank and no other. The
// caller's map is never written to; it is used as it is if it need not change.
func outgoingHeader(h http.Header, lease Lease) http.Header {
	values := lease.member.RankHeaderValues()
	if lease.rank != "" {
		values = []string{lease.rank}
	}
	if values == nil && !hasRankHeader(h) {
		return h
	}
	out := make(http.Header, len(h)+1)
	for name, v := range h {
		// Names that were put into the map by hand may not be canonical.
		if len(name) != len(replica.RankHeader) || !strings.EqualFold(name, replica.RankHeader) {
			out[name] = v
		}
	}
	if values != nil {
		out[replica.RankHeader] = values
	}
	return out
}

func hasRankHeader(h http.Header) bool { _, ok := clientRank(h); return ok }

// clientRank returns the rank that the client sent. Of several the first
// counts, as in vLLM.
func clientRank(h http.Header) (string, bool) {
	if v := h[replica.RankHeader]; len(v) > 0 {
		return v[0], true
	}
	for name, v := range h {
		if len(name) == len(replica.RankHeader) && strings.EqualFold(name, replica.RankHeader) {
			if len(v) == 0 {
				return "", true
			}
			return v[0], true
		}
	}
	return "", false
}

// inspect finds out what routing needs to know. Parts of the request's body may
// be read for it; the returned body gives them again, with a wish for usage if
// mayAsk says so. If the error is errStillReading the body is being closed.
func (r *Router) inspect(req *http.Request, mayAsk bool) (Request, requestBody, error) {
	ctx := req.Context()
	if ctx.Err() != nil {
		return Request{}, requestBody{}, context.Cause(ctx)
	}
	if req.URL == nil {
		return Request{}, requestBody{}, errors.New("warmroute: nil Request.URL")
	}
	var route Request
	route.ClientRank, _ = clientRank(req.Header)
	if req.ContentLength > 0 {
		route.PromptTokens = int(req.ContentLength / bytesPerToken)
	}
	in := inspections.Get().(*inspection)
	defer in.release()
	in.begin(req, r.cfg.peekLimit)
	if session, ok := contextSession(ctx); ok {
		route.Session = session
	} else {
		in.asked.Header = req.Header
		key := r.cfg.key(in.asked)
		route.Session, route.Parent = key.Session, key.Parent
	}
	if r.pools.Load().named {
		route.Model = in.String("model")
	}
	if r.cfg.tenant != nil {
		in.asked.Header = req.Header
		route.Tenant = r.cfg.tenant(in.asked).Session
	}
	if r.cfg.priority {
		route.Priority = in.Int("priority")
	}
	if in.stillReading {
		return Request{}, requestBody{}, errStillReading
	}
	api := apiOf(req.URL.Path)
	route.light = api == "" || req.Method != http.MethodPost
	ask := mayAsk && req.Method == http.MethodPost && (api == "/v1/chat/completions" || api == "/v1/completions")
	body := in.body(ask)
	if in.stillReading {
		return Request{}, requestBody{}, errStillReading
	}
	return route, body, nil
}

// bytesPerToken is a rough size of a token in a JSON body, for an estimate of
// the prompt before the engine has counted it.
const bytesPerToken = 4
