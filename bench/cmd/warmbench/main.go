// Warmbench compares routing policies for LLM engines and prints a table: in a
// simulation, with recorded conversations, or over HTTP against engines that are
// there.
//
//	go run ./bench/cmd/warmbench sim -sessions 4,8 -policies off,affinity
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

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

const usage = `warmbench compares routing policies for LLM engines: the same conversations under each, and a table
of what came of it. Failed requests are a column of the table, not a failure of warmbench.

  warmbench sim       simulated engines in virtual time: minutes of load take seconds
  warmbench trace     the same, with recorded conversations from a file
  warmbench live      the same conversations over HTTP, in real time, against engines, gateways and routers
  warmbench engines   serve simulated engines over HTTP, to try live on
  warmbench show      print tables that were written with -json, together

"warmbench COMMAND -h" lists a command's flags. Exit status: 0 done, 1 failed or interrupted, 2 wrong usage.

The published table:                warmbench sim
One of your own in a browser:       warmbench sim -workload two-teams -policies off,affinity,rendezvous -html table.html
Your vLLM, straight and by gateway: warmbench live -sessions 4,8 -step 1m -metrics http://vllm:8000 \
                                      -target direct=http://vllm:8000 -target gateway=http://gateway:9000
`

// command is one of the things that warmbench does.
type command func(ctx context.Context, args []string, stdout, stderr io.Writer) error

func commands() map[string]command {
	return map[string]command{"sim": sim, "trace": trace, "live": live, "engines": engines, "show": show}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the program at once
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	do, ok := commands()[args[0]]
	switch {
	case ok:
	case args[0] == "help" || args[0] == "-h" || args[0] == "-help" || args[0] == "--help":
		fmt.Fprint(stdout, usage)
		return exitDone
	default:
		fmt.Fprintf(stderr, "warmbench: no command %q\n\n%s", args[0], usage)
		return exitUsage
	}
	err := do(ctx, args[1:], stdout, stderr)
	var wrong *usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitDone
	case errors.As(err, &wrong):
		if !wrong.said {
			fmt.Fprintf(stderr, "warmbench %s: %v\n", args[0], err)
		}
		fmt.Fprintf(stderr, "\"warmbench %s -h\" lists the flags.\n", args[0])
		return exitUsage
	default:
		fmt.Fprintf(stderr, "warmbench %s: %v\n", args[0], err)
		return exitFailed
	}
}

// usageError is the error for a command line that makes no sense.
type usageError struct {
	err  error
	said bool // package flag has written it
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func wrongUsage(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}
