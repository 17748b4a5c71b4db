package bench

import (
	"math/rand/v2"
	"time"
)

// OpenLoop is conversations as those of [SeedTable] that begin at times of their
// own, whatever is going on: 2, 4, 6 and 8 a minute on average, independently
// of each other, for ten minutes each. Where more begin than the engines can
// serve, the queues grow for as long as the step lasts.
func OpenLoop() Workload {
	w := SeedTable()
	w.Name = "open loop"
	w.About = "open loop, sessions a minute by a Poisson process; conversations of the seed table; 10 minutes a step, each cold"
	w.Arrivals = Poisson(time.Minute)
	w.Steps, w.StepTime, w.Cold = []int{2, 4, 6, 8}, 10*time.Minute, true
	w.Published = nil
	return w
}

// Bursts is [OpenLoop] with conversations that begin eight at a time, as many a
// minute on average.
func Bursts() Workload {
	w := OpenLoop()
	w.Name = "bursts"
	w.About = "open loop, sessions a minute in bursts of eight; conversations of the seed table; 10 minutes a step, each cold"
	w.Arrivals = InBursts(8, time.Minute)
	return w
}

// burstGap is the time between the conversations of a burst.
const burstGap = time.Millisecond

// InBursts is a [Workload].Arrivals: as [Poisson], but so many conversations
// begin together, a millisecond apart. A size below 1 is taken for 1.
func InBursts(size int, period time.Duration) func(*rand.Rand, int) func() time.Duration {
	size = max(1, size)
	return func(rng *rand.Rand, sessions int) func() time.Duration {
		gap := Exponential(period / time.Duration(sessions) * time.Duration(size))
		left := 0 // of the burst
		return func() time.Duration {
			if left == 0 {
				left = size - 1
				return gap(rng)
			}
			left--
			return burstGap
		}
	}
}
