package table

import (
	"github.com/maypok86/otter/v2"

	"github.com/warmroute/warmroute/affinity"
)

// otterTable removes what is due on a goroutine of its own, once a second, and
// keeps time by otter's own coarse clock, which is its fastest.
type otterTable struct {
	cache  *otter.Cache[string, *Replica]
	clock  *otter.CoarseClock
	create func() (*Replica, bool)
}

func newOtter(cfg Config) Table { return makeOtter(cfg, 0) }

// newBoundedOtter has otter keep its admission and eviction policy as well.
func newBoundedOtter(cfg Config) Table { return makeOtter(cfg, Bound) }

func makeOtter(cfg Config, bound int) Table {
	clock := otter.NewCoarseClock(affinity.ClockStep)
	return &otterTable{
		cache: otter.Must(&otter.Options[string, *Replica]{
			MaximumSize:      bound,
			ExpiryCalculator: otter.ExpiryAccessing[string, *Replica](cfg.TTL),
			Clock:            clock,
		}),
		clock:  clock,
		create: func() (*Replica, bool) { return cfg.Choose(), false },
	}
}

func (t *otterTable) GetOrCreate(key string) *Replica {
	r, _ := t.cache.ComputeIfAbsent(key, t.create)
	return r
}

func (t *otterTable) Delete(key string) { t.cache.Invalidate(key) }

func (t *otterTable) Len() int { return t.cache.EstimatedSize() }

func (t *otterTable) Sweep() {}

func (t *otterTable) Close() {
	t.cache.StopAllGoroutines()
	t.clock.Stop()
}
