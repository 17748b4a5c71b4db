package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/warmroute/warmroute/bench/internal/minengine"
)

// serveUntil serves until ctx ends.
func serveUntil(ctx context.Context, listen string, h http.Handler) error {
	server := &http.Server{Addr: listen, Handler: h, ReadHeaderTimeout: 30 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func serveEngine(ctx context.Context, listen string, l load) error {
	return serveUntil(ctx, listen, &minengine.Engine{Chunks: l.chunks, Interval: l.interval})
}

// serveReverseProxy is the least that a gateway in Go can be.
func serveReverseProxy(ctx context.Context, listen, target string) error {
	to, err := url.Parse(target)
	if err != nil {
		return err
	}
	return serveUntil(ctx, listen, &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetXForwarded()
			r.SetURL(to)
		},
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
		FlushInterval: -1,
	})
}
