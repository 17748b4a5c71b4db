package bench

import (
	"math/rand/v2"
	"time"
)

// Exponential is a distribution of times with the given mean, as for
// [Workload].Think.
func Exponential(mean time.Duration) func(*rand.Rand) time.Duration {
	return func(rng *rand.Rand) time.Duration { return time.Duration(rng.ExpFloat64() * float64(mean)) }
}

// Poisson is a [Workload].Arrivals: in a step of n sessions, n conversations
// begin in each period on average, independently of each other. With a period
// as long as a conversation lasts about n go on at a time. The period has to be
// above 0: else they all begin at once, without end.
func Poisson(period time.Duration) func(*rand.Rand, int) func() time.Duration {
	return func(rng *rand.Rand, sessions int) func() time.Duration {
		gap := Exponential(period / time.Duration(sessions))
		return func() time.Duration { return gap(rng) }
	}
}
