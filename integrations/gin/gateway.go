// Package gateway is a gateway to vLLM on gin: a gin engine whose NoRoute is a
// reverse proxy over a warmroute transport.
package gateway

import (
	"errors"
	"net/http"
	"net/http/httputil"

	"github.com/gin-gonic/gin"

	"github.com/warmroute/warmroute"
)

// New returns a gateway that sends every request to one of router's replicas,
// but those below /debug/warmroute/, which are the router's own pages. A body of
// more than maxBody bytes is answered with 413, errors of routing as
// [warmroute.ErrorHandler] does. Add routes and middleware of your own to it.
func New(router *warmroute.Router, maxBody int64) *gin.Engine {
	r := gin.New()
	r.Use(Abort, gin.Recovery())
	r.Any("/debug/warmroute/*page", gin.WrapH(http.StripPrefix("/debug/warmroute", router.Handler())))
	r.NoRoute(gin.WrapH(http.MaxBytesHandler(&httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetXForwarded(); p.Out.Host = "" },
		Transport:     router.Transport(nil),
		ErrorHandler:  warmroute.ErrorHandler,
		FlushInterval: -1, // every token at once
	}, maxBody)))
	return r
}

// Abort is a middleware for outside of gin.Recovery, which takes the
// http.ErrAbortHandler of a reverse proxy whose engine broke off for a client
// that has left: the body would be ended as if it were whole, and half an
// answer pass for one (seen with gin 1.12). Abort breaks the connection.
func Abort(c *gin.Context) {
	c.Next()
	if last := c.Errors.Last(); last != nil && errors.Is(last.Err, http.ErrAbortHandler) {
		panic(http.ErrAbortHandler)
	}
}
