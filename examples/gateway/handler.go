package main

import (
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"

	"github.com/warmroute/warmroute"
)

const debugPath = "/debug/warmroute"

// newHandler sends everything to the replicas but the router's own pages.
func newHandler(router *warmroute.Router, logger *slog.Logger) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetXForwarded()
			r.Out.Host = "" // the replica's own; the transport sets the URL
		},
		Transport:     router.Transport(nil),
		ErrorHandler:  warmroute.ErrorHandler,
		ErrorLog:      slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
		FlushInterval: -1, // every token at once
	}
	pages := http.StripPrefix(debugPath, router.Handler())
	// No http.ServeMux: it would redirect a path such as //v1/models, which is
	// the replica's to judge.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == debugPath:
			http.Redirect(w, r, debugPath+"/", http.StatusMovedPermanently)
		case strings.HasPrefix(r.URL.Path, debugPath+"/"):
			pages.ServeHTTP(w, r)
		default:
			proxy.ServeHTTP(w, r)
		}
	})
}
