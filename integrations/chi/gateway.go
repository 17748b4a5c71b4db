// Package gateway is a gateway to vLLM on chi: a chi router whose wildcard is a
// reverse proxy over a warmroute transport.
package gateway

import (
	"net/http"
	"net/http/httputil"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"

	"github.com/warmroute/warmroute"
)

// New returns a gateway that sends every request to one of router's replicas,
// but those below /debug/warmroute/, which are the router's own pages. A body of
// more than maxBody bytes is answered with 413, errors of routing as
// [warmroute.ErrorHandler] does. Add routes and middleware of your own to it.
func New(router *warmroute.Router, maxBody int64) *chi.Mux {
	r := chi.NewRouter()
	r.Use(middleware.Recoverer) // lets http.ErrAbortHandler through, as a broken stream must
	r.Mount("/debug/warmroute", http.StripPrefix("/debug/warmroute", router.Handler()))
	r.Handle("/*", http.MaxBytesHandler(&httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetXForwarded(); p.Out.Host = "" },
		Transport:     router.Transport(nil),
		ErrorHandler:  warmroute.ErrorHandler,
		FlushInterval: -1, // every token at once
	}, maxBody))
	return r
}
