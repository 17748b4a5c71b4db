package affinity

import (
	"context"
	"sync/atomic"
	"time"
)

// ClockStep is how far behind a [Clock] may be while it runs.
const ClockStep = 10 * time.Millisecond

// Clock is a coarse clock: while it runs, asking for the time costs a load from
// memory instead of a call to the system's clock. While it does not run it
// gives the exact time. It is safe for concurrent use; make one with
// [NewClock].
type Clock struct {
	base   time.Time
	offset atomic.Int64 // from base; 0 while the clock does not run
}

// NewClock returns a clock that does not run yet.
func NewClock() *Clock { return &Clock{base: time.Now()} }

// Now is the time, at most a [ClockStep] ago as long as the machine keeps up.
func (c *Clock) Now() time.Time {
	if d := c.offset.Load(); d != 0 {
		return c.base.Add(time.Duration(d))
	}
	return time.Now()
}

// Running reports whether Now is coarse.
func (c *Clock) Running() bool { return c.offset.Load() != 0 }

// Run keeps the clock going until ctx ends. Only one Run may go on at a time.
func (c *Clock) Run(ctx context.Context) {
	defer c.offset.Store(0)
	ticker := time.NewTicker(ClockStep)
	defer ticker.Stop()
	for {
		c.offset.Store(max(1, int64(time.Since(c.base))))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
