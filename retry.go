package warmroute

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/replica"
)

// Defaults of [RetryPolicy].
const (
	DefaultRetryBudget  = 0.1
	DefaultRetryBackoff = 25 * time.Millisecond
	defaultSentAttempts = 2
)

// RetryPolicy says when the transport sends a request to another replica after an
// attempt that failed. It never does once the answer has begun, nor when the
// caller has given up. Each attempt counts on its own replica.
//
// Where no connection could be made, nothing has been sent, and every other
// endpoint is tried, once, within the request's context ([WithFailover] switches
// that off, and all else here). No engine is given more to do by that, so that
// neither Budget nor Backoff bounds it.
type RetryPolicy struct {
	// MaxAttempts bounds the attempts of a request, the first included; at least 1.
	// 0: every endpoint once, and it is sent to 2 of them at the most.
	MaxAttempts int
	// RetrySent has a request be sent again, to another endpoint if there is one, else
	// another rank, after a connection that broke before the answer began, a 502 or
	// 503, or an [ErrHeaderTimeout]. Engines may then run it twice, for what one
	// of them has generated is lost with its connection. Its body must be one that
	// can be had again: it has a GetBody, or is JSON within the peek limit, which is
	// read and held for it. After a 502 or 503 only another endpoint is tried. What
	// continues a response is not sent again: vLLM has those in one place, and others
	// would say that there is none ([WithResponseChains]). Where
	// there is no other attempt, the last answer or error is returned as it came.
	RetrySent bool
	// Budget bounds such attempts to a part of the pool's requests, more than 0 and at
	// most 1, so that a fleet that fails is not given more to do by it. Ten may be
	// made at once, and one every ten seconds whatever the requests are. Default 0.1.
	Budget float64
	// Backoff is the pause before the first of such attempts; before each further one
	// it is twice as long, 5 seconds at the most, each less what Jitter takes
	// off. An attempt is not made if the request's deadline comes before it.
	// Default 25 ms.
	Backoff time.Duration
	// Jitter gives the numbers, 0 to 1, by which a pause is made up to a half shorter,
	// so that the requests of an engine that failed do not all come again at once. It
	// must be safe for concurrent use. Default math/rand/v2.Float64.
	Jitter func() float64
}

const (
	maxBackoff  = 5 * time.Second
	retryBurst  = 10
	retryPeriod = 10 * time.Second // in which there is one retry, whatever the requests are
)

// WithRetry sets when requests are sent again. Default: the zero [RetryPolicy],
// with which no byte of a request is ever sent to two engines.
func WithRetry(policy RetryPolicy) Option {
	return option(func(c *config) {
		switch {
		case policy.MaxAttempts < 0:
			c.refuse(&ConfigError{Field: "retry attempts", Value: strconv.Itoa(policy.MaxAttempts), Allowed: "0 or more"})
			return
		case !(policy.Budget >= 0 && policy.Budget <= 1):
			c.refuse(&ConfigError{Field: "retry budget", Value: strconv.FormatFloat(policy.Budget, 'g', -1, 64), Allowed: "0 (the default) to 1"})
			return
		case policy.Backoff < 0:
			c.refuse(&ConfigError{Field: "retry backoff", Value: policy.Backoff.String(), Allowed: "0 (the default) or more"})
			return
		}
		if policy.Budget == 0 {
			policy.Budget = DefaultRetryBudget
		}
		if policy.Backoff == 0 {
			policy.Backoff = DefaultRetryBackoff
		}
		if policy.Jitter == nil {
			policy.Jitter = rand.Float64
		}
		c.retry = policy
	})
}

// retryBudget is a pool's: a bucket of thousandths of a retry.
type retryBudget struct {
	tokens atomic.Int64 // used ones, so that the zero bucket is full
	filled atomic.Int64 // Unix ns at which the steady part was last given
}

const wholeRetry = 1000

// add gives the part of a retry that a request is worth.
func (b *retryBudget) add(part float64) {
	for {
		used := b.tokens.Load()
		if used == 0 || b.tokens.CompareAndSwap(used, max(0, used-int64(part*wholeRetry))) {
			return
		}
	}
}

// take takes a retry, if there is one.
func (b *retryBudget) take(now time.Time) bool {
	b.fill(now)
	for {
		used := b.tokens.Load()
		if used+wholeRetry > retryBurst*wholeRetry {
			return false
		}
		if b.tokens.CompareAndSwap(used, used+wholeRetry) {
			return true
		}
	}
}

// fill gives the steady part, by whole thousandths, so that none is lost between
// two that are asked for shortly after one another.
func (b *retryBudget) fill(now time.Time) {
	const step = int64(retryPeriod / wholeRetry)
	last, at := b.filled.Load(), now.UnixNano()
	steps := (at - last) / step
	switch {
	case last == 0 || at < last: // the first, or the clock was set back
		b.filled.CompareAndSwap(last, at)
	case steps > 0 && b.filled.CompareAndSwap(last, last+steps*step):
		b.add(float64(min(steps, retryBurst*wholeRetry)) / wholeRetry)
	}
}

// next is what becomes of a request after an attempt.
type next int

const (
	nextNone   next = iota // it has its answer, or its error
	nextUnsent             // nothing was sent, and its body is open yet
	nextReplay             // it was sent, and its body is to be had again
)

// attempts counts those of a request.
type attempts struct {
	made   int // before this one
	replay int // that were sent before
}

// mayMore reports whether the policy allows one more attempt, after one that was
// sent or not.
func (p RetryPolicy) mayMore(n attempts, sent bool) bool {
	if p.MaxAttempts > 0 {
		return n.made+1 < p.MaxAttempts
	}
	return !sent || n.replay+1 < defaultSentAttempts
}

// pause is how long to wait before the n-th attempt after one that was sent.
func (p RetryPolicy) pause(n int) time.Duration {
	d := min(maxBackoff, p.Backoff)
	for ; n > 0 && d < maxBackoff; n-- {
		d = min(maxBackoff, 2*d)
	}
	return d - time.Duration(min(max(0, p.Jitter()), 1)*float64(d)/2)
}

// replays decides whether a request that was sent is sent again, and if so pays
// for it and notes where not to.
func (t *Transport) replays(req *http.Request, body requestBody, lease Lease, route *Request, n attempts, wide bool) bool {
	r := t.router
	p := r.cfg.retry
	if !p.RetrySent || !r.cfg.failover || !p.mayMore(n, true) || req.Context().Err() != nil || !body.replayable(req) {
		return false
	}
	if deadline, ok := req.Context().Deadline(); ok && time.Until(deadline) <= p.pause(n.replay) {
		return false
	}
	if route.PreviousResponse != "" && lease.outcome == Sticky {
		return false
	}
	elsewhere := r.untried(lease, route.Tried)
	if !elsewhere && (wide || !r.otherRank(lease, route)) {
		return false
	}
	if !lease.pool.retries.take(time.Now()) {
		lease.pool.counts.retriesRefused.Add(1)
		return false
	}
	if elsewhere {
		route.Tried = append(route.Tried, lease.Replica())
	} else {
		route.avoid = append(route.avoid, lease.Replica())
	}
	return true
}

// otherRank reports whether there is another rank of the lease's endpoint that
// the request has not been sent to.
func (r *Router) otherRank(l Lease, req *Request) bool {
	for _, m := range *l.pool.members.Load() {
		if m != l.member && m.SameEndpoint(l.member.Replica) && !triedAlready(m, req.Tried) && !isAvoided(m, req.avoid) {
			return true
		}
	}
	return false
}

// isAvoided reports whether the request was sent to the member already.
func isAvoided(m *member, avoid []*replica.Replica) bool {
	for _, a := range avoid {
		if m.Replica == a {
			return true
		}
	}
	return false
}

// replayable reports whether the body can be had again.
func (b requestBody) replayable(req *http.Request) bool {
	return b.ReadCloser == nil || b.rewind != nil || !b.asked && req.GetBody != nil
}

// again is the body for another attempt after one that has read of it.
func (b requestBody) again(req *http.Request) (requestBody, error) {
	if b.ReadCloser == nil {
		return b, nil
	}
	get := req.GetBody
	if b.rewind != nil {
		get = b.rewind.getBody
	}
	if get == nil {
		return b, errors.New("warmroute: request body cannot be had again")
	}
	fresh, err := get()
	if err != nil {
		return b, err
	}
	if fresh == nil {
		fresh = http.NoBody
	}
	b.ReadCloser = fresh
	return b, nil
}

// sleep waits, or until the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unrepeatable stands for no body in a POST that http.Transport would repeat by
// itself if it knew that it has none: see mayRepeat.
type unrepeatable struct{}

func (unrepeatable) Read([]byte) (int, error) { return 0, io.EOF }
func (unrepeatable) Close() error             { return nil }
