package fakevllm

import (
	"slices"
	"sync"
	"time"
)

// Counts are the exact counters of one rank at one moment.
type Counts struct {
	Requests int // accepted: Running + Waiting + Finished + Aborted + Failed
	Running  int
	Waiting  int
	Finished int // reached their end or their limit
	Aborted  int // the client went away
	Failed   int // cut off by Close

	PromptTokens     int // of requests that have got a first token
	CachedTokens     int // of PromptTokens, found in the prefix cache
	GenerationTokens int
	ComputedTokens   int // prefilled, with what preemption made necessary again
	PrefixQueries    int // tokens looked up in the prefix cache, at each attempt to admit
	PrefixHits       int // of PrefixQueries, found
	Preemptions      int
	Steps            int

	Blocks     int // that can hold tokens: Config.Blocks - 1
	FreeBlocks int // not referenced by a running request, cached or not
	KVTokens   int // of the running requests, computed or in the step under way
}

// Rank returns the counters of a rank since the last Start, zero for a rank
// that does not exist.
func (s *Server) Rank(i int) Counts {
	ranks := s.life.Load().ranks
	if i < 0 || i >= len(ranks) {
		return Counts{}
	}
	e := ranks[i]
	e.mu.Lock()
	defer e.mu.Unlock()
	c := Counts{
		Requests: e.counts.requests,
		Running:  len(e.sched.running),
		Waiting:  len(e.sched.waiting),
		Finished: e.counts.finished[byStop] + e.counts.finished[byLength],
		Aborted:  e.counts.finished[byAbort],
		Failed:   e.counts.finished[byError],

		PromptTokens:     e.counts.prompt,
		CachedTokens:     e.counts.cached,
		GenerationTokens: e.counts.generated,
		ComputedTokens:   e.sched.computed,
		PrefixQueries:    e.sched.queries,
		PrefixHits:       e.sched.found,
		Preemptions:      e.sched.preemptions,
		Steps:            e.sched.steps,

		Blocks:     e.sched.pool.usable(),
		FreeBlocks: e.sched.pool.free,
	}
	for _, q := range e.sched.running {
		c.KVTokens += q.computed + q.chunk
	}
	return c
}

// Run is one request as an engine saw it.
type Run struct {
	Rank    int
	Path    string // of the request's URL
	Session string // value of the header Config.LogHeader

	PromptTokens     int
	CachedTokens     int
	GenerationTokens int
	FinishReason     string // stop, length, abort or error, as in /metrics

	Arrived    time.Time
	FirstToken time.Time // zero if there was none
	Ended      time.Time
}

// runLog keeps the last runs, up to its size.
type runLog struct {
	size int
	mu   sync.Mutex
	runs []Run // a ring once it is full
	next int
}

func (l *runLog) add(r Run) {
	if l.size == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.runs) < l.size {
		l.runs = append(l.runs, r)
		return
	}
	l.runs[l.next] = r
	l.next = (l.next + 1) % l.size
}

// Log returns the last Config.LogSize runs in the order in which they ended.
func (s *Server) Log() []Run {
	l := &s.runs
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Concat(l.runs[l.next:], l.runs[:l.next])
}
