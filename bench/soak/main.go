// Soak sends very many requests through a gateway on loopback, most of them
// streamed, some given up and some that the engine fails, and shows whether
// anything grows: heap, goroutines and file descriptors, by tenth.
//
//	go run ./bench/soak -requests 1000000
//
// Client, gateway and engine are one process, so that a leak anywhere on the
// way shows. Everything stands still when it is counted, and idle connections
// are closed. The exit status is 1 if the last tenth has more than the second.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var s soak
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&s.requests, "requests", 1_000_000, "how many `requests` are sent")
	flags.IntVar(&s.clients, "clients", 64, "how many `clients` send them")
	flags.IntVar(&s.turns, "turns", 20, "how many `turns` a conversation has")
	flags.IntVar(&s.sessions, "sessions", 10_000, "how many conversations the router may remember")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if s.requests < 10 || s.clients < 1 || s.turns < 1 || s.sessions < 1 {
		return errors.New("want 10 requests or more, and 1 of everything else")
	}
	samples, err := s.run(ctx, stdout)
	if err != nil {
		return err
	}
	return flat(samples)
}
