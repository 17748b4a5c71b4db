package fakevllm

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errEngineDead is what a request gets from an engine that has ended.
var errEngineDead = errors.New("fakevllm: engine has ended")

// engine is one data-parallel rank: a scheduler and the goroutine that lets
// its steps take their time. Requests that come or go during a step are seen
// when it ends.
type engine struct {
	rank int
	cfg  *Config
	log  *runLog
	wake chan struct{} // holds one signal for a loop that waits for work

	mu     sync.Mutex // held for bookkeeping only, never while waiting
	sched  scheduler
	ended  bool
	counts counts
	hold   hold
}

// counts are a rank's totals since the start.
type counts struct {
	requests     int
	finished     [byError + 1]int
	prompt       int // tokens, counted with a request's first token
	cached       int
	generated    int
	stepTokens   histogram
	firstSeconds histogram
}

func newEngine(rank int, cfg *Config, log *runLog) *engine {
	return &engine{
		rank:  rank,
		cfg:   cfg,
		log:   log,
		wake:  make(chan struct{}, 1),
		sched: newScheduler(cfg),
		counts: counts{
			stepTokens:   newHistogram(stepTokenBounds()),
			firstSeconds: newHistogram(firstSecondBounds()),
		},
	}
}

// settleTime is how long an engine waits before it decides on a step. In
// virtual time everything else that happens at the moment when a step ended
// or a request came happens before the decision, so that a run does not depend
// on the order in which goroutines get to go. The step's time includes it.
const settleTime = time.Nanosecond

// loop steps until ctx ends. It sleeps while there is nothing to do.
func (e *engine) loop(ctx context.Context) {
	defer e.end()
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	for {
		began := time.Now()
		timer.Reset(settleTime)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if !e.awaitFreed(ctx) {
			return
		}
		st := e.begin()
		if st.tokens == 0 {
			select {
			case <-e.wake:
			case <-ctx.Done():
				return
			}
			continue
		}
		timer.Reset(e.cfg.stepTime(st) - time.Since(began))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		e.complete()
	}
}

func (e *engine) begin() step {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropAborted()
	return e.sched.schedule()
}

func (e *engine) dropAborted() {
	for _, q := range e.sched.dropAborted() {
		e.settle(q, time.Now())
	}
}

func (e *engine) complete() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	advanced := e.sched.complete()
	tokens := 0
	for _, q := range advanced {
		e.counts.generated++
		tokens++
		if q.generated == 1 {
			q.firstToken = now
			e.counts.prompt += q.prompt
			e.counts.cached += q.cached
			e.counts.firstSeconds.observe(now.Sub(q.arrived).Seconds())
			tokens += q.prompt - q.cached
		}
		if q.finish != unfinished {
			e.settle(q, now)
		} else if q.shown() == q.generated {
			q.signal()
		}
	}
	if len(advanced) > 0 {
		// As in vLLM, a step that gave nobody a token leaves no observation,
		// and a prompt counts as a whole in the step that ends it.
		e.counts.stepTokens.observe(float64(tokens))
	}
}

// end fails what is left.
func (e *engine) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	e.dropAborted()
	for _, q := range e.sched.empty(byError) {
		e.settle(q, time.Now())
	}
}

// settle accounts for a sequence that left the scheduler.
func (e *engine) settle(q *sequence, now time.Time) {
	e.counts.finished[q.finish]++
	e.log.add(Run{
		Rank: e.rank, Path: q.path, Session: q.session,
		PromptTokens: q.prompt, CachedTokens: q.cached, GenerationTokens: q.generated,
		FinishReason: q.finish.String(),
		Arrived:      q.arrived, FirstToken: q.firstToken, Ended: now,
	})
	q.signal()
}

// submit queues a sequence.
func (e *engine) submit(q *sequence) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return errEngineDead
	}
	q.arrived = time.Now()
	e.counts.requests++
	e.sched.add(q)
	e.nudge()
	return nil
}

// abort ends a sequence whose client is gone; none that has finished.
func (e *engine) abort(q *sequence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sched.abort(q)
	e.nudge()
}

// nudge wakes the loop, or leaves a signal for its next wait.
func (e *engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// progress is what a request's handler sees of its sequence.
type progress struct {
	generated int
	cached    int
	finish    finish
}

// wait returns when q has more than have tokens to show or has finished, or
// with the cause of ctx's end.
func (e *engine) wait(ctx context.Context, q *sequence, have int) (progress, error) {
	for {
		if ctx.Err() != nil {
			return progress{}, context.Cause(ctx)
		}
		e.mu.Lock()
		p := progress{generated: q.shown(), cached: q.cached, finish: q.finish}
		e.mu.Unlock()
		if p.generated > have || p.finish != unfinished {
			return p, nil
		}
		select {
		case <-q.news:
		case <-ctx.Done():
		}
	}
}

// load returns the numbers of running and waiting requests.
func (e *engine) load() (running, waiting int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sched.running), len(e.sched.waiting)
}
