package warmroute

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/warmroute/warmroute/affinity"
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
	if !r.cfg.untrusted || r.cfg.clientRank == RefuseClientRank {
		route.ClientRank, _ = clientRank(req.Header)
	}
	if req.ContentLength > 0 {
		route.PromptTokens = int(req.ContentLength / bytesPerToken)
	}
	in := inspections.Get().(*inspection)
	defer in.release()
	in.begin(req, r.cfg.peekLimit)
	api := apiOf(req.URL.Path)
	session, named := contextSession(ctx)
	var key affinity.Key
	if route.Session = session; !named {
		in.asked.Header = req.Header
		key = r.cfg.key(in.asked)
		route.Session, route.Parent, route.KeySource = key.Session, key.Parent, key.Source
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
	if r.cfg.retry.RetrySent && req.GetBody == nil {
		in.readAll() // to have it again
	}
	route.light = api == "" || req.Method != http.MethodPost
	shared := r.pools.Load().shared && !route.light
	if shared && !r.bound(&route) {
		in.String("") // reads on to the end of the object
	}
	// After all that the body may be read for.
	if !named && r.chains(req, api) {
		route.PreviousResponse = in.previousResponse(key.Valid())
	}
	if in.stillReading {
		return Request{}, requestBody{}, errStillReading
	}
	route.MaxTokens = in.maxTokens(api)
	if shared {
		route.Body = in.soFar()
	}
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
