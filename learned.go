package warmroute

import (
	"math"
	"sync/atomic"
)

// learned is what a member's answers teach of it.
type learned struct {
	prefillRate atomic.Uint64 // bits of a float64: computed prompt tokens a second
	maxRunning  atomic.Int64  // most requests its engine was seen to run; see also pool.learn
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
