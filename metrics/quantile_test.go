package metrics_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/warmroute/warmroute/metrics"
)

func TestQuantile(t *testing.T) {
	for name, tc := range map[string]struct {
		bounds []float64
		values []float64
		q      float64
		want   float64
	}{
		"middle of the only bucket":     {[]float64{1, 2}, []float64{.5, .5}, .5, .5},
		"all of the first bucket":       {[]float64{1, 2}, []float64{.5, .5}, 1, 1},
		"second of two buckets":         {[]float64{1, 2, 4}, []float64{1, 3}, .75, 3},
		"lowest value":                  {[]float64{1, 2, 4}, []float64{3, 3}, 0, 2},
		"skips empty buckets":           {[]float64{1, 2, 4, 8}, []float64{.5, 5, 5, 5}, .5, 4 + 4.0/3},
		"above the last bound":          {[]float64{1, 2}, []float64{9, 9}, .5, 2},
		"above the last bound in part":  {[]float64{1, 2}, []float64{1, 1, 1, 9}, .95, 2},
		"first bound not above nothing": {[]float64{-1, 2}, []float64{-5}, .5, -1},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := metrics.NewHistogram(tc.bounds...)
			require.NoError(t, err)
			for _, v := range tc.values {
				h.Observe(v)
			}
			got, ok := h.Snapshot().Quantile(tc.q)
			require.True(t, ok)
			assert.InDelta(t, tc.want, got, 1e-9)
		})
	}
}

func TestQuantileUnknown(t *testing.T) {
	h, err := metrics.NewHistogram(1, 2)
	require.NoError(t, err)
	_, ok := h.Snapshot().Quantile(.5)
	assert.False(t, ok, "nothing observed")
	h.Observe(1)
	for _, q := range []float64{-.1, 1.1, math.NaN()} {
		_, ok = h.Snapshot().Quantile(q)
		assert.False(t, ok, "%v", q)
	}
	_, ok = metrics.HistogramSnapshot{Counts: []uint64{1}, Bounds: []float64{1}}.Quantile(.5)
	assert.False(t, ok, "a bucket is missing")
	_, ok = metrics.HistogramSnapshot{}.Quantile(.5)
	assert.False(t, ok)
}
