package warmroute

import (
	"time"

	"github.com/warmroute/warmroute/replica"
)

// signal is what a result says of the replica, beyond what its exported fields
// do: zero, a failure if there is an error, else a success.
type signal uint8

const (
	// signalNone: nothing. The request was the client's to get wrong, or one that
	// a server answers whose engine is dead.
	signalNone signal = iota + 1
	// signalPossible: a failure that may be the client's.
	signalPossible
)

// signalled tells the replica's breakers of a result, and returns what that has
// changed.
func (l Lease) signalled(res Result, now time.Time) (c breakerChange) {
	m, p := l.member, l.passage
	if res.RetryAfter > 0 {
		m.Hold(now, res.RetryAfter)
		c.held = true
	}
	switch {
	case res.Unreachable:
		c.opened, c.endpoint = m.Failed(p, replica.EndpointFailure, now), true
	case res.GivenUp || res.signal == signalNone:
		m.Released(p)
	case res.Err == nil:
		c.closed = m.Succeeded(p, now)
	case res.Endpoint:
		c.opened, c.endpoint = m.Failed(p, replica.EndpointFailure, now), true
	case res.signal == signalPossible:
		c.opened = m.Failed(p, replica.PossibleFailure, now)
	default:
		c.opened = m.Failed(p, replica.OwnFailure, now)
	}
	if c.opened || c.closed || c.held || p.Probe() { // after a probe there can be another
		m.pool.roomsChanged()
	}
	if res.Err != nil {
		m.counts.timedOut(res.Err)
	}
	return c
}

// breakerChange is what a result has changed.
type breakerChange struct {
	opened, closed, held bool
	endpoint             bool // it concerns all ranks
}

// tell says what has changed. It must be called without a lock.
func (c breakerChange) tell(m *member, err error) {
	reason := ""
	switch {
	case c.opened:
		reason = "breaker opened"
		m.pool.router.cfg.logger.Warn("breaker opened", "replica", m.Name(), "err", err)
	case c.closed:
		reason = "breaker closed"
		m.pool.router.cfg.logger.Info("breaker closed", "replica", m.Name())
	case c.held:
		reason = "retry after"
	default:
		return
	}
	if !c.endpoint && !c.closed && !c.held {
		m.tell(reason)
		return
	}
	for _, o := range *m.pool.members.Load() {
		if o == m || o.SameEndpoint(m.Replica) {
			o.tell(reason)
		}
	}
}

// proved notes that the answer to a probe has begun, which is enough: its end may
// be minutes away. It must be called without a lock.
func (l Lease) proved() {
	if !l.passage.Probe() {
		return
	}
	if l.member.Succeeded(l.passage, l.pool.router.clock.Now()) {
		l.pool.roomsChanged()
		breakerChange{closed: true}.tell(l.member, nil)
	}
}

// available reports whether a request can go to the member without being one of
// those that are sent for want of better.
func (m *member) available(now time.Time) bool { return m.Reachable(now) && m.Allows(now) }

// WithBreaker sets when a replica that fails takes no requests for a while. Its
// conversations are placed elsewhere then and stay there once they have been
// answered. When no replica of a pool takes requests they are sent all the same,
// each conversation home and the others by load: the router never answers with a
// 503 of its own making.
//
// A failure is an answer that did not come, or not in time ([WithResponseHeaderTimeout],
// [WithIdleTimeout]), a 5xx but 501, a stream that broke, and a [StreamError]. A 500
// on /v1/messages opens a breaker only by its share: vLLM 0.26 answers so to what
// is a 400 elsewhere. A 502, 503 or 504, and a connection that could not be made,
// are the whole endpoint's and counted by a breaker that all its ranks share:
// vLLM's queue limits (0.29) are those of an API server and not of a rank. 4xx
// answers, a caller's cancel and a caller's broken body say nothing.
//
// Default: the zero [replica.BreakerConfig], which is on; Off in it switches it
// off.
func WithBreaker(breaker replica.BreakerConfig) Option {
	return option(func(c *config) {
		if err := breaker.Validate(); err != nil {
			c.refuse(err)
			return
		}
		c.breaker = breaker
	})
}
