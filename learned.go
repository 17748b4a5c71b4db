package warmroute

import (
	"math"
	"sync/atomic"
	"time"
)

// learned is what a member's answers teach of it.
type learned struct {
	prefillRate atomic.Uint64 // bits of a float64: computed prompt tokens a second
	maxRunning  atomic.Int64  // most requests its engine was seen to run
}

// minPrefill is how many computed tokens make a first byte's time say something
// of the speed of prefill, and not of the way there.
const minPrefill = 256

// learn takes in a finished request.
func (m *member) learn(l Lease, res Result) {
	computed := res.Usage.Prompt - res.Usage.Cached
	// With others in flight the first byte waited for them too.
	if !l.alone || res.FirstByte <= 0 || !res.Usage.Measured || res.Err != nil || computed < minPrefill {
		return
	}
	rate := float64(computed) / res.FirstByte.Seconds()
	if old := m.learned.rate(); old > 0 {
		rate = 0.8*old + 0.2*rate
	}
	m.learned.prefillRate.Store(math.Float64bits(rate))
}

func (l *learned) rate() float64 { return math.Float64frombits(l.prefillRate.Load()) }

func (l *learned) running(n int) {
	if old := l.maxRunning.Load(); int64(n) > old {
		l.maxRunning.CompareAndSwap(old, int64(n))
	}
}

// gapBounds are the upper ends of the pauses between turns that survival tells
// apart; the last has none.
var gapBounds = [...]time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, math.MaxInt64}

// survival counts, by the pause before a turn, whether the cache was still
// there after it.
type survival struct {
	gaps [len(gapBounds)]struct{ turns, kept atomic.Uint64 }
}

func (s *survival) add(gap time.Duration, kept bool) {
	i := 0
	for gap > gapBounds[i] {
		i++
	}
	s.gaps[i].turns.Add(1)
	if kept {
		s.gaps[i].kept.Add(1)
	}
}

// GapStats is how often a conversation's cache was still there after a pause.
type GapStats struct {
	// UpTo is the longest pause counted here, in seconds; nil for any longer one
	// than the last.
	UpTo *float64 `json:"up_to_s"`
	// Turns were verified or lost after such a pause; Kept of them verified.
	Turns uint64 `json:"turns"`
	Kept  uint64 `json:"kept"`
}

func (s *survival) stats() []GapStats {
	out := make([]GapStats, len(s.gaps))
	for i := range s.gaps {
		out[i] = GapStats{Turns: s.gaps[i].turns.Load(), Kept: s.gaps[i].kept.Load()}
		if i < len(s.gaps)-1 {
			seconds := gapBounds[i].Seconds()
			out[i].UpTo = &seconds
		}
	}
	return out
}
