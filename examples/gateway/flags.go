package main

import (
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/warmroute/warmroute"
)

type config struct {
	listen    string
	sessions  string
	endpoints []warmroute.Endpoint
	options   []warmroute.Option
}

func parse(args []string, output io.Writer) (config, error) {
	var (
		cfg        config
		spill      = warmroute.Auto
		affinity   = onOff(true)
		ttl        time.Duration
		debug      bool
		maxNumSeqs int
	)
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&cfg.listen, "listen", "127.0.0.1:9000", "`address` to listen on")
	var endpoints []string
	flags.Func("endpoint", "an engine: `URL[,ranks=N][,model=NAME][,engine=NAME]`; repeatable; without ranks or engine they are found out; without any endpoint four ranks are simulated", func(s string) error {
		endpoints = append(endpoints, s)
		return nil
	})
	flags.Var(&affinity, "affinity", "keep conversations on their replica: `on|off`")
	flags.TextVar(&spill, "spill", spill, "requests in flight on a home above which it is left: `auto|N`")
	flags.Func("session-header", "a `header` that names the conversation, before all others; repeatable", func(s string) error {
		cfg.options = append(cfg.options, warmroute.WithSessionHeader(s))
		return nil
	})
	flags.DurationVar(&ttl, "session-ttl", warmroute.DefaultSessionTTL, "how long an idle conversation is remembered")
	flags.StringVar(&cfg.sessions, "sessions", "", "`file` that the conversations' replicas are saved to at shutdown and restored from at start")
	flags.BoolVar(&debug, "debug-headers", false, "add "+warmroute.ReplicaHeader+" and "+warmroute.OutcomeHeader+" to responses")
	flags.IntVar(&maxNumSeqs, "max-num-seqs", 0, "the engines' --max-num-seqs, for -spill auto")
	if err := flags.Parse(args); err != nil {
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for _, s := range endpoints {
		// Not in the flag's function: package flag would quote the value in its
		// error, with the password that may be in it.
		e, err := warmroute.ParseEndpoint(s)
		if err != nil {
			return config{}, err
		}
		cfg.endpoints = append(cfg.endpoints, e)
	}
	cfg.options = append(cfg.options,
		warmroute.WithAffinity(bool(affinity)),
		warmroute.WithSpill(spill),
		warmroute.WithSessionTTL(ttl),
		warmroute.WithDebugHeaders(debug),
	)
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if given["max-num-seqs"] {
		cfg.options = append(cfg.options, warmroute.WithMaxNumSeqs(maxNumSeqs))
	}
	return cfg, nil
}

// onOff is a flag that is written on or off.
type onOff bool

func (v *onOff) String() string {
	if *v {
		return "on"
	}
	return "off"
}

func (v *onOff) Set(s string) error {
	switch s {
	case "on":
		*v = true
	case "off":
		*v = false
	default:
		return fmt.Errorf("%q is neither on nor off", s)
	}
	return nil
}
