package warmroute

import (
	"context"
	"errors"
	"net/http"
	"net/url"
)

// Inspect finds out what routing needs to know of a request, as the router's
// [Transport] does: its conversation, model, tenant, priority and rank. It is
// for programs that send requests by other means than an http.RoundTripper
// (fasthttp, an external processor of Envoy): Inspect, [Router.Route],
// [Lease.Target], and when the answer has begun [Lease.Observe].
//
// Of req it takes the Method, the URL's Path, the Header (names in canonical
// form), the ContentLength, the Body, and the context, which may name the
// conversation ([WithSession]). It reads Body only if the headers do not tell
// enough, and then no further than it must and than [WithPeekLimit] allows. What
// it read is put back: req.Body gives the same bytes, and Close closes the body
// that was there. A program that does not have the body leaves it nil; the
// request is then known by its headers, and goes to the default pool.
//
// The body is never changed: [WithStreamUsage] is the transport's alone.
//
// The error is that of a request without a URL, or the cause of the context's
// end, before which the body may not have been read; it is being closed then.
func (r *Router) Inspect(req *http.Request) (Request, error) {
	route, body, err := r.inspect(req, false)
	if errors.Is(err, errStillReading) {
		return Request{}, context.Cause(req.Context())
	}
	if err != nil {
		return Request{}, err
	}
	if body.ReadCloser != nil {
		req.Body = body.ReadCloser
	}
	return route, nil
}

// Target returns where the request is to be sent, and with which headers: req's
// path and query below the replica's URL, and its headers with the replica's
// X-Data-Parallel-Rank and no other. req is not changed. The header may be
// req's own, and must not be written to.
//
// The zero Lease returns req's URL and headers.
func (l Lease) Target(req *http.Request) (*url.URL, http.Header) {
	if l.member == nil {
		return req.URL, req.Header
	}
	x := newExchange(req, requestBody{}, l)
	return x.req.URL, x.req.Header
}
