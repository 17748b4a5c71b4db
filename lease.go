package warmroute

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/affinity"
	"github.com/warmroute/warmroute/replica"
)

// Outcome is what routing did with a request.
type Outcome string

// The outcomes. Every request has exactly one.
const (
	Sticky  Outcome = "sticky"  // went to its conversation's home
	Placed  Outcome = "placed"  // new conversation, or its home or its cache there is gone: placed by load
	Spilled Outcome = "spilled" // home over the spill threshold: went elsewhere, keeps its home
	Pinned  Outcome = "pinned"  // the client chose the rank
	Unkeyed Outcome = "unkeyed" // no session key: placed by load
)

// Usage is what the engine counted for one request, in tokens.
type Usage struct {
	Prompt     int64 // the whole prompt, cached part included
	Cached     int64 // the part taken from the prefix cache; 0 unless Measured
	Completion int64
	// Known says that the response carried a usage, Measured that it carried a
	// cached count as well. vLLM sends one with --enable-prompt-tokens-details
	// (always on /v1/responses), and before 0.24.0 not when it is zero.
	Known, Measured bool
}

// Result is what became of a request.
type Result struct {
	// Err is the failure of the replica: no answer, a 5xx, a stream that broke or
	// failed ([*StreamError]), a [*TimeoutError]. A caller's cancel is not one, and
	// neither is a 4xx. It counts with the replica's breaker ([WithBreaker]).
	Err error
	// Endpoint says that Err is of the replica's whole endpoint, as a 503 is: it is
	// not held against this rank alone.
	Endpoint bool
	// RetryAfter is how long the endpoint has asked to be left alone, with a 429 or
	// 503; 0 if it has not. It is given no new conversations for that time, 30 seconds
	// at the most, while there are others.
	RetryAfter time.Duration
	// GivenUp says that the caller gave the request up before it was seen whether
	// the replica would answer, so that nothing is learned of that.
	GivenUp bool
	// Unreachable says that Err is that no connection could be made: the
	// replica's endpoint is left out for a while.
	Unreachable bool
	// Usage is what the engine counted. A finished request whose usage is not
	// Measured counts as unmeasured, and its prompt as computed.
	Usage Usage
	// StatusCode is that of the HTTP response, 0 if there was none or it is not
	// known.
	StatusCode int
	// FirstByte is the time from the routing of a streamed request to the first
	// byte of the response's body, 0 if it is not known.
	FirstByte time.Duration
	// API is the engine's API that the request was for, such as
	// "/v1/responses"; empty if it is not known. Whether a rank header is
	// honoured is judged by API.
	API string
	// NoTokens says that the request was not one for tokens (a list of models,
	// a health check) or was given up by its caller, so that a missing usage
	// means nothing.
	NoTokens bool

	signal signal
}

// Lease is a routed request: where it goes, and that it counts as in flight
// there until Done. It is a small value and may be copied; the zero Lease does
// nothing. Methods are safe for concurrent use.
type Lease struct {
	ticket  *ticket
	use     uint64
	pool    *pool
	member  *member
	session *affinity.Session[*member]
	rank    string // the rank header's value when it is the client's own
	outcome Outcome
	waited  time.Duration
	ctx     context.Context // the request's, for hooks; nil if there are none for it
	passage replica.Passage
	turn
}

// turn is what a lease knows of the time before it, to judge by afterwards.
type turn struct {
	routed   time.Time
	left     left    // by the conversation's last turn, at home only
	admitted bool    // by the admission, which has its turn until Done
	alone    bool    // no other request was in flight on the replica
	counted  float64 // prompt tokens that its engine had counted; below 0 if not known

	source       *keySource // of the conversation's key, nil if not known
	returned     bool       // the conversation was known before
	promptTokens int64      // an estimate, 0 if there is none
}

// ticket makes Done happen once. It is reused, each time with another use, so
// that a routed request allocates nothing and a late Done of an earlier one has
// no effect.
type ticket struct {
	use     atomic.Uint64
	prefill atomic.Uint64 // a pending, 0 for none
	waiter  waiter
}

var tickets = sync.Pool{New: func() any { return new(ticket) }}

// newLease is for a request that was just counted in flight on m.
func newLease(p *pool, m *member, w *pick, outcome Outcome) Lease {
	p.counts.inFlight.Add(1)
	t := w.ticket
	if t == nil {
		t = tickets.Get().(*ticket)
	}
	l := Lease{ticket: t, use: t.use.Load(), pool: p, member: m, session: w.session, outcome: outcome, passage: w.passage}
	l.admitted = t.waiter.admitted
	l.routed, l.counted, l.alone = w.now, m.countedPrompts(), m.InFlight() == 1
	l.source, l.returned, l.promptTokens = w.source, w.returned, int64(w.promptTokens)
	if l.session != nil && l.session.Home() == m.home {
		l.left = leftOf(l.session.Memo())
	}
	if n := int64(w.promptTokens) - int64(l.left.tokens(p.answers.kept.Load())); n > 0 { // probably to be computed
		n = min(n, math.MaxUint32)
		t.prefill.Store(l.pending() | uint64(n))
		m.prefill.Add(n)
	}
	return l
}

// prefilled says that the first byte has come, so that the prompt is computed.
// Of a lease that was ended it is nothing.
func (l Lease) prefilled() {
	if l.admitted {
		l.pool.turnBegan(l)
	}
	l.computed()
}

// computed counts the prompt as computed, or as given up. It does nothing if that
// was done before, even if the ticket is another request's by now.
func (l Lease) computed() {
	pending := l.ticket.prefill.Load()
	if pending != 0 && pending&^math.MaxUint32 == l.pending() && l.ticket.prefill.CompareAndSwap(pending, 0) {
		l.member.prefill.Add(-int64(pending & math.MaxUint32))
	}
}

// pending is a mark of the lease, in the upper half: below it are the tokens of
// its prompt that are counted in its member's prefill.
func (l Lease) pending() uint64 { return l.use << 32 }

// Replica is where the request goes; nil for the zero Lease.
func (l Lease) Replica() *Replica {
	if l.member == nil {
		return nil
	}
	return l.member.Replica
}

// Outcome is what routing did with the request.
func (l Lease) Outcome() Outcome { return l.outcome }

// Model is the name of the pool that the request was routed in.
func (l Lease) Model() string {
	if l.pool == nil {
		return ""
	}
	return l.pool.model
}

// RankHeader is the value that the request's X-Data-Parallel-Rank header must
// have. If ok is false the request must have none, whatever the client sent.
func (l Lease) RankHeader() (value string, ok bool) {
	if l.rank != "" {
		return l.rank, true
	}
	if l.member == nil || l.member.RankHeaderValues() == nil {
		return "", false
	}
	return l.member.RankHeaderValues()[0], true
}

// Answered says that the replica's answer has begun, and that it is not an
// error: from now on a prefix of the conversation is cached there, and the
// conversation is bound to it. A conversation whose first request is done
// without that is forgotten.
func (l Lease) Answered() {
	if l.session == nil {
		return
	}
	if l.outcome == Placed && l.session.Home() != l.member.home {
		// Its home could not be reached, or affinity is off: it moves.
		l.pool.table.Bind(l.session, l.member.home, l.pool.router.clock.Now())
	}
	l.pool.table.Warm(l.session, l.member.home)
}

// Done says that the request is finished and what became of it. Only the first
// call for a lease has an effect.
func (l Lease) Done(result Result) { l.done(result, true) }

// done is Done; last is false if the request is sent to another replica now.
func (l Lease) done(result Result, last bool) {
	if l.ticket == nil || !l.ticket.use.CompareAndSwap(l.use, l.use+1) {
		return
	}
	l.computed()
	// Before a turn that waits could be given the place there.
	down := result.Unreachable && l.member.unreachable()
	now := l.pool.router.clock.Now()
	changed := l.signalled(result, now)
	if l.ticket.waiter.admitted {
		now = l.pool.turnEnded(&l.ticket.waiter, result)
	}
	tickets.Put(l.ticket)
	l.member.End()
	if down {
		l.member.sayUnreachable(result.Err)
		l.member.tell("unreachable")
	}
	changed.tell(l.member, result.Err)
	verdict := l.judge(result)
	if l.session != nil {
		l.pool.table.Release(l.session, now)
	}
	l.pool.count(l.member, result, last, now)
	l.tellSource(result, now)
	l.member.learn(l, result)
	for _, hook := range l.pool.router.cfg.hooks.done {
		hook.OnDone(l.ctx, DoneEvent{RouteEvent: l.event(), Result: result, Final: last, Verdict: verdict})
	}
}

func (l Lease) event() RouteEvent {
	return RouteEvent{Model: l.pool.model, Replica: l.member.Replica, Outcome: l.outcome, Keyed: l.session != nil, Waited: l.waited}
}
