package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/warmroute/warmroute/bench/report"
)

// Runner runs workloads outside of tests. Its zero value is ready.
type Runner struct {
	// Parallel is the number of simulations that run at the same time. Default,
	// also for a number below 1: runtime.GOMAXPROCS(0).
	Parallel int
	// Progress is told what is about to start, of how many. It is called from
	// several goroutines, one call at a time. It may be nil.
	Progress func(what string, started, of int)
}

// Table runs the workload under every policy and seed. Rows are means over the
// seeds, in the order of the steps and, within a step, of the policies; the load
// over time is that of the first seed. Figures are the same for the same
// workload and seeds, however many simulations run at a time.
//
// It must not be called within a bubble of testing/synctest. The error is the
// cause of the end of ctx, one of a policy that cannot connect, or one that says
// what in the workload or the engines is wrong.
func (r Runner) Table(ctx context.Context, w Workload, policies ...Policy) (report.Table, error) {
	w = w.filled()
	if err := errors.Join(w.check(), w.Engines.check()); err != nil {
		return report.Table{}, err
	}
	var all []*simulation // by policy, then seed, then part
	parts := w.parts()
	for _, p := range policies {
		for _, seed := range w.Seeds {
			for _, steps := range parts {
				all = append(all, &simulation{w: &w, policy: p, seed: seed, steps: steps})
			}
		}
	}
	if err := r.all(ctx, all); err != nil {
		return report.Table{}, err
	}
	t := report.Table{
		Title: w.Name, Workload: w.About, Engines: w.Engines.String(), Seeds: w.Seeds, Published: w.Published,
	}
	for step := range w.Steps {
		for p := range policies {
			var same []report.Row
			for s := range w.Seeds {
				from := (p*len(w.Seeds) + s) * len(parts)
				same = append(same, rowOf(all[from:from+len(parts)], step))
			}
			t.Rows = append(t.Rows, mean(same))
		}
	}
	return t, nil
}

// parts are the steps that have to run one after another.
func (w *Workload) parts() [][]int {
	var parts [][]int
	for i := range w.Steps {
		if i == 0 || w.Cold {
			parts = append(parts, nil)
		}
		last := len(parts) - 1
		parts[last] = append(parts[last], i)
	}
	return parts
}

func rowOf(parts []*simulation, step int) report.Row {
	for _, s := range parts {
		for i, index := range s.steps {
			if index == step {
				return s.rows[i]
			}
		}
	}
	return report.Row{}
}

// all runs simulations, each in a bubble of its own.
func (r Runner) all(ctx context.Context, all []*simulation) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan *simulation)
	var workers sync.WaitGroup
	parallel := r.Parallel
	if parallel < 1 {
		parallel = runtime.GOMAXPROCS(0)
	}
	for range parallel {
		workers.Go(func() {
			for s := range next {
				s.stop = ctx
				var err error
				if stuck := inBubble(func() { err = s.run() }); err != nil || stuck != nil {
					cancel(errors.Join(err, stuck))
				}
			}
		})
	}
	for i, s := range all {
		if ctx.Err() != nil {
			break
		}
		if r.Progress != nil {
			r.Progress(s.String(), i+1, len(all))
		}
		next <- s
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// String says what is simulated.
func (s *simulation) String() string {
	steps := numberOf(s.w.Steps[s.steps[0]])
	if n := len(s.steps); n > 1 {
		steps = fmt.Sprintf("%d to %s", s.w.Steps[s.steps[0]], numberOf(s.w.Steps[s.steps[n-1]]))
	}
	return fmt.Sprintf("%s, %s, seed %d", s.policy.Name, steps, s.seed)
}

func numberOf(sessions int) string {
	if sessions == 1 {
		return "1 session"
	}
	return fmt.Sprintf("%d sessions", sessions)
}

// Run runs the workload under one policy and seed, whatever seeds it has, and
// returns a row for each step. It is otherwise as [Runner.Table].
func Run(ctx context.Context, w Workload, p Policy, seed uint64) ([]report.Row, error) {
	w.Seeds = []uint64{seed}
	t, err := Runner{}.Table(ctx, w, p)
	return t.Rows, err
}
