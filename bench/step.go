package bench

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// turnRecord is one request as its client saw it.
type turnRecord struct {
	conversation string
	sent         time.Time
	first        time.Time // zero if no token came
	ended        time.Time
	failed       bool
	failure      string // what it failed with
	replica      string // as the answer's header names it, "" if it does not
	usage        usage
}

// endedConversation is a conversation that came to its end.
type endedConversation struct {
	id           string
	began, ended time.Time
	agent        bool // a sub-agent's
}

// step is one step of a run while it goes on. Its clients write to it.
type step struct {
	w     *Workload
	began time.Time
	until time.Time       // no turn is sent from then on
	ctx   context.Context // of the requests
	full  chan struct{}   // closed when no further request may be sent
	seen  time.Time       // when observe ended

	mu     sync.Mutex
	budget int // requests that may yet be sent; negative: any number
	sent   int // requests
	failed int // of them, so far
	turns  []turnRecord
	ended  []endedConversation
}

// progress is how far the step is.
func (s *step) progress() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%.0f of %.0f s, %d requests, %d failed", time.Since(s.began).Seconds(), s.w.StepTime.Seconds(), s.sent, s.failed)
}

// newStep begins a step. A limit of 0 sets none.
func newStep(ctx context.Context, w *Workload, limit int) *step {
	began := time.Now()
	s := &step{w: w, began: began, until: began.Add(w.StepTime), ctx: ctx, full: make(chan struct{}), budget: -1}
	if limit > 0 {
		s.budget = limit
	}
	return s
}

// over reports whether no further turn is to be sent.
func (s *step) over() bool {
	select {
	case <-s.full:
		return true
	default:
		return s.ctx.Err() != nil || !time.Now().Before(s.until)
	}
}

// take takes a request from the step's budget, if there is one left.
func (s *step) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.budget == 0 {
		return false
	}
	s.sent++
	if s.budget--; s.budget == 0 {
		close(s.full)
	}
	return true
}

// sleep waits, and reports whether the step is going on after that.
func (s *step) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.full:
	case <-s.ctx.Done():
	}
	return !s.over()
}

func (s *step) record(t turnRecord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.failed {
		s.failed++
	}
	s.turns = append(s.turns, t)
}

func (s *step) end(c endedConversation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, c)
}

// observe samples the engines until the step is over or stopped says so, and
// reports whether it went to its end.
func (s *step) observe(counted *sampler, counts func() []replicaCounts, stopped func() bool) bool {
	s.sleep(sampleOffset)
	for !s.over() {
		counted.sample(time.Since(s.began).Seconds(), counts())
		if stopped() {
			return false
		}
		s.sleep(min(sampleInterval, max(time.Until(s.until), time.Nanosecond)))
	}
	if s.ctx.Err() != nil {
		return false
	}
	counted.count(counts())
	s.seen = time.Now()
	return true
}
