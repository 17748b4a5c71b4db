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

// MaxTTL is ten years, in place of any longer TTL.
const MaxTTL = 10 * 365 * 24 * time.Hour

const shardCount = 256 // a power of two

// Config bounds a [Table]. The zero value takes the defaults.
type Config struct {
	// TTL is how long a conversation without a request is remembered, counted
	// from the end of its last request. Default [DefaultTTL], at most [MaxTTL].
	TTL time.Duration
	// MaxSessions is the number of conversations remembered. When it is reached
	// the longest idle one goes, to within a 64th of the TTL; one with a request
	// in flight never does, so only those can exceed it. Default
	// [DefaultMaxSessions].
	MaxSessions int
}

// Table remembers which home each conversation is bound to. A home is
// whatever H stands for, registered with [Table.NewHome].
//
// It is sharded by one seeded hash of the key; keys whose hashes collide stay
// apart. A hit takes no lock and writes to nothing but the conversation itself.
// A key of up to 39 bytes is copied into it, a longer one is kept as it is.
// Expiry is exact for whoever asks, and [Table.Sweep] gives the memory back; the
// table has no goroutine and no clock of its own.
//
// All methods are safe for concurrent use; none holds more than one shard's
// lock at a time.
type Table[H any] struct {
	seed maphash.Seed
	base time.Time
	ttl  int64
	tick int64 // of the wheels
	max  int64
	// rehash is the Hash of a session's key, but for a test of colliding keys.
	rehash func(*Session[H]) uint64
	_      cacheLine // what is above is read by every hit, what is below written by others
	n      atomic.Int64
	_      cacheLine
	shards [shardCount]shard[H]
	// oldest is, for each shard, since when the conversation that is to go
	// first has been idle: a lower bound, since it may have been used again.
	oldest [shardCount]atomic.Int64
}

// cacheLine keeps what is before it from sharing a cache line with what is
// after.
type cacheLine [64]byte

type shard[H any] struct {
	mu    sync.Mutex
	index index[H]
	wheel *wheel[H] // nil until something is filed
	id    int
	_     cacheLine
}

// Session is one conversation in a [Table]. Its fields but the atomic ones are
// written with its shard's lock held. What a hit needs comes first.
type Session[H any] struct {
	users    atomic.Int32  // requests in flight; far below 0: not in the table any more
	minute   atomic.Uint32 // that it counts as active in
	lastUse  atomic.Int64  // end of the last request, since the table's base
	home     atomic.Pointer[Home[H]]
	state    atomic.Uint32
	filed    uint32 // tick of the wheel it is filed under
	key      sessionKey
	next     *Session[H] // in its slot of the wheel, a ring
	prev     *Session[H]
	homeNext *Session[H] // among its home's in this shard
	homePrev *Session[H]
}

// Bits of Session.state. They are written with the shard's lock held. Above them
// are the number of its shard, which stays, and the memo, which anybody may
// write.
const (
	warm   = 1 << iota // an answer of the home has begun
	byTick             // filed in a tick of the wheel
	bySpan             // filed in a span of the wheel

	shardShift = iota
	memoShift  = shardShift + 8 // for the numbers of shardCount shards
)

// MaxMemo is the largest memo of a [Session].
const MaxMemo = 1<<(32-memoShift) - 1

// gone is what users is set to when a session is removed. A hit counts itself in
// without a lock, and finds out by the sum whether it came too late.
const gone = math.MinInt32 / 2

// claim makes sure that no request of a session is in flight and none will be,
// so that it can be removed. The shard's lock is held.
func (s *Session[H]) claim() bool { return s.users.CompareAndSwap(0, gone) }

// unclaim takes a claim back. Not by a store: a hit that came too late may have
// counted itself in and is about to count itself out.
func (s *Session[H]) unclaim() { s.users.Add(-gone) }

func (s *Session[H]) is(bits uint32) bool { return s.state.Load()&bits != 0 }

// NewTable returns an empty table.
func NewTable[H any](cfg Config) *Table[H] {
	if cfg.TTL <= 0 {
		cfg.TTL = DefaultTTL
	}
	cfg.TTL = min(cfg.TTL, MaxTTL)
	if cfg.MaxSessions <= 0 {
		cfg.MaxSessions = DefaultMaxSessions
	}
	t := &Table[H]{
		seed: maphash.MakeSeed(),
		// A TTL back, so that no last use that still counts lies before it.
		base: time.Now().Add(-cfg.TTL),
		ttl:  int64(cfg.TTL),
		tick: max(int64(cfg.TTL)/ticksPerTTL, int64(minTick)),
		max:  int64(cfg.MaxSessions),
	}
	t.rehash = func(s *Session[H]) uint64 { return nonZero(s.key.hash(t.seed)) }
	for i := range t.shards {
		t.shards[i].id = i
		t.oldest[i].Store(never)
	}
	return t
}

// Hash returns the hash of a key, for the methods that ask for it, so that it
// is computed once per request. It is seeded per table and never 0.
func (t *Table[H]) Hash(key string) uint64 {
	return nonZero(maphash.String(t.seed, key))
}

func nonZero(hash uint64) uint64 { return max(hash, 1) }

// Len is the number of conversations in the table, bound or not.
func (t *Table[H]) Len() int { return int(t.n.Load()) }

// Tick is how much later than its TTL a conversation may be removed by
// [Table.Sweep]: a 4096th of the TTL, at least 50 milliseconds. It is not found
// any more as soon as the TTL is over.
func (t *Table[H]) Tick() time.Duration { return time.Duration(t.tick) }

func (t *Table[H]) at(now time.Time) int64 { return max(0, int64(now.Sub(t.base))) }

func (t *Table[H]) shard(hash uint64) *shard[H] { return &t.shards[hash&(shardCount-1)] }

func (t *Table[H]) shardOf(s *Session[H]) *shard[H] {
	return &t.shards[s.state.Load()>>shardShift&(shardCount-1)]
}

func (t *Table[H]) expired(s *Session[H], at int64) bool {
	return s.users.Load() <= 0 && s.lastUse.Load()+t.ttl <= at
}

// Acquire returns the conversation of the key, made if there is none, and
// counts a request of it as in flight: until the [Table.Release] that belongs
// to it, it neither expires nor is evicted. hash is the key's [Table.Hash].
// Concurrent calls for one key get the same Session.
func (t *Table[H]) Acquire(key string, hash uint64, now time.Time) *Session[H] {
	at := t.at(now)
	minute := minuteOf(at)
	sh := t.shard(hash)
	if s := sh.index.find(key, hash); s != nil && s.minute.Load() == minute && !t.expired(s, at) {
		if s.users.Add(1) > 0 {
			return s
		}
		s.users.Add(-1) // it was removed just before
	}
	return t.acquire(sh, key, hash, at, minute)
}

// acquire is Acquire for all but a plain hit.
func (t *Table[H]) acquire(sh *shard[H], key string, hash uint64, at int64, minute uint32) *Session[H] {
	sh.mu.Lock()
	s := sh.index.find(key, hash)
	if s != nil {
		// Counted in first: whoever removes it needs the lock.
		if s.users.Add(1) == 1 && s.lastUse.Load()+t.ttl <= at {
			s.unbind(sh.id)
		}
		s.touch(minute)
		sh.mu.Unlock()
		return s
	}
	s = &Session[H]{}
	s.key.set(key)
	s.minute.Store(minute)
	s.users.Store(1)
	s.lastUse.Store(at)
	t.insert(sh, hash, s)
	sh.mu.Unlock()
	t.makeRoom(at)
	return s
}

// insert puts a new session into its shard, whose lock is held.
func (t *Table[H]) insert(sh *shard[H], hash uint64, s *Session[H]) {
	s.state.Or(uint32(sh.id) << shardShift)
	sh.index.insert(s, hash, t.rehash)
	t.n.Add(1)
	t.file(sh, s)
}

// Release counts a request of the conversation as finished. The TTL starts
// when the last one is. A binding whose home has not begun an answer by then
// goes with it, since nothing of the conversation is cached there.
func (t *Table[H]) Release(s *Session[H], now time.Time) {
	at := t.at(now)
	for {
		// Before the count goes down: from then on it may be swept.
		last := s.lastUse.Load()
		if last >= at || s.lastUse.CompareAndSwap(last, at) {
			break
		}
	}
	if s.users.Add(-1) > 0 || s.is(byTick|bySpan) && s.is(warm) && s.Home() != nil {
		return
	}
	sh := t.shardOf(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	switch {
	case s.users.Load() != 0: // in flight again, or gone
	case !s.is(warm) || s.Home() == nil:
		if s.claim() {
			t.remove(sh, s)
		}
	case !s.is(byTick | bySpan):
		t.file(sh, s) // the wheel came by while a request was in flight
	}
}

// Bind makes home the conversation's home, unless home is closed: then it has
// none. The caller has acquired s.
func (t *Table[H]) Bind(s *Session[H], home *Home[H], now time.Time) {
	sh := t.shardOf(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.unbind(sh.id)
	if home.closed.Load() || s.users.Load() < 0 {
		return
	}
	s.minute.Store(minuteOf(t.at(now)))
	s.bind(home, sh.id)
}

// Warm records that an answer of home has begun, so that a prefix of the
// conversation is cached there. It does nothing if home is no longer the
// conversation's home.
func (t *Table[H]) Warm(s *Session[H], home *Home[H]) {
	if s.is(warm) {
		return
	}
	sh := t.shardOf(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.home.Load() == home {
		s.state.Or(warm)
	}
}

// Unbind takes the conversation's home away if it is home: what was cached
// there is lost.
func (t *Table[H]) Unbind(s *Session[H], home *Home[H]) {
	sh := t.shardOf(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.home.Load() == home {
		s.unbind(sh.id)
	}
}

// UnbindCold is Unbind if no answer of home has begun since it was bound: what
// was to be cached there will not be.
func (t *Table[H]) UnbindCold(s *Session[H], home *Home[H]) {
	sh := t.shardOf(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s.home.Load() == home && !s.is(warm) {
		s.unbind(sh.id)
	}
}

// Peek returns the home of the key's conversation, nil if it has none, without
// counting as a use of it.
func (t *Table[H]) Peek(key string, now time.Time) *Home[H] {
	hash := t.Hash(key)
	sh := t.shard(hash)
	s := sh.index.find(key, hash)
	if s == nil || t.expired(s, t.at(now)) {
		return nil
	}
	return s.Home()
}

// remove takes a claimed session out of its shard, whose lock is held.
func (t *Table[H]) remove(sh *shard[H], s *Session[H]) {
	s.unbind(sh.id)
	t.unfile(sh, s)
	sh.index.remove(s, t.rehash(s))
	t.n.Add(-1)
}

// Home returns the conversation's home, nil if it has none or the home was
// closed.
func (s *Session[H]) Home() *Home[H] {
	if h := s.home.Load(); h != nil && !h.closed.Load() {
		return h
	}
	return nil
}

// LastUse is when the last request of the conversation ended, or when it was
// made if none has.
func (t *Table[H]) LastUse(s *Session[H]) time.Time {
	return t.base.Add(time.Duration(s.lastUse.Load()))
}

// Memo is a number that the table keeps with the conversation for its user: 0
// until [Session.SetMemo], and again when the conversation loses its home.
func (s *Session[H]) Memo() uint32 { return s.state.Load() >> memoShift }

// SetMemo sets the memo; above [MaxMemo] it is that.
func (s *Session[H]) SetMemo(memo uint32) {
	memo = min(memo, MaxMemo) << memoShift
	for {
		old := s.state.Load()
		if s.state.CompareAndSwap(old, old&(1<<memoShift-1)|memo) {
			return
		}
	}
}

// bind needs the shard's lock, and that s has no home.
func (s *Session[H]) bind(h *Home[H], shard int) {
	h.sessions.Add(1)
	h.active.add(s.minute.Load())
	first := &h.first[shard]
	if s.homeNext = *first; s.homeNext != nil {
		s.homeNext.homePrev = s
	}
	*first = s
	s.home.Store(h)
}

// unbind needs the shard's lock.
func (s *Session[H]) unbind(shard int) {
	s.state.And(1<<memoShift - 1 - warm) // and no memo
	h := s.home.Load()
	if h == nil {
		return
	}
	h.sessions.Add(-1)
	h.active.remove(s.minute.Load())
	if s.homePrev != nil {
		s.homePrev.homeNext = s.homeNext
	} else {
		h.first[shard] = s.homeNext
	}
	if s.homeNext != nil {
		s.homeNext.homePrev = s.homePrev
	}
	s.homeNext, s.homePrev = nil, nil
	s.home.Store(nil)
}

// touch needs the shard's lock.
func (s *Session[H]) touch(minute uint32) {
	if s.minute.Load() == minute {
		return
	}
	if h := s.home.Load(); h != nil {
		h.active.remove(s.minute.Load())
		h.active.add(minute)
	}
	s.minute.Store(minute)
}
