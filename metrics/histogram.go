package metrics

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
)

// Histogram counts observations in buckets with fixed upper bounds. It is safe
// for concurrent use and takes no lock. Use [NewHistogram].
type Histogram struct {
	bounds []float64
	counts []atomic.Uint64 // one more than bounds: the last has no upper bound
	sum    atomic.Uint64   // bits of a float64
}

// NewHistogram returns an empty histogram. A value counts in the first bucket
// whose bound is not below it; above the last bound there is one more bucket
// without a bound. The bounds must be finite, at least one, and each above the
// one before.
func NewHistogram(bounds ...float64) (*Histogram, error) {
	if len(bounds) == 0 {
		return nil, errors.New("metrics: histogram without bounds")
	}
	for i, bound := range bounds {
		switch {
		case math.IsNaN(bound) || math.IsInf(bound, 0):
			return nil, fmt.Errorf("metrics: histogram bound %v is not finite", bound)
		case i > 0 && bound <= bounds[i-1]:
			return nil, fmt.Errorf("metrics: histogram bound %v is not above %v", bound, bounds[i-1])
		}
	}
	return &Histogram{bounds: slices.Clone(bounds), counts: make([]atomic.Uint64, len(bounds)+1)}, nil
}

// Observe counts a value. It does not allocate. NaN and infinite values are
// ignored: one of them would spoil the sum for good.
func (h *Histogram) Observe(value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	bucket, _ := slices.BinarySearch(h.bounds, value)
	h.counts[bucket].Add(1)
	for {
		old := h.sum.Load()
		if h.sum.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+value)) {
			return
		}
	}
}

// Snapshot returns what has been observed. Count is the sum of the buckets;
// values observed while it runs may be in the buckets and not yet in the sum,
// or the other way about.
func (h *Histogram) Snapshot() HistogramSnapshot {
	s := HistogramSnapshot{
		Bounds: slices.Clone(h.bounds),
		Counts: make([]uint64, len(h.counts)),
	}
	for i := range h.counts {
		s.Counts[i] = h.counts[i].Load()
		s.Count += s.Counts[i]
	}
	s.Sum = math.Float64frombits(h.sum.Load())
	return s
}

// HistogramSnapshot is a histogram at one moment.
type HistogramSnapshot struct {
	Bounds []float64 // upper bounds of all buckets but the last
	Counts []uint64  // observations in each bucket, not cumulative; one more than Bounds
	Count  uint64    // observations in all buckets
	Sum    float64   // of the observed values
}
