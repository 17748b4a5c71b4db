package table

import (
	"sync"
	"time"

	"github.com/warmroute/warmroute/affinity"
)

// naive is a map under a mutex, swept by a scan of all of it under the same.
type naive struct {
	mu     sync.Mutex
	m      map[string]*used
	ttl    time.Duration
	clock  *affinity.Clock
	base   time.Time
	choose func() *Replica
}

func newNaive(cfg Config) Table {
	return &naive{
		m:   map[string]*used{},
		ttl: cfg.TTL, clock: cfg.Clock, base: time.Now(), choose: cfg.Choose,
	}
}

func (t *naive) now() int64 { return int64(t.clock.Now().Sub(t.base)) }

func (t *naive) GetOrCreate(key string) *Replica {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	u := t.m[key]
	if u == nil || u.due(now, t.ttl) {
		u = &used{replica: t.choose()}
		t.m[key] = u
	}
	u.touch(now)
	return u.replica
}

func (t *naive) Delete(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.m, key)
}

func (t *naive) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.m)
}

func (t *naive) Sweep() {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, u := range t.m {
		if u.due(now, t.ttl) {
			delete(t.m, key)
		}
	}
}

func (t *naive) Close() {}
