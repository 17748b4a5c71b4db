// Package gateway is a gateway to vLLM on echo: an Echo whose wildcard is a
// reverse proxy over a warmroute transport.
package gateway

import (
	"net/http"
	"net/http/httputil"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/warmroute/warmroute"
)

// New returns a gateway that sends every request to one of router's replicas,
// but those below /debug/warmroute/, which are the router's own pages. A body of
// more than maxBody bytes is answered with 413, errors of routing as
// [warmroute.ErrorHandler] does. Add routes and middleware of your own to it.
func New(router *warmroute.Router, maxBody int64) *echo.Echo {
	e := echo.New()
	e.Use(middleware.Recover()) // lets http.ErrAbortHandler through, as a broken stream must
	pages := echo.WrapHandler(http.StripPrefix("/debug/warmroute", router.Handler()))
	e.Any("/debug/warmroute", pages)
	e.Any("/debug/warmroute/*", pages)
	e.Any("/*", echo.WrapHandler(http.MaxBytesHandler(&httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetXForwarded(); p.Out.Host = "" },
		Transport:     router.Transport(nil),
		ErrorHandler:  warmroute.ErrorHandler,
		FlushInterval: -1, // every token at once
	}, maxBody)))
	return e
}
