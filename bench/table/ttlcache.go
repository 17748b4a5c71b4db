package table

import "github.com/jellydator/ttlcache/v3"

// ttlCache removes what is due on a goroutine of its own, when it is due, and
// keeps time by time.Now. GetOrSetFunc is its one call that gets or creates in
// one step.
type ttlCache struct {
	cache  *ttlcache.Cache[string, *Replica]
	choose func() *Replica
}

func newTTLCache(cfg Config) Table {
	t := &ttlCache{
		cache:  ttlcache.New(ttlcache.WithTTL[string, *Replica](cfg.TTL)),
		choose: cfg.Choose,
	}
	go t.cache.Start()
	return t
}

func (t *ttlCache) GetOrCreate(key string) *Replica {
	item, _ := t.cache.GetOrSetFunc(key, t.choose)
	return item.Value()
}

func (t *ttlCache) Delete(key string) { t.cache.Delete(key) }

// Len goes by the counters: the cache's own Len leaves out what is due, and
// walks it under the lock to do so.
func (t *ttlCache) Len() int {
	m := t.cache.Metrics()
	return int(m.Insertions - m.Evictions)
}

func (t *ttlCache) Sweep() {}

func (t *ttlCache) Close() { t.cache.Stop() }
