package affinity

import (
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
	sessions atomic.Int64
	active   activity
	closed   atomic.Bool
}

// NewHome registers a home for conversations of this table.
func (t *Table[H]) NewHome(value H) *Home[H] { return &Home[H]{Value: value, table: t} }

// Sessions is the number of conversations bound to the home; 0 once it is
// closed.
func (h *Home[H]) Sessions() int {
	if h.closed.Load() {
		return 0
	}
	return int(h.sessions.Load())
}

// Active is the number of bound conversations that had a request begin or end
// within the last [ActiveMinutes], counted in whole minutes.
func (h *Home[H]) Active(now time.Time) int {
	if h.closed.Load() {
		return 0
	}
	return h.active.sum(h.table.minute(h.table.at(now)))
}

// Close takes the home away from all its conversations at once. What is bound
// to it later, by a request that was on its way, is unbound as well.
func (h *Home[H]) Close() { h.closed.Store(true) }

// activity counts conversations by the minute of their last use, in slots that
// are used in turn: minute in the upper half, count in the lower.
type activity [8]atomic.Uint64

func (t *Table[H]) minute(at int64) uint32 {
	// Offset by one so that 0 is no minute at all.
	return uint32(max(0, at)/int64(time.Minute)) + 1
}

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
