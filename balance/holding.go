package balance

import (
	"math"
	"slices"
	"time"
)

const firstHold = 100 * time.Millisecond

// gaps learns how long an idle resident should keep its room from the pauses
// that conversations make.
//
// Keeping f tokens for a pause of g seconds costs f*g token-seconds of KV.
// Losing them costs f/P seconds of prefill, P tokens a second, during which the
// whole cache of C tokens makes no headway: f*C/P token-seconds, of which half
// is reckoned. So the best hold is the one for which
//
//	P(pause <= hold) * C/(2P) - E[min(pause, hold)]
//
// is greatest, whatever f is.
type gaps struct {
	last [256]time.Duration // a ring; math.MaxInt64 for a conversation that ended
	n    int
	hold time.Duration
	// sorted are the last ones when hold was derived, the first of them finite.
	sorted []time.Duration
	finite int
	// pays says that keeping room gains a good part of the most that it could.
	pays bool
}

func (g *gaps) add(pause time.Duration) {
	g.last[g.n%len(g.last)] = pause
	g.n++
}

// derive sets hold. benefit is C/P in seconds.
func (g *gaps) derive(benefit float64) {
	if g.n < 16 || benefit <= 0 {
		return
	}
	benefit /= 2
	g.sorted = append(g.sorted[:0], g.last[:min(g.n, len(g.last))]...)
	slices.Sort(g.sorted)
	n, sum := float64(len(g.sorted)), 0.0
	best, most := time.Duration(0), 0.0
	g.finite = 0
	for i, pause := range g.sorted {
		if pause > maxHold {
			break
		}
		g.finite++
		k := float64(i + 1)
		x := pause.Seconds()
		sum += x
		if v := k/n*benefit - (sum+(n-k)*x)/n; v > most {
			best, most = pause, v
		}
	}
	g.hold = min(maxHold, best+best/5+5*time.Millisecond)
	g.pays = most >= 0.15*benefit
}

// returns is how likely a conversation that has paused for so long is to come
// back within maxHold, 1 being the chance of one whose turn has just ended.
func (g *gaps) returns(pause time.Duration) float64 {
	if len(g.sorted) == 0 {
		return 1
	}
	over, _ := slices.BinarySearch(g.sorted, pause)
	if over >= g.finite {
		return 0
	}
	n := float64(len(g.sorted))
	return float64(g.finite-over) / (n - float64(over)) * n / float64(g.finite)
}

// waits is the mean of how long turns waited, those that did not included, over
// about the last minute.
type waits struct {
	sum, weight float64 // seconds, turns
	at          time.Time
	asked       time.Time // when the mean was last asked for, and what it was, if none was added since
	answer      time.Duration
}

func (w *waits) decay(now time.Time) (sum, weight float64) {
	k := 1.0
	if !w.at.IsZero() {
		k = math.Exp(-now.Sub(w.at).Seconds() / 60)
	}
	return w.sum * k, w.weight * k
}

func (w *waits) add(wait time.Duration, now time.Time) {
	w.sum, w.weight = w.decay(now)
	w.sum += max(0, wait.Seconds())
	w.weight++
	w.at, w.asked = now, time.Time{}
}

func (w *waits) mean(now time.Time) time.Duration {
	if !w.asked.IsZero() && w.asked.Equal(now) {
		return w.answer // it is asked for each room of each turn that waits
	}
	w.asked, w.answer = now, 0
	if sum, weight := w.decay(now); weight >= 1 {
		w.answer = time.Duration(sum / weight * float64(time.Second))
	}
	return w.answer
}
