package fakevllm

import (
	"slices"
	"time"
)

// finish says how a request ended.
type finish uint8

const (
	unfinished finish = iota
	byStop            // the answer ended by itself
	byLength          // the answer reached its limit
	byAbort           // the client went away, or the engine shuts down or sleeps
	byError           // the engine ended
)

// String is the reason's name in the metrics and in the OpenAI answers.
func (f finish) String() string {
	switch f {
	case byStop:
		return "stop"
	case byLength:
		return "length"
	case byAbort:
		return "abort"
	case byError:
		return "error"
	default:
		return "unfinished"
	}
}

// sequence is one request in an engine. Its fields belong to the scheduler;
// others read them under the engine's lock.
type sequence struct {
	prompt int        // tokens
	limit  int        // answer tokens
	every  int        // its client is told of the first token and every so many
	atEnd  finish     // what reaching the limit is called
	text   answer     // decides the answer's tokens
	token  *tokenizer // of the prompt and the answer so far

	generated   int
	cached      int // prompt tokens found in the cache when first scheduled
	computed    int // tokens whose KV is there
	chunk       int // tokens scheduled in the current step
	blocks      []int32
	preemptions int
	aborted     bool
	finish      finish

	path, session       string // for the log
	id                  string // for the deliveries
	arrived, firstToken time.Time
	news                chan struct{} // signalled when generated or finish changed
}

// signal tells whoever waits for the sequence to look again.
func (q *sequence) signal() {
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// shown is the number of answer tokens that the client is told of.
func (q *sequence) shown() int {
	if q.generated == 0 || q.finish != unfinished {
		return q.generated
	}
	return 1 + (q.generated-1)/q.every*q.every
}

// target is the number of tokens that are known, computed or not.
func (q *sequence) target() int { return q.prompt + q.generated }

// step is the work of one engine step.
type step struct {
	tokens  int // scheduled
	prefill int // of them, tokens of requests that have no further token yet or lost their blocks
	context int // context tokens of the requests that decode
}

// scheduler decides what each step of an engine computes, by the rules of
// vLLM's V1 scheduler (v1/core/sched/scheduler.py, 0.26) without its
// speculative, encoder and connector parts. It knows no clock and no
// goroutine. Not safe for concurrent use.
type scheduler struct {
	pool      *blockPool
	blockSize int
	maxSeqs   int
	budget    int
	byChunk   bool // admission

	waiting []*sequence // first come first served, preempted ones in front
	running []*sequence // in the order of admission
	aborts  int         // aborted sequences not yet dropped

	hits     []int32     // of the request that was last looked up
	lookup   lookup      // what hits holds for
	advanced []*sequence // scratch

	steps       int
	preemptions int
	computed    int // tokens prefilled, recomputed ones included
	queries     int // tokens looked up in the prefix cache
	found       int // of them, tokens found
}

// lookup is a search for a request's prefix, which finds the same as long as it
// is the same.
type lookup struct {
	of     *sequence
	tokens int
	change uint64 // of the pool
}

func newScheduler(cfg *Config) scheduler {
	return scheduler{
		pool:      newBlockPool(cfg.Blocks),
		blockSize: cfg.BlockSize,
		maxSeqs:   cfg.MaxNumSeqs,
		budget:    cfg.MaxBatchedTokens,
		byChunk:   cfg.AdmitByChunk,
	}
}

// add queues a request. Requests that arrived at the same moment, which in
// virtual time are many, are ordered by their content.
func (s *scheduler) add(q *sequence) {
	at := len(s.waiting)
	for at > 0 && s.waiting[at-1].preemptions == 0 &&
		s.waiting[at-1].arrived.Equal(q.arrived) && s.waiting[at-1].text > q.text {
		at--
	}
	s.waiting = slices.Insert(s.waiting, at, q)
}

// abort marks a sequence. Its blocks are freed when the step under way ends.
func (s *scheduler) abort(q *sequence) {
	if q.finish == unfinished && !q.aborted {
		q.aborted = true
		s.aborts++
	}
}

// dropAborted removes the aborted sequences and returns them.
func (s *scheduler) dropAborted() []*sequence {
	if s.aborts == 0 {
		return nil
	}
	s.aborts = 0
	var gone []*sequence
	keep := func(from []*sequence) []*sequence {
		kept := from[:0]
		for _, q := range from {
			if !q.aborted {
				kept = append(kept, q)
				continue
			}
			q.finish = byAbort
			s.free(q)
			gone = append(gone, q)
		}
		clear(from[len(kept):])
		return kept
	}
	s.running = keep(s.running)
	s.waiting = keep(s.waiting)
	return gone
}

// schedule decides the next step. A step of no tokens means that there is
// nothing to do until a request arrives.
func (s *scheduler) schedule() step {
	var st step
	preempted := s.scheduleRunning(&st)
	if !preempted {
		s.admit(&st)
	}
	if st.tokens > 0 {
		s.steps++
		s.computed += st.prefill
	}
	return st
}

// scheduleRunning gives the running requests their share of the budget, and
// reports whether one was preempted: the last admitted goes when a block is
// missing.
func (s *scheduler) scheduleRunning(st *step) (preempted bool) {
	for i := 0; i < len(s.running) && st.tokens < s.budget; i++ {
		q := s.running[i]
		n := min(q.target()-q.computed, s.budget-st.tokens)
		for !s.grow(q, n) {
			preempted = true
			if s.preemptLast() == q {
				return true
			}
		}
		s.assign(st, q, n)
	}
	return preempted
}

// preemptLast takes the blocks from the request admitted last and puts it at
// the head of the queue. It starts again from what is then cached.
func (s *scheduler) preemptLast() *sequence {
	last := len(s.running) - 1
	q := s.running[last]
	s.running[last] = nil
	s.running = s.running[:last]
	s.free(q)
	q.computed = 0
	q.preemptions++
	s.preemptions++
	s.waiting = slices.Insert(s.waiting, 0, q)
	return q
}

// admit starts waiting requests in their order while the budget lasts. The
// first whose prompt, or first chunk if admission is by chunk, does not fit
// into the free blocks holds up all behind it.
func (s *scheduler) admit(st *step) {
	for len(s.waiting) > 0 && len(s.running) < s.maxSeqs && st.tokens < s.budget {
		q := s.waiting[0]
		// The last token is always computed: its logits give the next one.
		if now := (lookup{q, q.target(), s.pool.change}); now != s.lookup {
			s.hits = s.pool.prefix(s.hits[:0], q.token.hashes[:(q.target()-1)/s.blockSize])
			s.lookup = now
		}
		found := len(s.hits) * s.blockSize
		if q.preemptions == 0 {
			// vLLM counts every attempt of the request at the head.
			s.queries += q.target()
			s.found += found
		}
		n := min(q.target()-found, s.budget-st.tokens)
		mustFit := q.target()
		if s.byChunk {
			mustFit = found + n
		}
		if s.blocksFor(mustFit)-len(s.hits) > s.pool.free-s.pool.idle(s.hits) {
			return
		}
		s.pool.reuse(s.hits)
		q.blocks = append(q.blocks[:0], s.hits...)
		q.computed = found
		if q.preemptions == 0 {
			q.cached = found
		}
		s.grow(q, n)
		s.assign(st, q, n)
		s.waiting[0] = nil
		s.waiting = s.waiting[1:]
		s.running = append(s.running, q)
	}
}

// grow gives q the blocks for its next n tokens and makes the blocks they
// fill findable. A hit on them in the same step is sound: a layer writes the
// keys of all tokens before it reads any. If too few blocks are free, grow
// changes nothing and reports false.
func (s *scheduler) grow(q *sequence, n int) bool {
	upTo := q.computed + n
	need := s.blocksFor(upTo) - len(q.blocks)
	if need > s.pool.free {
		return false
	}
	q.blocks = s.pool.take(q.blocks, need)
	for i := q.computed / s.blockSize; i < upTo/s.blockSize; i++ {
		s.pool.remember(q.blocks[i], q.token.hashes[i])
	}
	return true
}

func (s *scheduler) assign(st *step, q *sequence, n int) {
	q.chunk = n
	st.tokens += n
	if n == 1 && q.generated > 0 {
		st.context += q.computed + 1
	} else {
		st.prefill += n
	}
}

func (s *scheduler) blocksFor(tokens int) int { return (tokens + s.blockSize - 1) / s.blockSize }

func (s *scheduler) free(q *sequence) {
	s.pool.release(q.blocks)
	q.blocks, q.chunk = q.blocks[:0], 0
}

// complete ends the step: requests that caught up with their tokens get their
// next one, those at their limit leave. It returns the ones that got a token,
// which is valid until the next step.
func (s *scheduler) complete() []*sequence {
	advanced := s.advanced[:0]
	kept := s.running[:0]
	for _, q := range s.running {
		q.computed += q.chunk
		if q.chunk > 0 && q.computed == q.target() {
			q.token.segment(q.text.word(q.generated))
			q.generated++
			advanced = append(advanced, q)
		}
		q.chunk = 0
		if q.generated < q.limit {
			kept = append(kept, q)
			continue
		}
		q.finish = q.atEnd
		s.free(q)
	}
	clear(s.running[len(kept):])
	s.running = kept
	s.advanced = advanced
	return advanced
}

// empty removes every request, for an engine that ends or aborts them, and
// returns them.
func (s *scheduler) empty(as finish) []*sequence {
	all := append(s.running, s.waiting...)
	s.running, s.waiting, s.aborts = nil, nil, 0
	for _, q := range all {
		q.finish = as
		s.free(q)
	}
	return all
}
