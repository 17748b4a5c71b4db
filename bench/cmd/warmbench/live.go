package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/warmroute/warmroute"
	"github.com/warmroute/warmroute/bench"
)

func live(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := newFlags("live", `warmbench live sends a workload to servers that are there, in real time: to engines straight, through a
gateway, or through somebody else's router, one target after another. Every request is a streamed chat
completion. The engines should have nothing else to do; interrupted, it prints the steps that were complete.`, workloadHelp(), stderr)
	var (
		workload   workloadFlags
		out        output
		run        bench.Live
		targets    []bench.Target
		metrics    = words{more: true}
		tokenBytes float64
		published  bool
		header     = http.Header{}
	)
	workload.add(flags, true)
	workload.seeds = ints{1}
	workload.addSeeds(flags, "runs, a seed for each, as `1,2,3`; a row is their mean")
	flags.Func("target", "what is compared, as `NAME=URL[,URL...]` without /v1; repeatable; of several URLs each client has one", func(s string) error {
		name, urls, ok := strings.Cut(s, "=")
		if !ok || name == "" || urls == "" {
			return errors.New("want NAME=URL")
		}
		t := bench.Target{Name: name}
		for _, u := range strings.Split(urls, ",") {
			if !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
				return fmt.Errorf("%q is no http URL", u)
			}
			t.URLs = append(t.URLs, strings.TrimSuffix(u, "/"))
		}
		targets = append(targets, t)
		return nil
	})
	flags.Var(&metrics, "metrics", "base `URLs` of all engines, whose /metrics pages are read; without them there is no hit share")
	flags.StringVar(&run.Model, "model", "", "`name` of the model; default: the first that the first target lists")
	flags.StringVar(&run.SessionHeader, "session-header", "X-Session-Id", "request `header` that names the conversation")
	flags.StringVar(&run.ReplicaHeader, "replica-header", warmroute.ReplicaHeader, "response `header` that names the replica, for the stayed share")
	flags.Func("header", "a `NAME: VALUE` to add to all requests; repeatable", func(s string) error {
		name, value, ok := strings.Cut(s, ":")
		if !ok || name == "" {
			return errors.New("want NAME: VALUE")
		}
		header.Add(name, strings.TrimSpace(value))
		return nil
	})
	flags.BoolVar(&run.IgnoreEOS, "ignore-eos", false, "ask for answers of exactly the workload's length (vLLM, SGLang)")
	flags.IntVar(&run.MaxRequests, "max-requests", bench.DefaultMaxRequests, "requests that end a step early")
	flags.DurationVar(&run.Drain, "drain", bench.DefaultDrain, "how long the answers may take that are under way when a step is over")
	flags.StringVar(&run.Salt, "salt", "", "`text` that the words depend on; default: another one each time, so that earlier runs have left nothing in the caches")
	flags.Float64Var(&tokenBytes, "token-bytes", 0, "size of a token of text in `bytes`; default: found out with two short requests")
	flags.BoolVar(&published, "published", false, "put the published figures of the workload beside those measured")
	out.add(flags)
	if err := parse(flags, args, false); err != nil {
		return err
	}
	switch {
	case len(targets) == 0:
		return wrongUsage("-target NAME=URL is missing")
	case run.MaxRequests < 1 || run.Drain <= 0 || !(tokenBytes >= 0 && tokenBytes <= 1000):
		return wrongUsage("-max-requests and -drain have to be above 0, -token-bytes from 0 to 1000")
	}
	w, err := workload.make()
	if err != nil {
		return err
	}
	w.TokenBytes = tokenBytes
	if !published {
		w.Published = nil
	}
	run.Metrics, run.Header = metrics.all, header
	shown := &progress{w: stderr}
	run.Progress, run.Update = shown.step, shown.update
	table, err := run.Table(ctx, w, targets...)
	err = errors.Join(err, shown.close())
	if len(table.Rows) == 0 {
		return err
	}
	return errors.Join(err, out.write(&table, stdout))
}
