package selector_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"testing"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/integrations/selector"
	"github.com/warmroute/warmroute/internal/gatewaytest"
)

// gateway asks the selector where to send each request through its own
// transport.
func gateway(router *warmroute.Router, transport http.RoundTripper, maxBody int64) http.Handler {
	selects := selector.New(router)
	return http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			warmroute.ErrorHandler(w, r, err)
			return
		}
		sel, err := selects.Select(r.Context(), selector.Request{Path: r.URL.Path, Header: r.Header, Body: body})
		if err != nil {
			warmroute.ErrorHandler(w, r, err)
			return
		}
		(&httputil.ReverseProxy{
			Rewrite: func(p *httputil.ProxyRequest) {
				p.SetXForwarded()
				query := p.Out.URL.RawQuery
				p.Out.URL, p.Out.Host, p.Out.Body = sel.URL, "", io.NopCloser(bytes.NewReader(body))
				p.Out.URL.RawQuery = query
				maps.Copy(p.Out.Header, sel.Set)
				for _, name := range sel.Remove {
					p.Out.Header.Del(name)
				}
			},
			Transport:     transport,
			FlushInterval: -1,
			ModifyResponse: func(resp *http.Response) error {
				resp.Body = sel.Answered(resp.StatusCode, resp.Header).Reader(resp.Body)
				return nil
			},
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
				sel.Done(selector.Outcome{Err: err})
				var dial *net.OpError
				if errors.As(err, &dial) && dial.Op == "dial" {
					err = fmt.Errorf("%w: %w", warmroute.ErrNoReplica, err)
				}
				warmroute.ErrorHandler(w, r, err)
			},
		}).ServeHTTP(w, r)
	}), maxBody)
}

func TestGateway(t *testing.T) {
	gatewaytest.Run(t, gatewaytest.Gateway{Serve: func(t *testing.T, router *warmroute.Router, maxBody int64) string {
		transport := &http.Transport{MaxIdleConnsPerHost: 100}
		t.Cleanup(transport.CloseIdleConnections)
		return gatewaytest.Handler(func(router *warmroute.Router, maxBody int64) http.Handler {
			return gateway(router, transport, maxBody)
		})(t, router, maxBody)
	}})
}
