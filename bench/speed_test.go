package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/bench"
)

// BenchmarkStep is the wall time of one simulated step of 32 sessions.
func BenchmarkStep(b *testing.B) {
	for _, length := range []time.Duration{3 * time.Minute, time.Hour} {
		for _, interval := range []int{1, 16} {
			b.Run(fmt.Sprintf("%v/stream-interval=%d", length, interval), func(b *testing.B) {
				w := bench.SeedTable()
				w.Steps, w.StepTime, w.Engines.StreamInterval = []int{32}, length, interval
				for b.Loop() {
					_, err := bench.Run(b.Context(), w, bench.Affinity(), 1)
					require.NoError(b, err)
				}
			})
		}
	}
}
