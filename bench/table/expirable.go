package table

import "github.com/hashicorp/golang-lru/v2/expirable"

// expirableTable removes what is due on a goroutine of the library's, a
// hundredth of the TTL at a time, that nothing can stop. It keeps time by
// time.Now. The library has no get-or-create, and its Get does not move the
// deadline: only Add does, so that a use is a Get and an Add.
type expirableTable struct {
	lru    *expirable.LRU[string, *Replica]
	choose func() *Replica
}

func newExpirable(cfg Config) Table {
	return &expirableTable{
		lru:    expirable.NewLRU[string, *Replica](0, nil, cfg.TTL),
		choose: cfg.Choose,
	}
}

func (t *expirableTable) GetOrCreate(key string) *Replica {
	r, ok := t.lru.Get(key)
	if !ok {
		r = t.choose()
	}
	t.lru.Add(key, r)
	return r
}

func (t *expirableTable) Delete(key string) { t.lru.Remove(key) }

func (t *expirableTable) Len() int { return t.lru.Len() }

func (t *expirableTable) Sweep() {}

func (t *expirableTable) Close() { t.lru.Purge() }
