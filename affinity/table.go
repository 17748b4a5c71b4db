package affinity

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults of [Config].
const (
	DefaultTTL         = time.Hour
	DefaultMaxSessions = 1 << 20
)

const shardCount = 64 // a power of two

// Config bounds a [Table]. The zero value takes the defaults.
type Config struct {
	// TTL is how long a conversation without a request is remembered, counted
	// from the end of its last request. Default [DefaultTTL].
	TTL time.Duration
	// MaxSessions is the number of conversations remembered. When it is reached
	// the longest idle one goes; one with a request in flight never does, so
	// only those can exceed it. Default [DefaultMaxSessions].
	MaxSessions int
}

// Table remembers which home each conversation is bound to. A home is
// whatever H stands for, registered with [Table.NewHome]. It is sharded by one
// seeded hash of the key; keys whose hashes collide stay apart. All methods
// are safe for concurrent use; none blocks on more than one shard's lock. The
// table has no goroutine: expiry is exact on [Table.Acquire], and
// [Table.Sweep] gives the memory back.
type Table[H any] struct {
	seed   maphash.Seed
	base   time.Time
	ttl    int64
	max    int64
	n      atomic.Int64
	shards [shardCount]shard[H]
}

// shard holds its idle conversations in the order in which they became idle.
// The TTL is the same for all, so that order is also the order of expiry and
// of eviction, and neither ever searches.
type shard[H any] struct {
	mu     sync.Mutex
	byHash map[uint64]*Session[H]
	peak   int // largest len(byHash) since byHash was made
	oldest *Session[H]
	newest *Session[H]
	// since is the idle time of oldest, for a look without the lock.
	since atomic.Int64
	_     [64]byte // keeps two shards' locks off one cache line
}

const never = math.MaxInt64

// Session is one conversation in a [Table].
type Session[H any] struct {
	home      atomic.Pointer[Home[H]]
	key       string
	hash      uint64
	collision *Session[H] // next with the same hash
	older     *Session[H] // idle list
	newer     *Session[H]
	idleSince int64 // since the table's base, valid while users is 0
	users     int32 // requests in flight
	minute    uint32
	warm      bool // an answer of the home has begun
}

// NewTable returns an empty table.
func NewTable[H any](cfg Config) *Table[H] {
	if cfg.TTL <= 0 {
		cfg.TTL = DefaultTTL
	}
	if cfg.MaxSessions <= 0 {
		cfg.MaxSessions = DefaultMaxSessions
	}
	t := &Table[H]{seed: maphash.MakeSeed(), base: time.Now(), ttl: int64(cfg.TTL), max: int64(cfg.MaxSessions)}
	for i := range t.shards {
		t.shards[i].byHash = make(map[uint64]*Session[H])
		t.shards[i].since.Store(never)
	}
	return t
}

// Hash returns the hash of a key, for the methods that ask for it, so that it
// is computed once per request. It is seeded per table and never 0.
func (t *Table[H]) Hash(key string) uint64 {
	if h := maphash.String(t.seed, key); h != 0 {
		return h
	}
	return 1
}

// Len is the number of conversations in the table, bound or not.
func (t *Table[H]) Len() int { return int(t.n.Load()) }

func (t *Table[H]) at(now time.Time) int64 { return int64(now.Sub(t.base)) }

func (t *Table[H]) shard(hash uint64) *shard[H] { return &t.shards[hash&(shardCount-1)] }

// Acquire returns the conversation of the key, made if there is none, and
// counts a request of it as in flight: until the [Table.Release] that belongs
// to it, it neither expires nor is evicted. Concurrent calls for one key get
// the same Session.
func (t *Table[H]) Acquire(key string, hash uint64, now time.Time) *Session[H] {
	at := t.at(now)
	sh := t.shard(hash)
	sh.mu.Lock()
	s := sh.find(key, hash)
	if s != nil {
		if s.users == 0 {
			sh.unlink(s)
			if s.idleSince+t.ttl <= at {
				s.unbind()
			}
		}
		s.users++
		s.touch(t.minute(at))
		sh.mu.Unlock()
		return s
	}
	s = &Session[H]{key: key, hash: hash, users: 1}
	s.collision = sh.byHash[hash]
	sh.byHash[hash] = s
	sh.peak = max(sh.peak, len(sh.byHash))
	sh.mu.Unlock()
	if t.n.Add(1) > t.max {
		t.evict()
	}
	return s
}

// Release counts a request of the conversation as finished. The TTL starts
// when the last one is. A binding whose home has not begun an answer by then
// goes with it, since nothing of the conversation is cached there.
func (t *Table[H]) Release(s *Session[H], now time.Time) {
	at := t.at(now)
	sh := t.shard(s.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.touch(t.minute(at))
	if s.users--; s.users > 0 {
		return
	}
	if !s.warm || s.Home() == nil {
		t.remove(sh, s)
		return
	}
	s.idleSince = at
	sh.link(s)
}

// Bind makes home the conversation's home. The caller has acquired s.
func (t *Table[H]) Bind(s *Session[H], home *Home[H], now time.Time) {
	sh := t.shard(s.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.unbind()
	s.minute = t.minute(t.at(now))
	home.sessions.Add(1)
	home.active.add(s.minute)
	s.home.Store(home)
}

// Warm records that an answer of home has begun, so that a prefix of the
// conversation is cached there. It does nothing if home is no longer the
// conversation's home.
func (t *Table[H]) Warm(s *Session[H], home *Home[H]) {
	sh := t.shard(s.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.home.Load() == home {
		s.warm = true
	}
}

// Unbind takes the conversation's home away if it is home: what was cached
// there is lost.
func (t *Table[H]) Unbind(s *Session[H], home *Home[H]) {
	sh := t.shard(s.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.home.Load() == home {
		s.unbind()
	}
}

// Peek returns the home of the key's conversation, nil if it has none, without
// counting as a use of it.
func (t *Table[H]) Peek(key string, now time.Time) *Home[H] {
	hash := t.Hash(key)
	sh := t.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s := sh.find(key, hash)
	if s == nil || s.users == 0 && s.idleSince+t.ttl <= t.at(now) {
		return nil
	}
	return s.Home()
}

// Sweep removes the conversations whose TTL is over and returns their number.
// It holds a shard's lock for a few conversations at a time.
func (t *Table[H]) Sweep(now time.Time) int {
	const batch = 64
	at, removed := t.at(now), 0
	for i := range t.shards {
		sh := &t.shards[i]
		for more := true; more && sh.since.Load()+t.ttl <= at; {
			sh.mu.Lock()
			n := 0
			for ; n < batch && sh.oldest != nil && sh.oldest.idleSince+t.ttl <= at; n++ {
				s := sh.oldest
				sh.unlink(s)
				t.remove(sh, s)
			}
			more = n == batch
			sh.shrink()
			sh.mu.Unlock()
			removed += n
		}
	}
	return removed
}

// evict removes the conversations that have been idle longest until the table
// is within its bound.
func (t *Table[H]) evict() {
	for t.n.Load() > t.max {
		victim, since := -1, int64(never)
		for i := range t.shards {
			if at := t.shards[i].since.Load(); at < since {
				victim, since = i, at
			}
		}
		if victim < 0 {
			return // all that is left is in flight
		}
		sh := &t.shards[victim]
		sh.mu.Lock()
		if s := sh.oldest; s != nil && t.n.Load() > t.max {
			sh.unlink(s)
			t.remove(sh, s)
		}
		sh.mu.Unlock()
	}
}

// remove takes an unlinked session out of its shard, whose lock is held.
func (t *Table[H]) remove(sh *shard[H], s *Session[H]) {
	s.unbind()
	head := sh.byHash[s.hash]
	if head == s {
		if s.collision == nil {
			delete(sh.byHash, s.hash)
		} else {
			sh.byHash[s.hash] = s.collision
		}
	} else {
		for head.collision != s {
			head = head.collision
		}
		head.collision = s.collision
	}
	s.collision = nil
	t.n.Add(-1)
}

func (sh *shard[H]) find(key string, hash uint64) *Session[H] {
	s := sh.byHash[hash]
	for s != nil && s.key != key {
		s = s.collision
	}
	return s
}

// shrink rebuilds a map that has lost most of its keys: a Go map keeps its
// size (golang/go#20135).
func (sh *shard[H]) shrink() {
	const small = 64
	if sh.peak <= small || len(sh.byHash) > sh.peak/4 {
		return
	}
	m := make(map[uint64]*Session[H], len(sh.byHash))
	for h, s := range sh.byHash {
		m[h] = s
	}
	sh.byHash, sh.peak = m, len(m)
}

func (sh *shard[H]) link(s *Session[H]) {
	s.older, s.newer = sh.newest, nil
	if sh.newest != nil {
		sh.newest.newer = s
	} else {
		sh.oldest = s
		sh.since.Store(s.idleSince)
	}
	sh.newest = s
}

func (sh *shard[H]) unlink(s *Session[H]) {
	if s.older != nil {
		s.older.newer = s.newer
	} else {
		sh.oldest = s.newer
		if s.newer != nil {
			sh.since.Store(s.newer.idleSince)
		} else {
			sh.since.Store(never)
		}
	}
	if s.newer != nil {
		s.newer.older = s.older
	} else {
		sh.newest = s.older
	}
	s.older, s.newer = nil, nil
}

// Home returns the conversation's home, nil if it has none or the home was
// closed.
func (s *Session[H]) Home() *Home[H] {
	if h := s.home.Load(); h != nil && !h.closed.Load() {
		return h
	}
	return nil
}

// unbind needs the shard's lock.
func (s *Session[H]) unbind() {
	if h := s.home.Load(); h != nil {
		h.sessions.Add(-1)
		h.active.remove(s.minute)
		s.home.Store(nil)
	}
	s.warm = false
}

// touch needs the shard's lock.
func (s *Session[H]) touch(minute uint32) {
	if s.minute == minute {
		return
	}
	if h := s.home.Load(); h != nil {
		h.active.remove(s.minute)
		h.active.add(minute)
	}
	s.minute = minute
}
