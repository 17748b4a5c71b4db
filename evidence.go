package warmroute

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/metrics"
)

// wedgedAfter is how long an engine that has requests may count nothing before
// it is taken for wedged. vLLM's /health stays 200 then (vllm#39863). Its counters
// stand still for as long as one prompt is being prefilled, so this must be
// more than that takes.
const wedgedAfter = time.Minute

// evidence is what a member's pages say of its engine's life: when its cache was
// lost as a whole, how much has been written to it, and whether it makes
// progress.
type evidence struct {
	coldSince atomic.Int64 // Unix ns at which a restart or sleep was noticed; 0: never
	asleep    atomic.Bool
	wedged    atomic.Bool
	foreign   atomic.Bool // by the endpoint's list of models
	written   writtenLog

	// Of the watcher's goroutine alone.
	last       metrics.Snapshot
	engines    int // that it is the sum of
	lastAt     time.Time
	seen       bool
	busy       bool // so was the engine on the last page
	stuckSince time.Time
}

// engineChange is what a page shows that the one before did not.
type engineChange struct {
	restarted, slept, woke, wedged, recovered bool
	// since is from when on what ended ran on the new engine, if it restarted, as
	// far as is known.
	since time.Time
}

// note takes in a page. s is the sum of that many engines, and inFlight the
// member's own count.
func (e *evidence) note(s metrics.Snapshot, engines, inFlight int, at time.Time) (c engineChange) {
	if e.seen {
		c.restarted = newMark(e.last, s) || e.engines == engines && wentBack(e.last, s)
		c.slept = s.Sleeping && !e.last.Sleeping
		c.woke = !s.Sleeping && e.last.Sleeping
	}
	if c.restarted || c.slept || c.woke {
		// A sleep of level 1 and above clears the prefix cache.
		since := at
		if c.restarted {
			c.since = e.lastAt
		}
		if start := time.Unix(0, int64(s.Started.Value*1e9)); c.restarted && newMark(e.last, s) && start.Before(at) {
			since = start // turns since then ran on the new engine
			if since.Before(e.lastAt) {
				since = e.lastAt // its clock is another
			}
			c.since = since
		}
		e.coldSince.Store(since.UnixNano())
	}
	if c.restarted {
		e.written.reset()
	}
	e.asleep.Store(s.Sleeping)
	if w, ok := writtenTokens(s); ok {
		e.written.add(at, w)
	}
	// A request of ours may be one whose client is slow to read: the engine's own
	// word goes first.
	busy := inFlight > 0
	if s.Running.OK && s.Waiting.OK {
		busy = s.Running.Value+s.Waiting.Value > 0
	}
	switch {
	case !e.seen || s.Sleeping || !busy || !e.busy || progressed(e.last, s):
		e.stuckSince = at
		c.recovered = e.wedged.Swap(false)
	case at.Sub(e.stuckSince) >= wedgedAfter:
		c.wedged = !e.wedged.Swap(true)
	}
	e.last, e.engines, e.lastAt, e.seen, e.busy = s, engines, at, true, busy
	return c
}

// newMark reports whether the process that answers is another one than before, by
// the time it was started.
func newMark(before, now metrics.Snapshot) bool {
	return before.Started.OK && now.Started.OK && now.Started.Value != before.Started.Value
}

// wentBack reports whether a counter began anew between two pages, as it does
// when an engine is restarted, also by a process that goes on.
func wentBack(before, now metrics.Snapshot) bool {
	for _, c := range [...][2]metrics.Number{
		{before.PromptTokens, now.PromptTokens},
		{before.GenerationTokens, now.GenerationTokens},
		{before.PrefixQueries, now.PrefixQueries},
	} {
		if c[0].OK && c[1].OK && c[1].Value < c[0].Value {
			return true
		}
	}
	return false
}

// progressed reports whether the engine has counted anything in between, or has
// no counters to tell by.
func progressed(before, now metrics.Snapshot) bool {
	known := false
	for _, c := range [...][2]metrics.Number{
		{before.Steps, now.Steps},
		{before.PromptTokens, now.PromptTokens},
		{before.GenerationTokens, now.GenerationTokens},
		{before.PrefixQueries, now.PrefixQueries},
	} {
		if c[0].OK && c[1].OK {
			known = true
			if c[0].Value != c[1].Value {
				return true
			}
		}
	}
	return !known
}

// writtenTokens is how many tokens the engine has put into its cache since it
// started: what it computed of prompts, and what it generated.
func writtenTokens(s metrics.Snapshot) (int64, bool) {
	if !s.PromptTokens.OK || !s.PrefixHits.OK || !s.GenerationTokens.OK {
		return 0, false
	}
	return int64(s.PromptTokens.Value - s.PrefixHits.Value + s.GenerationTokens.Value), true
}

// writtenLog is a count of tokens over more than an hour, a sample every
// writtenStep at the most.
type writtenLog struct {
	mu      sync.Mutex
	samples [256]writtenSample // a ring
	n       int                // samples ever
	latest  int64
}

type writtenSample struct {
	at     time.Time
	tokens int64
}

const writtenStep = 15 * time.Second

func (l *writtenLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n = 0
}

func (l *writtenLog) add(at time.Time, tokens int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latest = tokens
	if l.n > 0 && at.Sub(l.samples[(l.n-1)%len(l.samples)].at) < writtenStep {
		return
	}
	l.samples[l.n%len(l.samples)] = writtenSample{at, tokens}
	l.n++
}

// since is how many tokens have been written since a time, or rather since the
// last sample before it; -1 if there is none that old.
func (l *writtenLog) since(t time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := l.n - 1; i >= 0 && i >= l.n-len(l.samples); i-- {
		if s := l.samples[i%len(l.samples)]; !s.at.After(t) {
			return l.latest - s.tokens
		}
	}
	return -1
}
