package warmotel

import (
	"errors"
	"net/http"

	"go.opentelemetry.io/otel/propagation"

	"github.com/warmroute/warmroute"
)

// Transport returns a transport that has a span for each request that it sends
// through base, which is [warmroute.Router.Transport] of a router that the
// instrumentation is a hook of. If it is no hook, a request's span ends only if the
// request fails.
//
// It keeps the contract of [http.RoundTripper] as base does, and passes responses
// and their bodies on as they are.
func (i *Instrumentation) Transport(base http.RoundTripper) http.RoundTripper {
	return &transport{instrumentation: i, base: base}
}

type transport struct {
	instrumentation *Instrumentation
	base            http.RoundTripper
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, r := t.instrumentation.begin(req)
	out := req.WithContext(ctx)
	out.Header = req.Header.Clone()
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	t.instrumentation.propagator.Inject(ctx, headerCarrier(out.Header))
	returned := false
	defer func() {
		if !returned {
			r.end(ctx, "panic", "the transport panicked")
		}
	}()
	resp, err := t.base.RoundTrip(out)
	returned = true
	if err != nil {
		kind, description := errorOf(ctx, err)
		r.end(ctx, kind, description)
		return nil, err
	}
	resp.Request = req
	return resp, nil
}

// CloseIdleConnections closes those of the base transport.
func (t *transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func headerCarrier(h http.Header) propagation.HeaderCarrier { return propagation.HeaderCarrier(h) }

// clientsFault reports whether an error is what HTTP would answer with a 4xx that
// is the client's doing.
func clientsFault(err error) bool {
	var tooLarge *http.MaxBytesError
	return errors.Is(err, warmroute.ErrUnknownModel) || errors.Is(err, warmroute.ErrClientRank) || errors.As(err, &tooLarge)
}
