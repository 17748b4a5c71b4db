package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"time"

	"github.com/warmroute/warmroute/bench"
)

func sim(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return simulate(ctx, "sim", "warmbench sim compares policies on simulated engines, in virtual time. The same seeds give the same\nfigures, to the byte.", true, args, stdout, stderr)
}

func trace(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return simulate(ctx, "trace", "warmbench trace compares policies on simulated engines, in virtual time, with recorded conversations.", false, args, stdout, stderr)
}

func simulate(ctx context.Context, name, about string, choice bool, args []string, stdout, stderr io.Writer) error {
	after := policyHelp()
	if choice {
		after = workloadHelp() + "\n" + after
	}
	flags := newFlags(name, about, after, stderr)
	var (
		workload workloadFlags
		engines  engineFlags
		out      output
		parallel int
		chosen   = words{all: []string{"off", "affinity"}}
	)
	workload.add(flags, choice)
	workload.addSeeds(flags, "runs, a seed for each, as `1,2,3`; a row is their mean; default: the workload's")
	flags.Var(&chosen, "policies", "`names` of what is compared; see below")
	flags.IntVar(&parallel, "parallel", 0, "simulations at the same time; default: as many as there are processors")
	engines.add(flags)
	out.add(flags)
	if err := parse(flags, args, false); err != nil {
		return err
	}
	if parallel < 0 {
		return wrongUsage("-parallel is %d, want more than 0", parallel)
	}
	var compared []bench.Policy
	for _, name := range chosen.all {
		p, err := policyByName(name)
		if err != nil {
			return &usageError{err: err}
		}
		compared = append(compared, p)
	}
	w, err := workload.make()
	if err != nil {
		return err
	}
	engines.change(&w, given(flags))
	shown := &progress{w: stderr}
	table, err := bench.Runner{Parallel: parallel, Progress: shown.step}.Table(ctx, w, compared...)
	if err = errors.Join(err, shown.close()); err != nil {
		return err
	}
	return out.write(&table, stdout)
}

// engineFlags change a workload's engines.
type engineFlags struct {
	engines bench.Engines
}

func (e *engineFlags) add(flags *flag.FlagSet) {
	const also = "; default: the workload's"
	flags.IntVar(&e.engines.Endpoints, "endpoints", 0, "simulated servers"+also)
	flags.IntVar(&e.engines.Ranks, "ranks", 0, "data-parallel ranks of each server"+also)
	flags.IntVar(&e.engines.MaxNumSeqs, "max-num-seqs", 0, "requests that a rank runs at once"+also)
	flags.IntVar(&e.engines.KVTokens, "kv-tokens", 0, "KV cache of a rank in `tokens`"+also)
	flags.Float64Var(&e.engines.PrefillRate, "prefill-rate", 0, "`tokens` a second that a rank prefills"+also)
	flags.DurationVar(&e.engines.StepTime, "step-time", 0, "least time of an engine's step, as `30ms`"+also)
	flags.DurationVar(&e.engines.ContextCost, "context-cost", 0, "`time` that 1,000 tokens of decoding requests' context add to a step"+also)
	flags.BoolVar(&e.engines.MoE, "moe", false, "a mixture of experts, whose ranks tell vLLM's own balancing how busy they are")
}

// change changes what is given.
func (e *engineFlags) change(w *bench.Workload, given map[string]bool) {
	set(given["endpoints"], &w.Engines.Endpoints, e.engines.Endpoints)
	set(given["ranks"], &w.Engines.Ranks, e.engines.Ranks)
	set(given["ranks"], &w.Engines.APIServers, e.engines.Ranks)
	set(given["max-num-seqs"], &w.Engines.MaxNumSeqs, e.engines.MaxNumSeqs)
	set(given["kv-tokens"], &w.Engines.KVTokens, e.engines.KVTokens)
	set(given["prefill-rate"], &w.Engines.PrefillRate, e.engines.PrefillRate)
	set(given["step-time"], &w.Engines.StepTime, e.engines.StepTime)
	set(given["context-cost"], &w.Engines.ContextCost, e.engines.ContextCost)
	set(given["moe"], &w.Engines.MoE, e.engines.MoE)
	if len(given) > 0 {
		w.Engines.Name = changedName(w.Engines.Name, given)
	}
}

// changedName takes the name of cards away from engines that are others.
func changedName(name string, given map[string]bool) string {
	for _, flag := range []string{"endpoints", "ranks", "max-num-seqs", "kv-tokens", "prefill-rate", "step-time", "context-cost", "moe"} {
		if given[flag] {
			return "changed engines"
		}
	}
	return name
}

func set[T int | float64 | bool | time.Duration](given bool, to *T, value T) {
	if given {
		*to = value
	}
}
