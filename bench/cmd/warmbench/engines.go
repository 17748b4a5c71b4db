package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/warmroute/warmroute/internal/fakevllm"
)

// engineHeader is the response header by which simulated engines name
// themselves.
const engineHeader = "X-Engine"

func engines(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := newFlags("engines", `warmbench engines serves simulated vLLM servers over HTTP, in real time, and prints their base URLs, one a line.
Their answers have the header `+engineHeader+`, which names the engine. The defaults are ten times as fast as the cards
of the published table, so that a run takes a tenth of the time.`, "", stderr)
	var (
		number = flags.Int("n", 4, "how many")
		host   = flags.String("host", "127.0.0.1", "`address` to listen on")
		port   = flags.Int("port", 0, "port of the first one, with the others on the ports behind it; 0 takes any")
		bound  = flags.Duration("for", time.Hour, "how long to serve")
		cfg    fakevllm.Config
		tokens int
	)
	flags.IntVar(&cfg.Ranks, "ranks", 1, "data-parallel ranks of each")
	flags.IntVar(&cfg.MaxNumSeqs, "max-num-seqs", 32, "requests that a rank runs at once")
	flags.IntVar(&tokens, "kv-tokens", 22_000, "KV cache of a rank in `tokens`")
	flags.Float64Var(&cfg.PrefillRate, "prefill-rate", 23_000, "`tokens` a second that a rank prefills")
	flags.DurationVar(&cfg.StepTime, "step-time", 3*time.Millisecond, "least time of an engine's step")
	flags.DurationVar(&cfg.ContextCost, "context-cost", 35*time.Microsecond, "`time` that 1,000 tokens of decoding requests' context add to a step")
	flags.IntVar(&cfg.StreamInterval, "stream-interval", 8, "tokens in an event of a stream; vLLM's is 1")
	flags.StringVar(&cfg.Version, "engine-version", "0.26.0", "the vLLM `version` that they say they are")
	if err := parse(flags, args, false); err != nil {
		return err
	}
	if *number < 1 || *bound <= 0 || tokens < 16 {
		return wrongUsage("-n and -for have to be above 0, -kv-tokens at least 16")
	}
	const block = 16
	cfg.BlockSize, cfg.Blocks = block, tokens/block+1
	ctx, cancel := context.WithTimeout(ctx, *bound)
	defer cancel()
	s := &served{ended: make(chan error, *number)}
	defer s.close()
	for i := range *number {
		at := *port
		if at != 0 {
			at += i
		}
		cfg.Seed = uint64(i)
		url, err := s.start(cfg, strconv.Itoa(i), net.JoinHostPort(*host, strconv.Itoa(at)))
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, url)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.ended:
		return err
	}
}

// served are simulated engines behind sockets.
type served struct {
	ended   chan error
	engines []*fakevllm.Server
	servers []*http.Server
	all     sync.WaitGroup
}

func (s *served) start(cfg fakevllm.Config, name, address string) (url string, err error) {
	engine, err := fakevllm.New(cfg)
	if err != nil {
		return "", &usageError{err: err}
	}
	s.engines = append(s.engines, engine)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return "", err
	}
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(engineHeader, name)
			engine.ServeHTTP(w, r)
		}),
	}
	s.servers = append(s.servers, server)
	s.all.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.ended <- err
		}
	})
	return "http://" + listener.Addr().String(), nil
}

// close ends what is under way and waits.
func (s *served) close() {
	for _, e := range s.engines {
		_ = e.Close() // always nil
	}
	for _, server := range s.servers {
		_ = server.Close() // nothing is left that it could spoil
	}
	s.all.Wait()
}
