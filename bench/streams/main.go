// Streams measures what a gateway costs that holds many streams at once: memory
// a stream, processor time, and how much later each chunk arrives.
//
//	go run ./bench/streams -gateway /path/to/gateway
//
// It starts an engine that writes a chunk with the time in it to each stream now
// and then, and, one after another, nothing, the gateway of examples/gateway,
// httputil.ReverseProxy alone, and HAProxy if it is there, in front of it. Each
// is a process of its own, so that its memory is its own; the client is this
// one. The table is Markdown.
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
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "streams:", err)
		os.Exit(1)
	}
}

// load is what is sent through each.
type load struct {
	streams  int
	chunks   int
	interval time.Duration
	ramp     time.Duration // in which the streams begin
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var (
		l                      load
		role, target, listen   string
		gateway, haproxy, only string
	)
	flags := flag.NewFlagSet("streams", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&l.streams, "streams", 2000, "how many `streams` there are at once")
	flags.IntVar(&l.chunks, "chunks", 20, "how many `chunks` each has")
	flags.DurationVar(&l.interval, "interval", time.Second, "from one chunk of a stream to the next")
	flags.DurationVar(&l.ramp, "ramp", 5*time.Second, "in which the streams begin")
	flags.StringVar(&gateway, "gateway", "", "the program of examples/gateway; without it it is left out")
	flags.StringVar(&haproxy, "haproxy", "haproxy", "the program of HAProxy; left out if it is not there")
	flags.StringVar(&only, "only", "", "measure this one alone: direct, warmroute, reverseproxy or haproxy")
	flags.StringVar(&role, "role", "", "for its own processes: engine or reverseproxy")
	flags.StringVar(&listen, "listen", "", "for its own processes")
	flags.StringVar(&target, "target", "", "for its own processes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch role {
	case "engine":
		return serveEngine(ctx, listen, l)
	case "reverseproxy":
		return serveReverseProxy(ctx, listen, target)
	case "":
	default:
		return fmt.Errorf("unknown role %q", role)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if l.streams < 1 || l.chunks < 2 || l.interval <= 0 || l.ramp < 0 {
		return errors.New("want 1 stream, 2 chunks and some interval at least")
	}
	c := comparison{load: l, stdout: stdout, stderr: &shared{w: stderr}}
	return c.run(ctx, gateway, haproxy, only)
}
