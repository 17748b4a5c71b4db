package warmroute

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// gapBounds are the upper ends of the pauses between turns that survival tells
// apart; the last has none.
var gapBounds = [...]time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, math.MaxInt64}

// noGap is the gap of a turn that says nothing of pauses.
const noGap time.Duration = math.MinInt64

func gapOf(gap time.Duration) int {
	i := 0
	for gap > gapBounds[i] {
		i++
	}
	return i
}

// survival learns, by the pause before a turn, how much of what the turn before
// left is still in the cache after it, beyond what any replica has: of one member, or of a pool, from which
// members that have shown nothing yet are judged. It is safe for concurrent use.
type survival struct {
	gaps [len(gapBounds)]struct{ turns, kept atomic.Uint64 } // ever
	// lossUntil is until when, in Unix ns, something that was lost still counts.
	lossUntil atomic.Int64

	mu     sync.Mutex
	recent [len(gapBounds)]struct{ turns, kept float64 } // as of at
	at     time.Time
}

const (
	// survivalHalfLife is the time after which a turn counts half: loads change,
	// and conversations that are placed elsewhere say no more of their homes.
	survivalHalfLife = 10 * time.Minute
	// survivalPrior is how many turns that found everything an estimate begins
	// with. Of nothing but losses it takes 25 to bring it below a quarter.
	survivalPrior = 8
	// lossCounts is how long a loss counts. Then it weighs less than a thousandth.
	lossCounts = 10 * survivalHalfLife
	// doubtBelow is the part of its prefix that a conversation must be expected to
	// find at home for that to outweigh load.
	doubtBelow = 0.25
)

// add takes in a turn: whether all was kept, and which part of it, 0 to 1.
func (s *survival) add(gap time.Duration, all bool, part float64, now time.Time) {
	i := gapOf(gap)
	s.gaps[i].turns.Add(1)
	if all {
		s.gaps[i].kept.Add(1)
	} else {
		s.lossUntil.Store(now.Add(lossCounts).UnixNano())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.faded(now)
	for j := range s.recent {
		s.recent[j].turns *= old
		s.recent[j].kept *= old
	}
	s.at = now
	s.recent[i].turns++
	s.recent[i].kept += part
}

// faded is what is left by now of a turn's weight. The lock is held.
func (s *survival) faded(now time.Time) float64 {
	return math.Exp2(-max(0, now.Sub(s.at)).Seconds() / survivalHalfLife.Seconds())
}

// lossless reports whether nothing was lost lately.
func (s *survival) lossless(now time.Time) bool { return now.UnixNano() >= s.lossUntil.Load() }

// estimates are the parts that are expected to be kept, by gap, upon a prior for
// each: that all is kept if there is none, and no more than after the next shorter
// pause, since an LRU cache keeps no more for longer.
func (s *survival) estimates(prior *[len(gapBounds)]float64, now time.Time) (out [len(gapBounds)]float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	weight, shorter := s.faded(now), 1.0
	for i := range out {
		p := shorter
		if prior != nil {
			p = min(shorter, prior[i])
		}
		turns, kept := weight*s.recent[i].turns, weight*s.recent[i].kept
		out[i] = (kept + survivalPrior*p) / (turns + survivalPrior)
		shorter = out[i]
	}
	return out
}

// lost is the part of what a conversation's last turn left on the member that is
// probably not there any more, 0 to 1: exactly 0 if the pool has lost nothing
// lately.
func (m *member) lost(gap time.Duration, now time.Time) float64 {
	p := &m.pool.survival
	if p.lossless(now) {
		return 0
	}
	prior := p.estimates(nil, now)
	return min(max(0, 1-m.survival.estimates(&prior, now)[gapOf(gap)]), 1)
}

// GapStats is how often a conversation's cache was still there after a pause.
type GapStats struct {
	// UpTo is the longest pause counted here, in seconds; nil for any longer one
	// than the last.
	UpTo *float64 `json:"up_to_s"`
	// Turns were verified or lost after such a pause; Kept of them verified.
	Turns uint64 `json:"turns"`
	Kept  uint64 `json:"kept"`
	// Expected is the part of its own prefix, 0 to 1, that a conversation is expected
	// to find after such a pause, beyond what all of them share. Older turns count less, half after ten minutes. A
	// replica's estimate begins with the pool's, the pool's with 1, and each with no
	// more than is expected after the next shorter pause, as if 8 turns had shown
	// it. Below 0.25 a conversation no longer stays at home against load.
	Expected float64 `json:"expected"`
}

func (s *survival) stats(expected [len(gapBounds)]float64) []GapStats {
	out := make([]GapStats, len(s.gaps))
	for i := range s.gaps {
		kept := s.gaps[i].kept.Load() // first: it must not be more than the turns
		out[i] = GapStats{Turns: s.gaps[i].turns.Load(), Kept: kept, Expected: expected[i]}
		if i < len(s.gaps)-1 {
			seconds := gapBounds[i].Seconds()
			out[i].UpTo = &seconds
		}
	}
	return out
}

// upTo is the longest pause as a label.
func (g *GapStats) upTo() string {
	if g.UpTo == nil {
		return "+Inf"
	}
	return strconv.FormatFloat(*g.UpTo, 'f', -1, 64)
}
