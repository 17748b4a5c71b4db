package gatewaytest_test

import (
	"net/http"
	"net/http/httputil"
	"testing"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/internal/gatewaytest"
)

// TestReverseProxy is the gateway of the README.
func TestReverseProxy(t *testing.T) {
	gatewaytest.Run(t, gatewaytest.Gateway{Serve: gatewaytest.Handler(func(router *warmroute.Router, maxBody int64) http.Handler {
		return http.MaxBytesHandler(&httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetXForwarded(); r.Out.Host = "" },
			Transport:     router.Transport(nil),
			ErrorHandler:  warmroute.ErrorHandler,
			FlushInterval: -1,
		}, maxBody)
	})})
}
