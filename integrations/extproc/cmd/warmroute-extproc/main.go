// Command warmroute-extproc is Envoy's external processor that keeps each
// conversation on the replica whose prefix cache holds its history.
//
//	warmroute-extproc -endpoint http://10.0.0.1:8000 -endpoint http://10.0.0.2:8000,ranks=4
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/integrations/extproc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "warmroute-extproc:", err)
		os.Exit(1)
	}
}

// settings are the flags.
type settings struct {
	listen, stats string
	endpoints     []warmroute.Endpoint
	names         bool
	maxBody       int
	drain         time.Duration
	filter        extproc.Config
	options       []warmroute.Option
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("warmroute-extproc", flag.ContinueOnError)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:9002", "`address` to serve gRPC on")
	flags.StringVar(&s.stats, "stats", "", "`address` to serve the router's pages on; none if empty")
	flags.Func("endpoint", "`URL[,ranks=N][,model=NAME][,engine=NAME]` of a server; repeatable", func(v string) error {
		e, err := warmroute.ParseEndpoint(v)
		s.endpoints = append(s.endpoints, e)
		return err
	})
	flags.BoolVar(&s.names, "names", false, "take endpoints whose host is a name, for a cluster that resolves it: an ORIGINAL_DST one does not")
	flags.IntVar(&s.maxBody, "max-body", 64<<20, "`bytes` of the largest request body that Envoy buffers")
	flags.DurationVar(&s.drain, "drain", 30*time.Second, "`time` that requests have to end at shutdown")
	flags.StringVar(&s.filter.DestinationHeader, "destination-header", extproc.DefaultDestinationHeader, "`name` of the header for the replica's address")
	flags.DurationVar(&s.filter.MessageTimeout, "message-timeout", extproc.DefaultMessageTimeout, "the filter's message_timeout")
	flags.DurationVar(&s.filter.MaxMessageTimeout, "max-message-timeout", 0, "the filter's max_message_timeout; 0 if it has none")
	spill, residency := warmroute.Auto, warmroute.ResidencyAuto
	flags.TextVar(&spill, "spill", spill, "auto, or the `number` of requests in flight on a home above which it is left")
	flags.TextVar(&residency, "residency", residency, "auto, off, or `tokens` of a replica's cache")
	flags.Func("session-header", "`name` of a header looked at before all others; repeatable", func(v string) error {
		s.options = append(s.options, warmroute.WithSessionHeader(v))
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	s.options = append(s.options, warmroute.WithSpill(spill), warmroute.WithResidency(residency))
	if flags.NArg() > 0 {
		return settings{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if s.maxBody < 1 {
		return settings{}, &warmroute.ConfigError{Field: "max-body", Value: fmt.Sprint(s.maxBody), Allowed: "more than 0"}
	}
	return s, nil
}

// run serves until ctx ends, and then has requests end.
func run(ctx context.Context, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	router, err := warmroute.New(s.endpoints, append(s.options, warmroute.WithLogger(slog.Default()))...)
	if err != nil {
		return err
	}
	defer func() { _ = router.Close() }() // it returns no error that is of use now
	if !s.names {
		for _, r := range router.Replicas() {
			if _, err := netip.ParseAddr(r.URL().Hostname()); err != nil {
				return &warmroute.ConfigError{Field: "endpoint", Value: r.URL().String(), Allowed: "a host that is an IP address, or -names"}
			}
		}
	}
	processor, err := extproc.New(router, s.filter)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(s.maxBody + 1<<20)) // and the message around it
	processor.Register(server)
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())

	failed := make(chan error, 3)
	go func() { failed <- router.Run(ctx) }()
	go func() { failed <- server.Serve(listener) }()
	var pages *http.Server
	if s.stats != "" {
		pages = &http.Server{Addr: s.stats, Handler: router.Handler(), ReadHeaderTimeout: 5 * time.Second}
		go func() { failed <- pages.ListenAndServe() }()
		defer func() { _ = pages.Close() }() // nobody waits for a page
	}
	slog.Info("serving", "address", listener.Addr().String(), "endpoints", len(s.endpoints))
	select {
	case err = <-failed:
		if ctx.Err() != nil { // the router's Run has ended with it
			err = nil
		}
	case <-ctx.Done():
	}
	hurry := time.AfterFunc(s.drain, server.Stop)
	defer hurry.Stop()
	server.GracefulStop()
	return err
}
