package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/balance"
)

type settings struct {
	listen    string
	sessions  string
	endpoints []warmroute.Endpoint
	options   []warmroute.Option

	file   *configFile // nil: the flags say it all
	source *source     // of the file's endpoints
	check  bool        // the file is to be checked only
}

func parse(args []string, output io.Writer) (settings, error) {
	var (
		cfg        settings
		file       string
		spill      = warmroute.Auto
		sticky     = onOff(true)
		ttl        time.Duration
		debug      bool
		untrusted  bool
		maxNumSeqs int
		residency  = warmroute.ResidencyAuto
		turnover   float64
		maxWait    time.Duration
		maxQueue   int
	)
	flags := flag.NewFlagSet("gateway", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&file, "config", "", "JSON `file` that says all that flags say, and more; read again on SIGHUP; no other flag but -listen goes with it")
	flags.BoolVar(&cfg.check, "check-config", false, "check the -config and end")
	flags.StringVar(&cfg.listen, "listen", "127.0.0.1:9000", "`address` to listen on")
	var endpoints []string
	flags.Func("endpoint", "an engine: `URL[,ranks=N][,model=NAME][,engine=NAME]`; repeatable; without ranks or engine they are found out; without any endpoint four ranks are simulated", func(s string) error {
		endpoints = append(endpoints, s)
		return nil
	})
	flags.Var(&sticky, "affinity", "keep conversations on their replica: `on|off`")
	flags.TextVar(&spill, "spill", spill, "requests in flight on a home above which it is left: `auto|N`")
	flags.Func("session-header", "a `header` that names the conversation, before all others; repeatable", func(s string) error {
		cfg.options = append(cfg.options, warmroute.WithSessionHeader(s))
		return nil
	})
	flags.DurationVar(&ttl, "session-ttl", warmroute.DefaultSessionTTL, "how long an idle conversation is remembered")
	flags.StringVar(&cfg.sessions, "sessions", "", "`file` that the conversations' replicas are saved to at shutdown and restored from at start")
	flags.BoolVar(&debug, "debug-headers", false, "add "+warmroute.ReplicaHeader+" and "+warmroute.OutcomeHeader+" to responses")
	flags.BoolVar(&untrusted, "untrusted-clients", false, "take the rank and X-Warmroute- headers off requests")
	flags.IntVar(&maxNumSeqs, "max-num-seqs", 0, "the engines' --max-num-seqs, for -spill auto")
	flags.TextVar(&residency, "residency", residency, "whether turns wait for room where the conversations do not all fit into the prefix caches: `auto|off|TOKENS` of a replica's cache")
	flags.Float64Var(&turnover, "turnover", balance.DefaultTurnover, "how readily conversations that are served give way to those that wait: 0 is the shortest median, 1 the shortest tail")
	flags.DurationVar(&maxWait, "max-wait", balance.DefaultMaxWait, "how long a turn waits for room at most")
	flags.IntVar(&maxQueue, "max-queue", balance.DefaultMaxQueue, "how many turns may wait for room")
	flags.Func("tenant-header", "a `header` by whose value those who wait are served in turn", func(s string) error {
		cfg.options = append(cfg.options, warmroute.WithTenant(affinity.Header(s)))
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	if flags.NArg() > 0 {
		return settings{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if given["config"] {
		return cfg, cfg.useFile(file, given)
	}
	if cfg.check {
		return settings{}, errors.New("-check-config needs a -config")
	}
	for _, s := range endpoints {
		// Not in the flag's function: package flag would quote the value in its
		// error, with the password that may be in it.
		e, err := warmroute.ParseEndpoint(s)
		if err != nil {
			return settings{}, err
		}
		cfg.endpoints = append(cfg.endpoints, e)
	}
	cfg.options = append(cfg.options,
		warmroute.WithAffinity(bool(sticky)),
		warmroute.WithSpill(spill),
		warmroute.WithSessionTTL(ttl),
		warmroute.WithDebugHeaders(debug),
		warmroute.WithUntrustedClients(untrusted),
		warmroute.WithResidency(residency),
		warmroute.WithTurnover(turnover),
		warmroute.WithMaxWait(maxWait),
		warmroute.WithMaxQueue(maxQueue),
	)
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
