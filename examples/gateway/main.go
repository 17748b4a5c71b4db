// Gateway is a complete small reverse proxy for vLLM on warmroute and net/http.
//
//	go run ./examples/gateway -endpoint http://10.0.0.1:8000 -endpoint http://10.0.0.2:8000,ranks=4
//
// Without an endpoint it starts a simulated engine of four ranks to play with.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/warmroute/warmroute"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the program at once
	}()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends and then lets the streams finish.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cfg, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if cfg.check {
		fmt.Fprintf(stdout, "%s: no mistakes\n", cfg.file.path)
		return nil
	}
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	model := "your-model"
	if len(cfg.endpoints) == 0 && cfg.file == nil {
		sim, err := startSimulation()
		if err != nil {
			return err
		}
		defer sim.close()
		model = sim.model
		cfg.endpoints = []warmroute.Endpoint{{URL: sim.url}}
		fmt.Fprintf(stdout, "no -endpoint given: simulating four ranks of model %q on %s\n", model, sim.url)
	}
	if len(cfg.endpoints) > 0 && cfg.endpoints[0].Model != "" {
		model = cfg.endpoints[0].Model
	}
	router, err := warmroute.New(cfg.endpoints, append(cfg.options, warmroute.WithLogger(logger))...)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer router.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hangup := make(chan os.Signal, 1)
	if cfg.file != nil {
		signal.Notify(hangup, syscall.SIGHUP)
		defer signal.Stop(hangup)
		// Some of the endpoints may be draining.
		if err := router.SetEndpoints(cfg.file.settings.Targets); err != nil {
			return err
		}
	}
	// The ranks should be known before the first request; if an engine does not
	// answer now, Run goes on asking.
	if err := router.Scrape(ctx); err != nil {
		logger.Warn("starting without all metrics", "err", err)
	}
	if cfg.sessions != "" {
		restoreSessions(router, cfg.sessions, logger)
	}
	listener, err := net.Listen("tcp", cfg.listen)
	if err != nil {
		return err
	}
	running.Go(func() {
		if err := router.Run(ctx); err != nil && !errors.Is(err, warmroute.ErrClosed) {
			logger.Error("router stopped", "err", err)
		}
	})
	if cfg.file != nil {
		reload := &reloader{file: *cfg.file, router: router, source: cfg.source, logger: logger}
		running.Go(func() { reload.run(ctx, hangup) })
	}
	address := "http://" + listener.Addr().String()
	fmt.Fprintf(stdout, `listening on %s
try:    curl -i %s/v1/chat/completions -H 'Content-Type: application/json' -H 'X-Session-Id: demo' \
          -d "{\"model\":\"%s\",\"max_tokens\":16,\"messages\":[{\"role\":\"user\",\"content\":\"$(seq -s ' ' 400)\"}]}"
        twice: the second answer's usage has cached_tokens (-debug-headers shows the replica, too)
page:   %s/debug/warmroute/
`, address, address, model, address)

	server := &http.Server{Handler: newHandler(router, logger), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelWarn)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	fmt.Fprintln(stdout, "shutting down: streams may finish; interrupt again to end at once")
	if err := server.Shutdown(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if cfg.sessions != "" {
		return saveSessions(router, cfg.sessions)
	}
	return nil
}
