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
	base time.Time
	// now has a monotonic and a wall clock reading, as the system's clock gives
	// them: a base to which time is added would keep the wall clock's reading of
	// before somebody set it. It is nil while the clock does not run.
	now atomic.Pointer[time.Time]
}

// NewClock returns a clock that does not run yet.
func NewClock() *Clock { return &Clock{base: time.Now()} }

// Now is the time, at most a [ClockStep] ago as long as the machine keeps up.
func (c *Clock) Now() time.Time {
	if now := c.now.Load(); now != nil {
		return *now
	}
	return time.Now()
}

// Running reports whether Now is coarse.
func (c *Clock) Running() bool { return c.now.Load() != nil }

// Steady is t with the wall clock's reading that it would have if nobody had
// set the machine's clock, nor suspended the machine, since this Clock was made.
// Where times are kept as numbers, those that went through Steady can be
// compared with each other and with [Table.LastUse]. A t without a monotonic
// clock reading comes back as it is.
func (c *Clock) Steady(t time.Time) time.Time { return c.base.Add(t.Sub(c.base)) }

// Run keeps the clock going until ctx ends. Only one Run may go on at a time.
func (c *Clock) Run(ctx context.Context) {
	defer c.now.Store(nil)
	ticker := time.NewTicker(ClockStep)
	defer ticker.Stop()
	for {
		now := time.Now()
		c.now.Store(&now)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
