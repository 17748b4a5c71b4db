package warmroutecaddy

import (
	"context"
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/headers"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/warmroute/warmroute"
)

func init() { // how a Caddy module makes itself known
	caddy.RegisterModule(new(Transport))
}

// DefaultName is the name of a transport's router that was given none.
const DefaultName = "default"

// What is done with a request that was not answered by an engine.
const (
	// AnswerErrors answers it as [warmroute.ErrorHandler] does: in the shape that
	// an LLM's client reads, with Retry-After where it should try again.
	AnswerErrors = "answer"
	// HandleErrors makes it an error of the route, with the status that
	// AnswerErrors would answer with, for the site's handle_errors.
	HandleErrors = "handle"
)

// Transport is the module http.reverse_proxy.transport.warmroute: it sends the
// requests of a reverse_proxy to the replicas of a fleet, each conversation to
// the one whose prefix cache holds its history.
//
// The Host that an engine sees is its own, unless header_up sets one; the
// client's is in X-Forwarded-Host. A client that leaves cancels the request, a
// stream that breaks is cut off at the client, and tokens are passed on as they
// come whatever flush_interval says.
type Transport struct {
	// Name is what the router is known by, to [Stats] and across reloads.
	// Two transports of one name and configuration share a router, and so what
	// is in flight. Default [DefaultName].
	Name string `json:"name,omitempty"`

	Config

	// Router names a router that the program made ([Provide]), in place of a
	// Name and a Config.
	Router string `json:"router,omitempty"`

	// Errors is [AnswerErrors] or [HandleErrors]. Default AnswerErrors.
	Errors string `json:"errors,omitempty"`

	key       fleetKey
	transport http.RoundTripper
}

// CaddyModule returns the Caddy module information.
func (*Transport) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.transport.warmroute",
		New: func() caddy.Module { return new(Transport) },
	}
}

// Provision makes the router and runs it, or finds the one that a configuration
// before this had. It returns the [*warmroute.ConfigError] of a setting that is
// refused.
func (t *Transport) Provision(ctx caddy.Context) error {
	var f *fleet
	var err error
	switch {
	case t.Router == "":
		f, t.key, err = fleetOf(t.name(), t.Config)
	case t.Name != "" || t.set():
		err = &warmroute.ConfigError{Field: "router", Value: t.Router, Allowed: "no other setting but errors beside it"}
	default:
		f, t.key, err = provided(t.Router)
	}
	if err != nil {
		return err
	}
	f.log.current.Store(ctx.Slogger())
	t.transport = f.router.Transport(nil)
	return nil
}

func (t *Transport) name() string {
	if t.Name == "" {
		return DefaultName
	}
	return t.Name
}

// Validate returns a [*warmroute.ConfigError] for an Errors that is neither of
// the two.
func (t *Transport) Validate() error {
	switch t.Errors {
	case "", AnswerErrors, HandleErrors:
		return nil
	}
	return &warmroute.ConfigError{Field: "errors", Value: t.Errors, Allowed: AnswerErrors + " or " + HandleErrors}
}

// Cleanup gives the router back, which is closed if no other configuration has
// it. Requests in flight go on.
func (t *Transport) Cleanup() error {
	if t.key == (fleetKey{}) { // it was not provisioned
		return nil
	}
	_, err := fleets.Delete(t.key)
	return err
}

// RequestHeaderOps has reverse_proxy put the upstream's address in the place of
// the client's Host, before header_up has its turn, so that RoundTrip knows a
// Host that was asked for.
func (*Transport) RequestHeaderOps() *headers.HeaderOps {
	return &headers.HeaderOps{Set: http.Header{"Host": {"{http.reverse_proxy.upstream.hostport}"}}}
}

// RoundTrip sends the request to the replica that the router chooses. Errors of
// the client's doing are returned as they are, for reverse_proxy to know them;
// others are made what Errors says.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	out := req
	if upstream, ok := reverseproxy.GetDialInfo(req.Context()); ok && req.Host == upstream.Address {
		ours := *req // a RoundTripper must not change the caller's
		ours.Host = ""
		out = &ours
	}
	resp, err := t.transport.RoundTrip(out)
	if err == nil {
		resp.Request = req
		return resp, nil
	}
	if errors.Is(req.Context().Err(), context.Canceled) {
		return nil, context.Canceled
	}
	answer := warmroute.ErrorResponse(req, err)
	if t.Errors == HandleErrors {
		return nil, caddyhttp.Error(answer.StatusCode, err)
	}
	return answer, nil
}

// CloseIdleConnections closes those to the engines.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.transport.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

var (
	_ caddy.Provisioner                      = (*Transport)(nil)
	_ caddy.Validator                        = (*Transport)(nil)
	_ caddy.CleanerUpper                     = (*Transport)(nil)
	_ http.RoundTripper                      = (*Transport)(nil)
	_ reverseproxy.RequestHeaderOpsTransport = (*Transport)(nil)
)
