package affinity

import (
	"math"
	"math/bits"
	"time"
)

// The wheel files each conversation of a shard under the tick at which its TTL
// ends, as it was when it was filed. A use does not move it: that would make a
// hit write to its neighbours. When the wheel comes to it, it is filed anew by
// its last use, once per TTL at the most, and so goes at most a tick late.
//
// One that is in flight then is put out of the wheel, and back in at the end of
// its request.
//
// Ticks of the span that the hand is in have a slot each; each later span has
// one slot for all of it, which is spread when the hand gets there.
const (
	ticksPerTTL  = 4096
	ticksPerSpan = 64
	spanSlots    = 128 // more than a TTL has spans, so that none is met twice
)

// minTick makes 32 bits of ticks last for six years.
const minTick = 50 * time.Millisecond

const never = math.MaxInt64

type wheel[H any] struct {
	hand    uint32 // the first tick not yet done
	ticks   [ticksPerSpan]*Session[H]
	spans   [spanSlots]*Session[H]
	inTicks [1]uint64 // which of ticks are not empty
	inSpans [2]uint64 // which of spans
}

// last is the last tick that anything can be filed under.
func (w *wheel[H]) last() uint32 { return w.hand + (spanSlots-1)*ticksPerSpan }

// due is the tick at which a use at the given time is a TTL ago.
func (t *Table[H]) due(use int64) uint32 { return uint32((use + t.ttl + t.tick - 1) / t.tick) }

// file files a session by its last use. The shard's lock is held.
func (t *Table[H]) file(sh *shard[H], s *Session[H]) {
	if sh.wheel == nil {
		sh.wheel = &wheel[H]{hand: uint32(s.lastUse.Load() / t.tick)}
	}
	w := sh.wheel
	// What is due already goes into the first slot that will be looked at; what
	// seems to be far ahead of a hand that is behind, into the last.
	s.filed = min(max(t.due(s.lastUse.Load()), w.hand), w.last())
	var slot **Session[H]
	if s.filed/ticksPerSpan == w.hand/ticksPerSpan {
		i := s.filed % ticksPerSpan
		slot = &w.ticks[i]
		s.state.Or(byTick)
		w.inTicks[0] |= 1 << i
	} else {
		i := s.filed / ticksPerSpan % spanSlots
		slot = &w.spans[i]
		s.state.Or(bySpan)
		w.inSpans[i/64] |= 1 << (i % 64)
	}
	if first := *slot; first == nil {
		s.next, s.prev = s, s
		*slot = s
	} else { // at the end: a slot is a queue
		s.next, s.prev = first, first.prev
		first.prev.next = s
		first.prev = s
	}
	t.noteOldest(sh)
}

// unfile takes a session out of the wheel if it is in it. The shard's lock is
// held.
func (t *Table[H]) unfile(sh *shard[H], s *Session[H]) {
	w := sh.wheel
	var slot **Session[H]
	var words []uint64
	i := s.filed % ticksPerSpan
	switch {
	case s.is(byTick):
		slot, words = &w.ticks[i], w.inTicks[:]
	case s.is(bySpan):
		i = s.filed / ticksPerSpan % spanSlots
		slot, words = &w.spans[i], w.inSpans[:]
	default:
		return
	}
	s.prev.next, s.next.prev = s.next, s.prev
	switch {
	case s.next == s:
		*slot = nil
		words[i/64] &^= 1 << (i % 64)
	case *slot == s:
		*slot = s.next
	}
	s.next, s.prev = nil, nil
	s.state.And(^uint32(byTick | bySpan))
	t.noteOldest(sh)
}

// first is the session that is filed under the earliest tick or span.
func (w *wheel[H]) first() *Session[H] {
	if w.inTicks[0] != 0 {
		return w.ticks[bits.TrailingZeros64(w.inTicks[0])]
	}
	// The spans after the hand's, in their order: a rotation of the slots.
	start := (w.hand/ticksPerSpan + 1) % spanSlots
	for n := uint32(0); n < spanSlots; {
		i := (start + n) % spanSlots
		rest := w.inSpans[i/64] >> (i % 64)
		if rest != 0 {
			return w.spans[i+uint32(bits.TrailingZeros64(rest))]
		}
		n += 64 - i%64
	}
	return nil
}

// noteOldest notes since when the first session of the shard's wheel is idle. If
// it has been used since it was filed, those behind it may be idle longer, so
// that what it was filed by is noted.
func (t *Table[H]) noteOldest(sh *shard[H]) {
	since := int64(never)
	if s := sh.wheel.first(); s != nil {
		since = s.lastUse.Load()
		if t.due(since) > s.filed {
			since = int64(s.filed-1)*t.tick - t.ttl
		}
	}
	if t.oldest[sh.id].Load() != since {
		t.oldest[sh.id].Store(since)
	}
}

// Sweep removes the conversations whose TTL is over and returns their number.
// It holds a shard's lock for a few conversations at a time.
func (t *Table[H]) Sweep(now time.Time) int {
	at, removed := t.at(now), 0
	for i := range t.shards {
		sh := &t.shards[i]
		for more := true; more; {
			sh.mu.Lock()
			var n int
			n, more = t.advance(sh, at)
			removed += n
			sh.index.shrink(t.rehash)
			sh.mu.Unlock()
		}
	}
	return removed
}

// advance moves the hand to the given time, or as far as one holding of the
// lock should last, and reports how many it removed and whether there is more
// to do.
func (t *Table[H]) advance(sh *shard[H], at int64) (removed int, more bool) {
	w := sh.wheel
	if w == nil {
		return 0, false
	}
	target := uint32(at/t.tick) + 1 // the first tick that is not over
	if t.oldest[sh.id].Load() == never {
		w.hand = max(w.hand, target)
		return 0, false
	}
	work := 0
	for w.hand < target {
		s := w.ticks[w.hand%ticksPerSpan]
		if s == nil {
			w.step(target)
			if span := w.hand / ticksPerSpan % spanSlots; w.hand%ticksPerSpan == 0 && w.spans[span] != nil {
				work += t.spread(sh, span)
			}
			continue
		}
		if work >= 64 {
			return removed, true
		}
		work++
		t.unfile(sh, s)
		switch {
		case t.inFlight(s):
		case s.lastUse.Load()+t.ttl > at:
			t.file(sh, s)
		case !s.claim():
		case s.lastUse.Load()+t.ttl > at: // used, and done, just before the claim
			s.unclaim()
			t.file(sh, s)
		default:
			t.remove(sh, s)
			removed++
		}
	}
	return removed, false
}

// step moves the hand over empty ticks, to the end of its span at the most.
func (w *wheel[H]) step(target uint32) {
	left := w.inTicks[0] >> (w.hand % ticksPerSpan)
	n := ticksPerSpan - w.hand%ticksPerSpan
	if left != 0 {
		n = uint32(bits.TrailingZeros64(left))
	}
	w.hand += min(n, target-w.hand)
}

// spread files the sessions of a span that the hand has come to by tick, each
// by what its last use is by now.
func (t *Table[H]) spread(sh *shard[H], span uint32) (n int) {
	w := sh.wheel
	first := w.spans[span]
	w.spans[span] = nil
	w.inSpans[span/64] &^= 1 << (span % 64)
	for s := first; ; n++ {
		next := s.next
		s.state.And(^uint32(bySpan))
		t.file(sh, s)
		if next == first {
			return n + 1
		}
		s = next
	}
}

// inFlight reports whether a session that was just taken out of the wheel is to
// stay out, until the end of its last request. Release counts down first and
// then looks whether the session is filed; this is the other way about, so that
// one of the two sees what the other did. A claim that fails is the same: a
// request came in between.
func (t *Table[H]) inFlight(s *Session[H]) bool { return s.users.Load() > 0 }

// makeRoom removes the conversations that have been idle longest until the
// table is within its bound.
func (t *Table[H]) makeRoom(at int64) {
	for t.n.Load() > t.max {
		victim, since := -1, int64(never)
		for i := range t.oldest {
			if v := t.oldest[i].Load(); v < since {
				victim, since = i, v
			}
		}
		if victim < 0 {
			return // all that is left is in flight
		}
		t.evict(&t.shards[victim], since, at)
	}
}

// evict takes the first session out of the shard's wheel: out of the table if
// it has not been used since it was noted as the oldest, and else to its new
// place.
func (t *Table[H]) evict(sh *shard[H], since, at int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	// Nobody may have swept for long. The wheel knows the order of no more than
	// two TTLs ahead of its hand.
	t.advance(sh, at)
	s := sh.wheel.first()
	if s == nil || t.n.Load() <= t.max {
		return
	}
	t.unfile(sh, s)
	// Filing it anew would not move it if it is at the end of what the wheel
	// knows already.
	stuck := s.filed == sh.wheel.last()
	switch {
	case t.inFlight(s):
	case s.lastUse.Load() != since && !stuck:
		t.file(sh, s)
	case !s.claim():
	case s.lastUse.Load() != since && !stuck: // used, and done, just before the claim
		s.unclaim()
		t.file(sh, s)
	default:
		t.remove(sh, s)
	}
}
