package table

import (
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/warmroute/warmroute/affinity"
)

// used is the entry of a table whose library knows nothing of time.
type used struct {
	replica *Replica
	last    atomic.Int64 // since the table was made
}

// touch writes only when the coarse clock has moved on, so that a hit does not
// dirty the entry's cache line for nothing.
func (u *used) touch(now int64) {
	if u.last.Load() != now {
		u.last.Store(now)
	}
}

func (u *used) due(now int64, ttl time.Duration) bool { return u.last.Load()+int64(ttl) <= now }

// xsyncTable is swept by a scan of all its entries, a bucket locked at a time.
// An entry that is found by a use just before the scan comes to it is removed
// all the same if it was due.
type xsyncTable struct {
	m      *xsync.Map[string, *used]
	ttl    time.Duration
	clock  *affinity.Clock
	base   time.Time
	choose func() *Replica
}

func newXsync(cfg Config) Table {
	return &xsyncTable{
		m:   xsync.NewMap[string, *used](),
		ttl: cfg.TTL, clock: cfg.Clock, base: time.Now(), choose: cfg.Choose,
	}
}

func (t *xsyncTable) now() int64 { return int64(t.clock.Now().Sub(t.base)) }

func (t *xsyncTable) GetOrCreate(key string) *Replica {
	now := t.now()
	u, ok := t.m.Load(key)
	if !ok || u.due(now, t.ttl) {
		u, _ = t.m.Compute(key, func(old *used, loaded bool) (*used, xsync.ComputeOp) {
			if loaded && !old.due(now, t.ttl) {
				return old, xsync.CancelOp
			}
			u := &used{replica: t.choose()}
			u.last.Store(now)
			return u, xsync.UpdateOp
		})
	}
	u.touch(now)
	return u.replica
}

func (t *xsyncTable) Delete(key string) { t.m.Delete(key) }

func (t *xsyncTable) Len() int { return t.m.Size() }

func (t *xsyncTable) Sweep() {
	now := t.now()
	t.m.DeleteMatching(func(_ string, u *used) (remove, stop bool) { return u.due(now, t.ttl), false })
}

func (t *xsyncTable) Close() {}
