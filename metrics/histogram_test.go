package metrics_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

func TestNewHistogramRefuses(t *testing.T) {
	for name, bounds := range map[string][]float64{
		"none":     nil,
		"NaN":      {1, math.NaN()},
		"+Inf":     {1, math.Inf(1)},
		"-Inf":     {math.Inf(-1), 1},
		"unsorted": {1, 3, 2},
		"twice":    {1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := metrics.NewHistogram(bounds...)
			require.ErrorContains(t, err, "bound")
			assert.Nil(t, h)
		})
	}
}

func TestHistogramBuckets(t *testing.T) {
	bounds := []float64{-1, 0, 0.5, 2}
	h, err := metrics.NewHistogram(bounds...)
	require.NoError(t, err)
	bounds[0] = 99 // the histogram has its own
	for _, v := range []float64{-2, -1, -0.5, 0, 0.25, 0.5, 0.75, 2, 2.5, 100, math.NaN(), math.Inf(1), math.Inf(-1)} {
		h.Observe(v)
	}
	assert.Equal(t, metrics.HistogramSnapshot{
		Bounds: []float64{-1, 0, 0.5, 2},
		Counts: []uint64{2, 2, 2, 2, 2},
		Count:  10,
		Sum:    102.5,
	}, h.Snapshot())
}

func TestHistogramConcurrent(t *testing.T) {
	const goroutines, each = 8, 2000
	h, err := metrics.NewHistogram(0.25, 0.5)
	require.NoError(t, err)
	var wait sync.WaitGroup
	for range goroutines {
		wait.Go(func() {
			for i := range each {
				h.Observe(float64(i % 2)) // whole numbers: the order of the sum does not matter
				if i%100 == 0 {
					s := h.Snapshot()
					assert.Equal(t, s.Count, s.Counts[0]+s.Counts[1]+s.Counts[2])
				}
			}
		})
	}
	wait.Wait()
	assert.Equal(t, metrics.HistogramSnapshot{
		Bounds: []float64{0.25, 0.5},
		Counts: []uint64{goroutines * each / 2, 0, goroutines * each / 2},
		Count:  goroutines * each,
		Sum:    goroutines * each / 2,
	}, h.Snapshot())
}

func TestObserveDoesNotAllocate(t *testing.T) {
	h, err := metrics.NewHistogram(0.1, 1, 10)
	require.NoError(t, err)
	assert.Zero(t, testing.AllocsPerRun(1000, func() { h.Observe(rand.Float64()) }))
}

func BenchmarkObserve(b *testing.B) {
	h, err := metrics.NewHistogram(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
	require.NoError(b, err)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			h.Observe(0.3)
		}
	})
}
