package warmroute

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warmroute/warmroute/metrics"
)

// poolCounts outlive the pool's members: a replica that leaves takes its own
// counts along, not the pool's.
type poolCounts struct {
	inFlight     atomic.Int64
	sticky       atomic.Uint64
	placed       atomic.Uint64
	spilled      atomic.Uint64
	pinned       atomic.Uint64
	unkeyed      atomic.Uint64
	failed       atomic.Uint64
	refused      atomic.Uint64
	pickerErrors atomic.Uint64
	// retries are attempts after the first, retriesRefused those that the budget
	// did not allow.
	retries        atomic.Uint64
	retriesRefused atomic.Uint64
	cached         atomic.Uint64
	computed       atomic.Uint64
	completion     atomic.Uint64
	unmeasured     atomic.Uint64
	hour           lastHour
}

// memberCounts belong to one replica instance, so that one that leaves and
// comes back starts at zero.
type memberCounts struct {
	sticky         atomic.Uint64
	placed         atomic.Uint64
	spilledIn      atomic.Uint64
	pinned         atomic.Uint64
	unkeyed        atomic.Uint64
	failed         atomic.Uint64
	headerTimeouts atomic.Uint64
	idleTimeouts   atomic.Uint64
	turns          turnCounts
	firstByte      *metrics.Histogram
}

// firstByteBounds are seconds, from a prefix cache hit on a fast card to the
// queue of an overloaded one.
var firstByteBounds = [...]float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 25, 50, 100}

// timedOut counts an attempt that failed, if it did by taking too long.
func (c *memberCounts) timedOut(err error) {
	switch {
	case errors.Is(err, ErrHeaderTimeout):
		c.headerTimeouts.Add(1)
	case errors.Is(err, ErrIdleTimeout):
		c.idleTimeouts.Add(1)
	}
}

// routed counts a request's outcome, once a request: that of the replica that
// was tried last.
func (c *poolCounts) routed(l Lease) {
	m := &l.member.counts
	switch l.outcome {
	case Sticky:
		c.sticky.Add(1)
		m.sticky.Add(1)
	case Placed:
		c.placed.Add(1)
		m.placed.Add(1)
	case Spilled:
		c.spilled.Add(1)
		m.spilledIn.Add(1)
	case Pinned:
		c.pinned.Add(1)
		m.pinned.Add(1)
	case Unkeyed:
		c.unkeyed.Add(1)
		m.unkeyed.Add(1)
	}
}

// count counts what became of a request, or of an attempt if it is not the
// last: that failed on its replica, but the request has not.
func (p *pool) count(m *member, res Result, last bool, now time.Time) {
	c := &p.counts
	c.inFlight.Add(-1)
	if res.Err != nil {
		m.counts.failed.Add(1)
		if last {
			c.failed.Add(1)
		}
	}
	if res.FirstByte > 0 {
		m.counts.firstByte.Observe(res.FirstByte.Seconds())
	}
	u := res.Usage
	if u.Known {
		prompt := uint64(max(0, u.Prompt))
		cached := uint64(0)
		if u.Measured {
			cached = min(prompt, uint64(max(0, u.Cached)))
		}
		c.cached.Add(cached)
		c.computed.Add(prompt - cached)
		c.completion.Add(uint64(max(0, u.Completion)))
		c.hour.add(now, cached, prompt)
	}
	if res.Err == nil && !res.NoTokens && !u.Measured {
		c.unmeasured.Add(1)
	}
}

// lastHour keeps prompt tokens by the minute for an hour.
type lastHour struct {
	mu      sync.Mutex
	minutes [60]minuteTokens
}

type minuteTokens struct {
	minute         int64 // since the Unix epoch
	cached, prompt uint64
}

func (h *lastHour) add(now time.Time, cached, prompt uint64) {
	minute := now.Unix() / 60
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &h.minutes[minute%int64(len(h.minutes))]
	if m.minute != minute {
		*m = minuteTokens{minute: minute}
	}
	m.cached += cached
	m.prompt += prompt
}

// share is the cached part of the last hour's prompt tokens; nil if there were
// none.
func (h *lastHour) share(now time.Time) *float64 {
	minute := now.Unix() / 60
	h.mu.Lock()
	defer h.mu.Unlock()
	var cached, prompt uint64
	for _, m := range h.minutes {
		if m.minute > minute-int64(len(h.minutes)) && m.minute <= minute {
			cached += m.cached
			prompt += m.prompt
		}
	}
	if prompt == 0 {
		return nil
	}
	share := float64(cached) / float64(prompt)
	return &share
}
