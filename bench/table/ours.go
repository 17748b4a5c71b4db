package table

import (
	"sync"
	"time"

	"github.com/warmroute/warmroute/affinity"
)

// ours does what a router does for a request: the conversation counts as in
// flight from Acquire to Release, and is counted and filed by its replica. A
// peer's GetOrCreate does neither.
type ours struct {
	table  *affinity.Table[*Replica]
	homes  []*affinity.Home[*Replica] // by Replica.ID
	clock  *affinity.Clock
	choose func() *Replica
	// placing makes choosing and binding one step. A peer chooses with a bucket
	// of its map locked; a router does it under its pool's lock.
	placing [64]struct {
		sync.Mutex
		_ [56]byte
	}
}

func newOurs(cfg Config) Table {
	t := &ours{
		table:  affinity.NewTable[*Replica](affinity.Config{TTL: cfg.TTL, MaxSessions: Bound}),
		clock:  cfg.Clock,
		choose: cfg.Choose,
	}
	for _, r := range cfg.Replicas {
		t.homes = append(t.homes, t.table.NewHome(r))
	}
	return t
}

func (t *ours) GetOrCreate(key string) *Replica {
	now := t.clock.Now()
	hash := t.table.Hash(key)
	s := t.table.Acquire(key, hash, now)
	home := s.Home()
	if home == nil {
		home = t.place(s, hash, now)
	}
	t.table.Warm(s, home)
	t.table.Release(s, now)
	return home.Value
}

func (t *ours) place(s *affinity.Session[*Replica], hash uint64, now time.Time) *affinity.Home[*Replica] {
	mu := &t.placing[hash>>32%uint64(len(t.placing))]
	mu.Lock()
	defer mu.Unlock()
	if home := s.Home(); home != nil {
		return home // placed meanwhile
	}
	home := t.homes[t.choose().ID]
	t.table.Bind(s, home, now)
	return home
}

// Delete has a conversation without a home end, which removes it.
func (t *ours) Delete(key string) {
	s := t.table.Acquire(key, t.table.Hash(key), t.clock.Now())
	if home := s.Home(); home != nil {
		t.table.Unbind(s, home)
	}
	t.table.Release(s, t.clock.Now())
}

func (t *ours) Len() int { return t.table.Len() }

func (t *ours) Sweep() { t.table.Sweep(t.clock.Now()) }

func (t *ours) Close() {}
