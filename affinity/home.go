package affinity

import (
	"iter"
	"sync/atomic"
	"time"
)

// ActiveMinutes is the window of [Home.Active], in minutes.
const ActiveMinutes = 5

// Home is what conversations are bound to: a replica, for a router. All
// methods are safe for concurrent use.
type Home[H any] struct {
	// Value is what the home stands for.
	Value    H
	table    *Table[H]
	closed   atomic.Bool
	_        cacheLine // above is what every hit reads
	sessions atomic.Int64
	active   activity
	first    [shardCount]*Session[H] // by shard, guarded by its lock
}

// NewHome registers a home for conversations of this table.
func (t *Table[H]) NewHome(value H) *Home[H] { return &Home[H]{Value: value, table: t} }

// Closed reports whether the home was closed.
func (h *Home[H]) Closed() bool { return h.closed.Load() }

// Sessions is the number of conversations bound to the home; 0 once it is
// closed. It is a counter, not a walk.
func (h *Home[H]) Sessions() int {
	if h.closed.Load() {
		return 0
	}
	return int(h.sessions.Load())
}

// Active is the number of bound conversations that had a request begin within
// the last [ActiveMinutes], counted in whole minutes. It is a sum of counters,
// not a walk.
func (h *Home[H]) Active(now time.Time) int {
	if h.closed.Load() {
		return 0
	}
	return h.active.sum(minuteOf(h.table.at(now)))
}

// Binding is a conversation and how long it has been idle, 0 while a request
// of it is in flight.
type Binding struct {
	Key  string
	Idle time.Duration
}

// Bindings walks the conversations that are bound to the home and of which it
// has begun an answer. What comes or goes meanwhile may or may not be seen. No
// lock is held while the loop's body runs.
func (h *Home[H]) Bindings(now time.Time) iter.Seq[Binding] {
	return func(yield func(Binding) bool) {
		var batch []Binding
		for i := range h.first {
			batch = h.appendBindings(batch[:0], i, h.table.at(now))
			for _, b := range batch {
				if !yield(b) {
					return
				}
			}
		}
	}
}

func (h *Home[H]) appendBindings(batch []Binding, shard int, at int64) []Binding {
	mu := &h.table.shards[shard].mu
	mu.Lock()
	defer mu.Unlock()
	for s := h.first[shard]; s != nil; s = s.homeNext {
		if h.closed.Load() || !s.is(warm) || h.table.expired(s, at) {
			continue
		}
		b := Binding{Key: s.key.String()}
		if s.users.Load() <= 0 {
			b.Idle = time.Duration(max(0, at-s.lastUse.Load()))
		}
		batch = append(batch, b)
	}
	return batch
}

// Close takes the home away from all its conversations: none finds it any more
// from when Close is called, and those that are idle are gone from the table
// when it returns. It takes one shard's lock after the other. What a request on
// its way would bind to it later stays unbound.
func (h *Home[H]) Close() {
	h.closed.Store(true)
	for i := range h.first {
		sh := &h.table.shards[i]
		sh.mu.Lock()
		for s := h.first[i]; s != nil; s = h.first[i] {
			if s.claim() {
				h.table.remove(sh, s)
			} else {
				s.unbind(i)
			}
		}
		sh.index.shrink(h.table.rehash)
		sh.mu.Unlock()
	}
}

// activity counts conversations by the minute of their last use, in slots that
// are used in turn: minute in the upper half, count in the lower.
type activity [8]atomic.Uint64

// minuteOf is the minute of a time since the table's base, offset by one so
// that 0 is no minute at all.
func minuteOf(at int64) uint32 { return uint32(max(0, at)/int64(time.Minute)) + 1 }

func (a *activity) add(minute uint32) {
	slot := &a[minute%uint32(len(a))]
	for {
		old := slot.Load()
		next := uint64(minute)<<32 | 1
		switch had := uint32(old >> 32); {
		case had == minute:
			next = old + 1
		case had > minute:
			return // that minute is out of the window already
		}
		if slot.CompareAndSwap(old, next) {
			return
		}
	}
}

func (a *activity) remove(minute uint32) {
	slot := &a[minute%uint32(len(a))]
	for {
		old := slot.Load()
		if uint32(old>>32) != minute || uint32(old) == 0 {
			return // the slot was taken over by a later minute
		}
		if slot.CompareAndSwap(old, old-1) {
			return
		}
	}
}

func (a *activity) sum(minute uint32) int {
	n := 0
	for back := range uint32(ActiveMinutes) {
		if back >= minute {
			break
		}
		if v := a[(minute-back)%uint32(len(a))].Load(); uint32(v>>32) == minute-back {
			n += int(uint32(v))
		}
	}
	return n
}
