package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/warmroute/warmroute/bench"
)

// workloads are all that can be named.
func workloads() []struct {
	name, about string
	make        func() bench.Workload
} {
	return []struct {
		name, about string
		make        func() bench.Workload
	}{
		{"seed-table", "that of the published figures: six turns, a shared system prompt, no pauses", bench.SeedTable},
		{"long-context", "conversations that grow to 58,000 tokens on seven replicas", bench.LongContext},
		{"open-loop", "conversations that begin by a Poisson process, so many a minute", bench.OpenLoop},
		{"bursts", "the same, eight at a time", bench.Bursts},
		{"shared-prompt", "many users of one system prompt", bench.SharedPrompt},
		{"two-teams", "many users of two system prompts", bench.TwoTeams},
		{"four-teams", "many users of four system prompts, of which a cache has room for two", bench.FourTeams},
		{"one-after-another", "users of one system prompt, each when the one before has had its answer", bench.OneAfterAnother},
		{"hot-conversation", "one conversation of twelve parallel requests beside ordinary ones", bench.HotConversation},
		{"churn", "replicas that leave and come back cold; simulated only", bench.Churn},
	}
}

func workloadHelp() string {
	var b strings.Builder
	b.WriteString("Workloads:\n")
	for _, w := range workloads() {
		fmt.Fprintf(&b, "  %-24s %s\n", w.name, w.about)
	}
	fmt.Fprintf(&b, "  %-24s %s\n", "trace", "recorded conversations from the file of -trace")
	return b.String()
}

// workloadFlags are the flags that choose a workload and change it.
type workloadFlags struct {
	flags    *flag.FlagSet
	name     string
	file     string
	options  bench.TraceOptions
	reworded bool
	sessions ints
	step     time.Duration
	seeds    ints
}

// add adds the flags. The command trace has no choice of a workload.
func (w *workloadFlags) add(flags *flag.FlagSet, choice bool) {
	w.flags, w.name = flags, "trace"
	if choice {
		flags.StringVar(&w.name, "workload", "seed-table", "`name` of what is sent; see below")
	}
	flags.StringVar(&w.file, "trace", "", "`file` of recorded conversations, one JSON object a line (bench.ReadTrace has the format)")
	flags.Float64Var(&w.options.Speed, "speed", 1, "what the recorded pauses are divided by")
	flags.DurationVar(&w.options.MaxPause, "max-pause", 30*time.Second, "longest recorded `pause` that is kept; -1s keeps all")
	flags.IntVar(&w.options.MaxTurns, "max-turns", 30, "recorded turns of an agent that are taken; -1 takes all")
	flags.IntVar(&w.options.MaxPrompt, "max-prompt", 150_000, "`tokens` of the longest recorded prompt that is sent; -1 sends all")
	flags.IntVar(&w.options.MaxAnswer, "max-answer", 2000, "`tokens` of the longest recorded answer; -1 is no limit")
	flags.BoolVar(&w.reworded, "reworded", false, "clients of recorded conversations send answers back in other words, so that their tokens are in no cache")
	flags.Var(&w.sessions, "sessions", "conversations at a time, a step for each, as `4,8,16`; default: the workload's")
	flags.DurationVar(&w.step, "step", 0, "how long a step lasts, as `3m`; default: the workload's")
}

// addSeeds adds the flag for seeds.
func (w *workloadFlags) addSeeds(flags *flag.FlagSet, about string) {
	flags.Var(&w.seeds, "seeds", about)
}

// make makes the workload.
func (w *workloadFlags) make() (bench.Workload, error) {
	made, err := w.choose()
	if err != nil {
		return bench.Workload{}, err
	}
	if len(w.sessions) > 0 {
		if len(made.Outages) > 0 {
			made.Outages = outagesFor(made.Outages, len(w.sessions))
		}
		made.Steps = w.sessions
	}
	if w.step < 0 {
		return bench.Workload{}, wrongUsage("-step is %v, want more than 0", w.step)
	}
	if w.step > 0 {
		made.StepTime = w.step
	}
	if len(w.seeds) > 0 {
		made.Seeds = nil
		for _, seed := range w.seeds {
			made.Seeds = append(made.Seeds, uint64(seed))
		}
	}
	if len(w.sessions) > 0 || w.step > 0 {
		made.About += fmt.Sprintf(" (changed: steps of %v of %v)", made.Steps, made.StepTime)
	}
	return made, nil
}

// outagesFor gives every one of so many steps the outages of the first one.
func outagesFor(all []bench.Outage, steps int) []bench.Outage {
	var out []bench.Outage
	for step := range steps {
		for _, o := range all {
			if o.Step == 0 {
				o.Step = step
				out = append(out, o)
			}
		}
	}
	return out
}

func (w *workloadFlags) choose() (bench.Workload, error) {
	if w.name == "trace" {
		return w.trace()
	}
	set := given(w.flags)
	for _, name := range []string{"trace", "speed", "max-pause", "max-turns", "max-prompt", "max-answer", "reworded"} {
		if set[name] {
			return bench.Workload{}, wrongUsage("-%s is for the workload trace, not for %q", name, w.name)
		}
	}
	for _, named := range workloads() {
		if named.name == w.name {
			return named.make(), nil
		}
	}
	return bench.Workload{}, wrongUsage("no workload %q", w.name)
}

func (w *workloadFlags) trace() (bench.Workload, error) {
	if w.file == "" {
		return bench.Workload{}, wrongUsage("-trace FILE is missing")
	}
	for _, limit := range []struct {
		name string
		zero bool
	}{
		{"max-pause", w.options.MaxPause == 0}, {"max-turns", w.options.MaxTurns == 0},
		{"max-prompt", w.options.MaxPrompt == 0}, {"max-answer", w.options.MaxAnswer == 0},
	} {
		if limit.zero {
			return bench.Workload{}, wrongUsage("-%s is 0, want more, or less for no limit", limit.name)
		}
	}
	if w.options.Speed == 0 {
		return bench.Workload{}, wrongUsage("-speed is 0, want more")
	}
	f, err := os.Open(w.file)
	if err != nil {
		return bench.Workload{}, err
	}
	defer f.Close()
	sessions, err := bench.ReadTrace(f)
	if err != nil {
		return bench.Workload{}, err
	}
	if w.reworded {
		w.options.Back = bench.Reworded
	}
	made, err := bench.Trace(sessions, w.options)
	if err != nil {
		return bench.Workload{}, &usageError{err: err}
	}
	return made, nil
}
