// Package selector is warmroute in the form in which LLM gateways ask for an
// endpoint: a request's model, headers and body go in, a URL, headers to set and
// a callback for its end come out. The gateway does all input and output.
package selector

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/replica"
)

// Selector selects the endpoint, and the data-parallel rank behind it, for each
// request. Make one with [New]. It is safe for concurrent use.
type Selector struct{ router *warmroute.Router }

// New returns a selector that asks router, which must be closed by its owner.
func New(router *warmroute.Router) *Selector { return &Selector{router: router} }

// Request is what a gateway knows of a request before it sends it.
type Request struct {
	// Model is the model's name. If it is empty and the router has pools by
	// model, it is read from Body.
	Model string
	// Path is the URL's path, such as the default, "/v1/chat/completions".
	Path string
	// Header is the client's, with canonical names. It is only read.
	Header http.Header
	// Body is the whole request body, or nil if the gateway does not hold it:
	// the conversation must be known by a header then. It is not kept.
	Body []byte
	// Among limits the selection to endpoints with these URLs, as they were
	// given to the router: nil for all. If none of them is the router's,
	// [warmroute.ErrNoReplica] comes back.
	Among []string
	// Tried are earlier selections for this request that could not be reached:
	// it goes to none of their endpoints.
	Tried []*Selection
}

// Selection is where a request is to be sent. It counts as in flight there
// until Done, or until the context of its Select ends.
type Selection struct {
	// URL is the replica's, with the request's path below it.
	URL *url.URL
	// Set are the headers to set on the request, in place of the client's, such
	// as X-Data-Parallel-Rank; Remove are names that it must not have.
	Set    http.Header
	Remove []string

	lease warmroute.Lease
	req   *http.Request

	mu     sync.Mutex
	status int
	stop   func() bool // the watch on the context
}

// Outcome is what became of a request.
type Outcome struct {
	// Status is the answer's, 0 if there was none or Answered was told.
	Status int
	// Err is nil if the answer came to its end, an error that wraps
	// context.Canceled if the client gave up, else what sending the request or
	// reading the answer failed with. If that was making the connection (a
	// *net.OpError of a dial), the endpoint is left out for a while.
	Err error
	// Usage is what the answer's usage said. It is read by the observer of
	// Answered for gateways that do not look into answers themselves.
	Usage warmroute.Usage
	// FirstByte is the time from Select to the first byte of a streamed answer's
	// body, 0 if it is not known.
	FirstByte time.Duration
}

// Select selects an endpoint. It waits where the conversations do not all fit
// into the prefix caches, as [warmroute.Router.Route] does, and returns its
// errors; [warmroute.ErrorResponse] has the answers to them.
func (s *Selector) Select(ctx context.Context, r Request) (*Selection, error) {
	if r.Path == "" {
		r.Path = "/v1/chat/completions"
	}
	req := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: r.Path}, Header: r.Header,
		Body: io.NopCloser(bytes.NewReader(r.Body)), ContentLength: int64(len(r.Body)),
	}).WithContext(ctx)
	route, err := s.router.Inspect(req)
	if err != nil {
		return nil, err
	}
	req.Body = nil // the caller's memory
	if r.Model != "" {
		route.Model = r.Model
	}
	for _, t := range r.Tried {
		route.Tried = append(route.Tried, t.lease.Replica())
	}
	if r.Among != nil {
		for _, candidate := range s.router.Replicas() {
			if !slices.ContainsFunc(r.Among, candidate.Is) {
				route.Tried = append(route.Tried, candidate)
			}
		}
	}
	lease, err := s.router.Route(ctx, route)
	if err != nil {
		return nil, err
	}
	sel := &Selection{lease: lease, req: req}
	// Of a request without headers the target has those that must be set.
	sel.URL, sel.Set = lease.Target(&http.Request{URL: req.URL, Header: http.Header{}})
	if _, ranked := lease.RankHeader(); !ranked {
		sel.Remove = []string{replica.RankHeader}
	}
	sel.mu.Lock()
	sel.stop = context.AfterFunc(ctx, func() { sel.Done(Outcome{Err: context.Canceled}) })
	sel.mu.Unlock()
	return sel, nil
}

// Replica is the replica that was selected.
func (s *Selection) Replica() *warmroute.Replica { return s.lease.Replica() }

// Answered says that the answer has begun: a status below 400 binds the
// conversation to the replica. A gateway that does not read the usage itself
// shows the body to the observer that it returns, whose end is that of the
// request.
func (s *Selection) Answered(status int, header http.Header) *warmroute.Observer {
	s.mu.Lock()
	s.status = status
	stop := s.stop
	s.mu.Unlock()
	observer := s.lease.Observe(s.req, status, header)
	stop() // the observer watches the context from here on
	return observer
}

// Done says that the request is finished. Only the first call has an effect,
// and none after an observer's end.
func (s *Selection) Done(o Outcome) {
	s.mu.Lock()
	answered, stop := s.status != 0, s.stop
	if o.Status == 0 {
		o.Status = s.status
	}
	s.mu.Unlock()
	stop()
	if o.Status != 0 && o.Status < http.StatusBadRequest && !answered {
		s.lease.Answered()
	}
	result := warmroute.Result{Usage: o.Usage, FirstByte: o.FirstByte}
	if i := strings.LastIndex(s.req.URL.Path, "/v1/"); i >= 0 {
		result.API = s.req.URL.Path[i:]
	}
	result.NoTokens = !o.Usage.Known && (o.Err != nil || o.Status == 0 || o.Status >= http.StatusBadRequest)
	var dial *net.OpError
	switch {
	case errors.Is(o.Err, context.Canceled):
	case o.Err != nil:
		result.Err = o.Err
		result.Unreachable = errors.As(o.Err, &dial) && dial.Op == "dial"
	case o.Status >= http.StatusInternalServerError:
		result.Err = fmt.Errorf("status %d", o.Status)
	}
	s.lease.Done(result)
}
